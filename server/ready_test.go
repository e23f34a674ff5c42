package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/failure"
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
		if f := failure.Of(tc.err, false); f.Detail.GetKind() != "store_unavailable" || !f.Detail.GetRetryable() {
			t.Errorf("%v: %+v", tc.err, f.Detail)
		}
	}
}

// TestDrainDelay: who goes by /readyz has time to send its requests elsewhere, and none of
// them meets a connection that Stop closes.
func TestDrainDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 10 * time.Second
		f, net := startInBubble(t, func(c *Config) { c.DrainDelay = delay })
		synctest.Wait()
		one, two := net.client(t, false), net.client(t, true)
		// reused reports whether a call went over a connection that was there.
		reused := func(c *http.Client) (reused bool) {
			t.Helper()
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, f.url+actorPath(key("a"), "Add"), strings.NewReader("1"))
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Error(res.Status)
			}
			synctest.Wait()
			return reused
		}
		for _, c := range []*http.Client{one, two} {
			if reused(c); !reused(c) {
				t.Error("a connection was not kept")
			}
		}
		began, drained := time.Now(), make(chan time.Duration)
		go func() {
			f.Drain(t.Context())
			drained <- time.Since(began)
		}()
		synctest.Wait()
		if a := do(t, one, "GET", f.url+"/readyz", ""); a.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("at once: %s", a.Status)
		}
		for _, c := range []*http.Client{one, two} {
			if !reused(c) {
				t.Error("before the half: a connection ended")
			}
		}
		<-time.After(delay/2 + time.Second)
		for _, c := range []*http.Client{one, two} {
			if !reused(c) || reused(c) {
				t.Error("after the half: an answer did not end its connection")
			}
		}
		if took := <-drained; took != delay {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.Drain(ctx) // waits for nothing
		if time.Since(began) != delay {
			t.Error("a context that ended was waited for")
		}
	})
}
