package server

import (
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
)

func TestIdempotencyKey(t *testing.T) {
	long := strings.Repeat("k", actor.MaxIdempotencyKeyLen)
	for _, tt := range []struct {
		values []string
		want   string
		ok     bool
	}{
		{nil, "", true},
		{[]string{"8e03978e-40d5"}, "8e03978e-40d5", true},
		{[]string{`"8e03978e-40d5"`}, "8e03978e-40d5", true},
		{[]string{`"a \"b\" \\c"`}, `a "b" \c`, true},
		{[]string{`a"b`}, `a"b`, true},
		{[]string{"a b"}, "a b", true},
		{[]string{long}, long, true},
		{[]string{`"` + long + `"`}, long, true},
		{[]string{long + "k"}, "", false},
		{[]string{""}, "", false},
		{[]string{`""`}, "", false},
		{[]string{`"`}, "", false},
		{[]string{`"a`}, "", false},
		{[]string{`"a"b`}, "", false},
		{[]string{`"a";q=1`}, "", false},
		{[]string{`"a\`}, "", false},
		{[]string{`"a\n"`}, "", false},
		{[]string{"ü"}, "", false},
		{[]string{"a\tb"}, "", false},
		{[]string{"a", "b"}, "", false},
	} {
		got, err := edge.IdempotencyKey(http.Header{edge.HeaderIdempotencyKey: tt.values})
		if (err == nil) != tt.ok || tt.ok && got != tt.want {
			t.Errorf("%q: %q, %v", tt.values, got, err)
		}
	}
}

// TestIdempotencyKeyReachesTheHost in every protocol.
func TestIdempotencyKeyReachesTheHost(t *testing.T) {
	f := start(t, nil)
	for _, p := range protocols() {
		actors := greenroomv1connect.NewActorServiceClient(client(t, p.http2), f.url, p.opts...)
		call := func(key string) error {
			req := connect.NewRequest(&greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{Type: "T", Id: "a"}, Method: "M"})
			req.Header().Set(edge.HeaderIdempotencyKey, key)
			_, err := actors.Invoke(t.Context(), req)
			return err
		}
		if err := call(`"a b"`); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		if inv, _ := f.host.last(); inv.IdempotencyKey != "a b" {
			t.Errorf("%s: the host got %q", p.name, inv.IdempotencyKey)
		}
		wantError(t, call(`"a`), connect.CodeInvalidArgument, "invalid_argument")
		if inv, called := f.host.last(); called {
			t.Errorf("%s: the host was called: %+v", p.name, inv)
		}
	}
	for _, method := range []string{"PUT", "POST", "GET"} {
		a := do(t, client(t, false), method, f.url+actorPath(key("a"), "GetIt"), "", edge.HeaderIdempotencyKey, "k1")
		want := map[bool]string{true: "k1"}[method != "GET"] // a read has nothing to record
		if inv, _ := f.host.last(); a.StatusCode != http.StatusOK || inv.IdempotencyKey != want {
			t.Errorf("%s: %s; the host got %q", method, a.Status, inv.IdempotencyKey)
		}
	}
	if a := do(t, client(t, false), "PUT", f.url+actorPath(key("a"), "M"), "", edge.HeaderIdempotencyKey, strings.Repeat("k", 256)); a.StatusCode != http.StatusBadRequest {
		t.Errorf("a key of 256 bytes: %s", a.Status)
	}
	f.host.fails(actor.ErrKeyReused)
	if a := do(t, client(t, false), "PUT", f.url+actorPath(key("a"), "M"), "", edge.HeaderIdempotencyKey, "k"); a.StatusCode != http.StatusUnprocessableEntity || a.failure(t).Kind != "idempotency_key_reused" {
		t.Errorf("a key used again: %s %s", a.Status, a.body)
	}
}
