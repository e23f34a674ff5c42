// Command webhook is a Greenroom guest with one actor type, Webhook: a subscriber's
// address, to which events are posted and signed. It shows what an actor may use
// beyond its state: HTTP, configuration and a secret, each declared below and
// granted to the app.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/config"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/http"
)

// Webhook is the state of one subscriber.
type Webhook struct {
	URL       string `json:"url,omitempty"`
	Delivered int    `json:"delivered,omitempty"`
	// Failure is why the last delivery did not succeed, empty if it did.
	Failure string `json:"failure,omitempty"`
}

// Event is what is delivered.
type Event struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data"`
}

var errNoURL = actor.Errorf("no_url", "the webhook has no URL; call Subscribe first")

// Subscribe sets where events go.
func (w *Webhook) Subscribe(_ *actor.Context, url string) (actor.None, error) {
	w.URL, w.Failure = url, ""
	return actor.None{}, nil
}

// Deliver posts an event, and reports whether the subscriber took it. That it did
// not is remembered, not returned as an error: an error would undo the turn.
func (w *Webhook) Deliver(ctx *actor.Context, e Event) (bool, error) {
	if w.URL == "" {
		return false, errNoURL
	}
	key, err := config.SecretBytes(ctx, "signing_key")
	if err != nil {
		return false, err
	}
	sender, err := config.Get(ctx, "sender")
	if err != nil {
		return false, err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return false, err
	}
	res, err := http.Do(ctx, http.Request{
		Method: "POST", URL: w.URL, Body: body, Timeout: 3 * time.Second,
		Headers: []http.Header{
			{Name: "Content-Type", Value: "application/json"},
			{Name: "User-Agent", Value: sender},
			{Name: "X-Signature", Value: sign(key, body)},
			// The same when the turn runs again, so that the subscriber can tell.
			{Name: "X-Delivery", Value: ctx.InvocationID()},
		},
	})
	switch {
	case err != nil:
		w.Failure = err.Error()
	case !res.OK():
		w.Failure = "status " + strconv.Itoa(res.Status)
	default:
		w.Delivered++
		w.Failure = ""
	}
	return w.Failure == "", nil
}

// Get returns the webhook.
func (w *Webhook) Get(*actor.Context, actor.None) (Webhook, error) { return *w, nil }

// sign returns what proves to a subscriber who sent the body.
func sign(key, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func init() {
	actor.Register("Webhook",
		actor.Capabilities{
			HTTP:    []string{"*", "http://*:*"}, // subscribers are data; grants decide
			Config:  []string{"sender"},
			Secrets: []string{"signing_key"},
		},
		actor.Method("Subscribe", (*Webhook).Subscribe),
		actor.Method("Deliver", (*Webhook).Deliver),
		actor.ReadOnly("Get", (*Webhook).Get),
	)
}

func main() {}
