package client

import (
	"context"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

func TestTyped(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	c := newClient(t, "http://"+s.Addr().String(), nil)
	type value struct{ N int }
	if got, err := Call[value](t.Context(), c, "T", "a", "Echo", value{7}); err != nil || got.N != 7 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := Call[*value](t.Context(), c, "T", "a", "Echo", nil); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Call[int](t.Context(), c, "T", "a", "Echo", "text"); err == nil {
		t.Error("a string was decoded as an int")
	}
	before := h.called()
	if _, err := Call[int](t.Context(), c, "T", "a", "Echo", func() {}); err == nil || h.called() != before {
		t.Errorf("a function was sent: %v", err)
	}
	h.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		if !inv.ReadOnly {
			t.Error("not read-only")
		}
		contentType := map[string]string{"JSON": "application/problem+json; charset=utf-8", "Other": "text/plain"}[inv.Method]
		return actor.Reply{Payload: actor.Payload{ContentType: contentType, Data: []byte("1")}}, nil
	})
	if got, err := Read[int](t.Context(), c, "T", "a", "JSON", nil); err != nil || got != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Read[int](t.Context(), c, "T", "a", "Other", nil); err == nil {
		t.Error("text was decoded as JSON")
	}
}
