package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
