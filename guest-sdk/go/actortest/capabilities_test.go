package actortest_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/config"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/http"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

type Caller struct {
	Calls int `json:"calls,omitempty"`
}

func (*Caller) Region(ctx *actor.Context, name string) (string, error) { return config.Get(ctx, name) }
func (*Caller) Key(ctx *actor.Context, name string) (string, error)    { return config.Secret(ctx, name) }

type Sent struct {
	Method, URL string
	Timeout     time.Duration
}

func (c *Caller) Send(ctx *actor.Context, in Sent) (string, error) {
	c.Calls++
	r, err := http.Do(ctx, http.Request{Method: in.Method, URL: in.URL, Body: []byte("ping"), Timeout: in.Timeout,
		Headers: []http.Header{{Name: "X-Key", Value: "k"}}, NoRedirects: true})
	if err != nil {
		return "", err
	}
	return string(r.Body) + " " + r.Header("Content-Type"), nil
}

func (*Caller) Fetch(ctx *actor.Context, url string) (int, error) {
	r, err := http.Get(ctx, url)
	if err != nil {
		return 0, err
	}
	return r.Status, nil
}

func (*Caller) Push(ctx *actor.Context, url string) (bool, error) {
	r, err := http.Post(ctx, url, "text/plain", nil)
	return err == nil && r.OK(), err
}

func init() {
	actor.Register("Caller",
		actor.Capabilities{HTTP: []string{"*.example.com", "http://local:8080"}, Config: []string{"region"}, Secrets: []string{"key"}},
		actor.Method("Send", (*Caller).Send),
		actor.ReadOnly("Region", (*Caller).Region), actor.ReadOnly("Key", (*Caller).Key),
		actor.ReadOnly("Fetch", (*Caller).Fetch), actor.ReadOnly("Push", (*Caller).Push),
	)
}

func TestConfigAndSecrets(t *testing.T) {
	h := actortest.New(t)
	for method, set := range map[string]func(name, value string){"Region": h.SetConfig, "Key": h.SetSecret} {
		name := map[string]string{"Region": "region", "Key": "key"}[method]
		var got string
		err := h.Call("Caller", "a", method, name, &got)
		if !errors.Is(err, config.ErrNotSet) {
			t.Errorf("%s before it is set: %v", method, err)
		}
		set(name, strings.Repeat("v", 1000)) // longer than the first buffer
		set("other", "x")
		if err := h.Call("Caller", "a", method, name, &got); err != nil || got != strings.Repeat("v", 1000) {
			t.Errorf("%s: %q, %v", method, got, err)
		}
		if err := h.Call("Caller", "a", method, "other", &got); !errors.Is(err, config.ErrDenied) || !strings.Contains(err.Error(), "Capabilities") {
			t.Errorf("%s of what is not declared: %v", method, err)
		}
	}
}

func TestHTTP(t *testing.T) {
	h := actortest.New(t)
	in := Sent{Method: "PUT", URL: "https://api.example.com/x", Timeout: 1500*time.Millisecond + 1}
	if err := h.Call("Caller", "a", "Send", in, nil); !errors.Is(err, http.ErrDenied) {
		t.Errorf("without a grant: %v", err)
	}
	var sent []http.Request
	h.HandleHTTP(func(r http.Request) (*http.Response, error) {
		sent = append(sent, r)
		if strings.HasSuffix(r.URL, "/down") {
			return nil, errors.New("connection refused")
		}
		return &http.Response{Status: 201, Headers: []http.Header{{Name: "Content-Type", Value: "text/pong"}}, Body: []byte("pong")}, nil
	})
	var got string
	if err := h.Call("Caller", "a", "Send", in, &got); err != nil || got != "pong text/pong" {
		t.Errorf("got %q, %v", got, err)
	}
	want := []http.Request{{Method: "PUT", URL: in.URL, Headers: []http.Header{{Name: "x-key", Value: "k"}}, Body: []byte("ping"),
		Timeout: 1501 * time.Millisecond, NoRedirects: true}}
	if !reflect.DeepEqual(sent, want) {
		t.Errorf("sent %+v, want %+v", sent, want)
	}
	var status int
	if err := h.Call("Caller", "a", "Fetch", "http://local:8080/", &status); err != nil || status != 201 {
		t.Errorf("got %d, %v", status, err)
	}
	for url, want := range map[string]string{
		"https://example.org/":         "http_denied",
		"https://example.com/":         "http_denied",
		"http://api.example.com/":      "http_denied",
		"/relative":                    "http_invalid_request",
		"https://api.example.com/down": "http_unreachable",
	} {
		if err := h.Call("Caller", "a", "Send", Sent{URL: url}, nil); code(err) != want {
			t.Errorf("%q: %v, want %s", url, err, want)
		}
	}
	if err := h.Call("Caller", "a", "Push", "https://api.example.com/", nil); code(err) != "http_read_only" {
		t.Errorf("POST in a read-only method: %v", err)
	}
	if got := h.State("Caller", "a")["calls"]; got != "1" {
		t.Errorf("the turns that failed left %s calls", got)
	}
}
