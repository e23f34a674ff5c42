package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

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
		s := &Server{health: newHealth(slog.New(slog.DiscardHandler))}
		s.health.set(tc.err, false)
		w := httptest.NewRecorder()
		s.serveReady(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusServiceUnavailable || !strings.HasPrefix(w.Body.String(), tc.want) || strings.Contains(w.Body.String(), "private") {
			t.Errorf("%v: %d %q, want 503 and %q", tc.err, w.Code, w.Body, tc.want)
		}
		if f := failureOf(tc.err, false); f.detail.GetKind() != "store_unavailable" || !f.detail.GetRetryable() {
			t.Errorf("%v: %+v", tc.err, f.detail)
		}
	}
}
