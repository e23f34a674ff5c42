package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/config"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/http"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

const url = "https://subscriber.example/hook"

var event = Event{Name: "order.paid", Data: json.RawMessage(`{"order":7}`)}

// subscribed returns a harness with all that the type uses, and one subscriber.
func subscribed(t *testing.T) *actortest.Harness {
	t.Helper()
	h := actortest.New(t)
	h.SetConfig("sender", "shop/1.0")
	h.SetSecret("signing_key", "hush")
	if err := h.Call("Webhook", "ann", "Subscribe", url, nil); err != nil {
		t.Fatal(err)
	}
	return h
}

func deliver(t *testing.T, h *actortest.Harness) (taken bool, after Webhook) {
	t.Helper()
	if err := h.Call("Webhook", "ann", "Deliver", event, &taken); err != nil {
		t.Fatal(err)
	}
	if err := h.Call("Webhook", "ann", "Get", nil, &after); err != nil {
		t.Fatal(err)
	}
	return taken, after
}

func TestDeliver(t *testing.T) {
	h := subscribed(t)
	h.HandleHTTP(func(r http.Request) (*http.Response, error) {
		headers := map[string]string{}
		for _, header := range r.Headers {
			headers[header.Name] = header.Value
		}
		want := `{"name":"order.paid","data":{"order":7}}`
		if r.URL != url || string(r.Body) != want || headers["user-agent"] != "shop/1.0" || headers["x-delivery"] == "" ||
			headers["x-signature"] != sign([]byte("hush"), []byte(want)) {
			t.Errorf("sent %s %q %v", r.URL, r.Body, headers)
		}
		return &http.Response{Status: 204}, nil
	})
	for n := 1; n <= 2; n++ {
		if taken, w := deliver(t, h); !taken || w.Delivered != n || w.Failure != "" {
			t.Errorf("%t, %+v", taken, w)
		}
	}
}

func TestFailuresAreRemembered(t *testing.T) {
	h := subscribed(t)
	status := 503
	h.HandleHTTP(func(http.Request) (*http.Response, error) {
		if status == 0 {
			return nil, errors.New("connection refused")
		}
		return &http.Response{Status: status}, nil
	})
	if taken, w := deliver(t, h); taken || w.Failure != "status 503" {
		t.Errorf("%t, %+v", taken, w)
	}
	status = 0
	if taken, w := deliver(t, h); taken || w.Failure != "http_unreachable: HTTP request: connection refused" {
		t.Errorf("%t, %+v", taken, w)
	}
	status = 200
	if taken, w := deliver(t, h); !taken || w.Failure != "" || w.Delivered != 1 {
		t.Errorf("%t, %+v", taken, w)
	}
}

func TestWhatIsMissingIsAnError(t *testing.T) {
	h := actortest.New(t)
	err := h.Call("Webhook", "ann", "Deliver", event, nil)
	if !errors.Is(err, errNoURL) {
		t.Errorf("got %v", err)
	}
	if err := h.Call("Webhook", "ann", "Subscribe", url, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Call("Webhook", "ann", "Deliver", event, nil); !errors.Is(err, config.ErrNotSet) {
		t.Errorf("without the secret: %v", err)
	}
	h.SetSecret("signing_key", "hush")
	h.SetConfig("sender", "x")
	if taken, w := deliver(t, h); taken || fmt.Sprint(w.Failure)[:11] != "http_denied" {
		t.Errorf("without a grant: %t, %+v", taken, w)
	}
}
