package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/failure"
)

// TestHealthFlips: watchers hear of every change, and of nothing else.
func TestHealthFlips(t *testing.T) {
	h := newHealth(slog.New(slog.DiscardHandler))
	changed := h.Now().Changed
	h.set(context.DeadlineExceeded, false) // still not ready
	select {
	case <-changed:
		t.Error("told although nothing changed")
	default:
	}
	h.set(nil, false)
	<-changed
	if err := h.Now().err; err != nil {
		t.Error(err)
	}
	h.Stop()
	h.set(nil, false)
	if now := h.Now(); now.err == nil || !now.Stopped {
		t.Error("ready after stop")
	}
}

// TestReadySaysWhy: what can be done about it is said to anybody, but no paths
// and addresses.
func TestReadySaysWhy(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{
			fmt.Errorf("/var/private/data: %w", &actor.SpaceError{Free: 3 << 20, Minimum: 64 << 20}),
			"the disk of the server's data has 3 MiB left, and 64 MiB must stay free: nothing can be written; make space",
		},
		{
			fmt.Errorf("private statement: %w: of a private address", &actor.UnwritableError{Reason: "it is read-only"}),
			"the database takes no writes: it is read-only",
		},
		{fmt.Errorf("dial private.example: %w", actor.ErrUnavailable), actor.ErrUnavailable.Error()},
	} {
		h := newHealth(slog.New(slog.DiscardHandler))
		h.set(tc.err, false)
		w := httptest.NewRecorder()
		h.serveReady(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusServiceUnavailable || !strings.HasPrefix(w.Body.String(), tc.want) || strings.Contains(w.Body.String(), "private") {
			t.Errorf("%v: %d %q, want 503 and %q", tc.err, w.Code, w.Body, tc.want)
		}
		if f := failure.Of(tc.err, false); f.Detail.GetKind() != "store_unavailable" || !f.Detail.GetRetryable() {
			t.Errorf("%v: %+v", tc.err, f.Detail)
		}
	}
}
