package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server"
)

// TestConnectionCut in the middle of calls: without a key the outcome is unknown
// and nothing is repeated; with one, and for queries, the call succeeds.
func TestConnectionCut(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	for _, unary := range []bool{false, true} {
		t.Run(fmt.Sprintf("unary=%v", unary), func(t *testing.T) {
			p := startProxy(t, s.Addr().String())
			plain := newClient(t, p.url(), func(c *Config) { c.Unary = unary })
			keyed := newClient(t, p.url(), func(c *Config) { c.Unary, c.IdempotencyKeys = unary, true })
			for name, call := range map[string]func() error{
				"plain": func() error { _, err := plain.Invoke(t.Context(), "T", "a", "Add", []byte("1")); return err },
				"query": func() error { _, err := plain.Query(t.Context(), "T", "a", "Get", []byte("1")); return err },
				"keyed": func() error { _, err := keyed.Invoke(t.Context(), "T", "a", "Add", []byte("1")); return err },
				"own key": func() error {
					_, err := plain.Do(t.Context(), Request{Type: "T", ID: "a", Method: "Add", IdempotencyKey: "mine"})
					return err
				},
			} {
				t.Run(name, func(t *testing.T) {
					entered, release := h.blocks()
					got := make(chan error, 1)
					go func() { got <- call() }()
					first := <-entered
					if p.cut() == 0 {
						t.Fatal("there was no connection to cut")
					}
					if name == "plain" {
						wantError(t, <-got, KindConnectionLost, true)
						close(release)
						return
					}
					second := <-entered
					close(release)
					if err := <-got; err != nil {
						t.Error(err)
					}
					if name != "query" && (first.IdempotencyKey == "" || first.IdempotencyKey != second.IdempotencyKey) {
						t.Errorf("keys %q and %q", first.IdempotencyKey, second.IdempotencyKey)
					}
				})
			}
			h.does(nil)
			if _, err := plain.Invoke(t.Context(), "T", "a", "Add", nil); err != nil {
				t.Errorf("after the cut: %v", err)
			}
		})
	}
}

// TestConnectionLostWhileOpening a stream: the server has streams all the same.
func TestConnectionLostWhileOpening(t *testing.T) {
	s := startServer(t, &fakeHost{}, "127.0.0.1:0", nil)
	p := startProxy(t, s.Addr().String())
	for lose := 1; lose < lostOpens; lose++ {
		p.mu.Lock()
		p.lose = lose
		p.mu.Unlock()
		c := newClient(t, p.url(), func(c *Config) { c.StreamOnly = true })
		if _, err := c.Invoke(t.Context(), "T", "a", "Add", nil); err != nil {
			t.Errorf("after %d lost connections: %v", lose, err)
		}
	}
}

// TestCutsUnderLoad: with keys no call fails, and none takes effect twice.
func TestCutsUnderLoad(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	p := startProxy(t, s.Addr().String())
	var mu sync.Mutex
	effects := make(map[string]int) // by key: the host's records
	runs, cuts := 0, 0
	h.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		mu.Lock()
		defer mu.Unlock()
		if runs++; runs%100 == 0 {
			cuts += p.cut()
		}
		if effects[inv.IdempotencyKey] == 0 {
			effects[inv.IdempotencyKey]++
		}
		return actor.Reply{Payload: inv.Payload}, nil
	})
	c := newClient(t, p.url(), func(c *Config) { c.IdempotencyKeys = true })
	const callers, each = 16, 60
	var working sync.WaitGroup
	for caller := range callers {
		working.Go(func() {
			for n := range each {
				payload := []byte(fmt.Sprint(caller, n))
				if r, err := c.Invoke(t.Context(), "T", "a", "Add", payload); err != nil || !bytes.Equal(r.Payload, payload) {
					t.Errorf("got %q, %v", r.Payload, err)
				}
			}
		})
	}
	working.Wait()
	mu.Lock() // calls that were given up with their connection may still run
	defer mu.Unlock()
	if cuts == 0 {
		t.Error("no connection was cut")
	}
	if len(effects) != callers*each {
		t.Errorf("%d effects of %d calls", len(effects), callers*each)
	}
}

// TestServerRestarts under load: a graceful stop fails no call, though none has a
// key, and no call runs twice.
func TestServerRestarts(t *testing.T) {
	h := &fakeHost{}
	var mu sync.Mutex
	runs := make(map[string]int)
	const callers, each = 16, 100
	ran := make(chan struct{}, callers*each)
	h.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		mu.Lock()
		defer mu.Unlock()
		if runs[string(inv.Payload.Data)]++; runs[string(inv.Payload.Data)] == 1 {
			ran <- struct{}{}
		}
		return actor.Reply{Payload: inv.Payload}, nil
	})
	s := startServer(t, h, "127.0.0.1:0", nil)
	addr := s.Addr().String()
	c := newClient(t, "http://"+addr, nil)
	var working sync.WaitGroup
	for caller := range callers {
		working.Go(func() {
			for n := range each {
				payload := []byte(fmt.Sprint(caller, "-", n))
				if _, err := c.Invoke(t.Context(), "T", "a", "Add", payload); err != nil {
					t.Errorf("call %s: %v", payload, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	for range 3 {
		for range callers * each / 5 {
			select {
			case <-ran:
			case <-done:
				if len(ran) == 0 {
					t.Fatal("too few calls ran")
				}
				<-ran
			}
		}
		stopServer(t, s)
		s = startServer(t, h, addr, nil)
	}
	<-done
	for payload, n := range runs {
		if n != 1 {
			t.Errorf("call %s ran %d times", payload, n)
		}
	}
	if len(runs) != callers*each {
		t.Errorf("%d calls ran", len(runs))
	}
}

// TestNoServer: calls wait for one, within their deadline.
func TestNoServer(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	addr := s.Addr().String()
	stopServer(t, s)
	ways(t, func(t *testing.T, change func(*Config)) {
		c := newClient(t, "http://"+addr, change)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		_, err := c.Invoke(ctx, "T", "a", "Add", nil)
		var e *Error
		// A request that ended while it was dialing does not know that it was.
		if !errors.As(err, &e) || e.OutcomeUnknown && !c.conf.Unary || e.Kind != KindDeadline && e.Kind != KindUnreachable {
			t.Errorf("got %v", err)
		}
		few := newClient(t, "http://"+addr, func(conf *Config) {
			if change != nil {
				change(conf)
			}
			conf.MaxAttempts = 2
		})
		_, err = few.Invoke(t.Context(), "T", "a", "Add", nil)
		if e := wantError(t, err, KindUnreachable, false); !e.Retryable {
			t.Errorf("got %+v", e)
		}
	})
}

// TestErrorAfterLostAttempt: the first attempt takes effect and its connection is
// cut; what the next one is answered says nothing of it.
func TestErrorAfterLostAttempt(t *testing.T) {
	refused := &actor.GuestError{Status: actor.Status(connect.CodeFailedPrecondition), Code: "empty", Message: "there is none left"}
	for _, second := range []error{actor.ErrDeadline, actor.ErrTypeNotFound, actor.ErrLeft, actor.ErrSchemaNewer, actor.ErrMailboxFull, refused} {
		for _, unary := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/unary=%v", second, unary), func(t *testing.T) {
				h := &fakeHost{}
				s := startServer(t, h, "127.0.0.1:0", nil)
				p := startProxy(t, s.Addr().String())
				var runs atomic.Int64
				h.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
					if runs.Add(1) == 1 {
						p.cut()
						<-ctx.Done()
						return actor.Reply{Payload: inv.Payload}, nil
					}
					return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: second}
				})
				c := newClient(t, p.url(), func(c *Config) { c.Unary, c.MaxAttempts = unary, 5 })
				for _, readOnly := range []bool{false, true} {
					runs.Store(0)
					_, err := c.Do(t.Context(), Request{Type: "T", ID: "a", Method: "Add", IdempotencyKey: "k", ReadOnly: readOnly})
					var e *Error
					if !errors.As(err, &e) || e.OutcomeUnknown == readOnly || runs.Load() < 2 {
						t.Errorf("read-only %v, %d attempts: outcome unknown %v: %v", readOnly, runs.Load(), e.OutcomeUnknown, err)
					}
					if e.Retryable != (readOnly && errors.Is(second, actor.ErrMailboxFull)) {
						t.Errorf("read-only %v: retryable %v: %v", readOnly, e.Retryable, err)
					}
				}
			})
		}
	}
}

// TestQueryLost: a query whose answer is lost had no effect.
func TestQueryLost(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	for _, unary := range []bool{false, true} {
		p := startProxy(t, s.Addr().String())
		h.does(func(ctx context.Context, _ actor.Invocation) (actor.Reply, error) {
			p.cut()
			<-ctx.Done()
			return actor.Reply{}, ctx.Err()
		})
		c := newClient(t, p.url(), func(c *Config) { c.Unary, c.MaxAttempts = unary, 1 })
		_, err := c.Query(t.Context(), "T", "a", "Get", nil)
		if e := wantError(t, err, KindConnectionLost, false); !e.Retryable {
			t.Errorf("unary %v: %+v", unary, e)
		}
	}
}

// TestGateway: what something on the way answers after it passed a request on is
// no answer of the server, whatever it looks like.
func TestGateway(t *testing.T) {
	for _, status := range []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusInternalServerError} {
		for _, body := range []string{`{"message":"Endpoint request timed out"}`, `{"code":"unavailable","message":"upstream timeout"}`, `{"code":"aborted"}`, `<html></html>`} {
			for _, keyed := range []bool{false, true} {
				var requests atomic.Int64
				gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					requests.Add(1)
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(status)
					_, _ = w.Write([]byte(body))
				}))
				c := newClient(t, gateway.URL, func(c *Config) { c.Unary, c.MaxAttempts, c.IdempotencyKeys = true, 3, keyed })
				_, err := c.Invoke(t.Context(), "T", "a", "Add", nil)
				wantError(t, err, KindConnectionLost, true)
				if want := map[bool]int64{false: 1, true: 3}[keyed]; requests.Load() != want {
					t.Errorf("%d %s: %d requests, want %d", status, body, requests.Load(), want)
				}
				_ = c.Close()
				gateway.Close()
			}
		}
	}
	// What was not permitted was not passed on.
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer gateway.Close()
	c := newClient(t, gateway.URL, func(c *Config) { c.Unary = true })
	defer c.Close()
	_, err := c.Invoke(t.Context(), "T", "a", "Add", nil)
	wantError(t, err, connect.CodePermissionDenied.String(), false)
}

// TestRequestSentTwice: net/http sends a request with a key again when the
// connection that it was sent on breaks. That the server cannot be reached then
// does not mean that it was not.
func TestRequestSentTwice(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	p := startProxy(t, s.Addr().String())
	c := newClient(t, p.url(), func(c *Config) { c.Unary, c.IdempotencyKeys, c.MaxAttempts = true, true, 1 })
	if _, err := c.Invoke(t.Context(), "T", "a", "Add", nil); err != nil { // a connection that is used again
		t.Fatal(err)
	}
	h.does(func(ctx context.Context, _ actor.Invocation) (actor.Reply, error) {
		_ = p.Close()
		p.cut()
		<-ctx.Done()
		return actor.Reply{}, nil
	})
	_, err := c.Invoke(t.Context(), "T", "a", "Add", nil)
	wantError(t, err, KindConnectionLost, true)
}

// TestMessageRefused: a message for which the server has no memory takes nothing
// from the calls that are under way on its stream, and its own had no effect.
func TestMessageRefused(t *testing.T) {
	const room, large = 300 << 10, 200 << 10
	h := &fakeHost{}
	refusals := logWatcher{message: "stream takes no more", seen: make(chan struct{}, 1)}
	s := startServer(t, h, "127.0.0.1:0", func(c *server.Config) {
		c.MaxStreamsBytes, c.Logger = room, slog.New(refusals)
	})
	entered, release := make(chan struct{}), make(chan struct{})
	var seconds atomic.Int64
	h.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
		if inv.Key.ID == "second" {
			seconds.Add(1)
			return actor.Reply{}, nil
		}
		entered <- struct{}{}
		select {
		case <-release:
			return actor.Reply{}, nil
		case <-ctx.Done():
			return actor.Reply{}, ctx.Err()
		}
	})
	c := newClient(t, "http://"+s.Addr().String(), nil)
	call := func(id string) <-chan error {
		got := make(chan error, 1)
		go func() { _, err := c.Invoke(t.Context(), "T", id, "Add", make([]byte, large)); got <- err }()
		return got
	}
	first := call("first")
	<-entered
	second := call("second")
	<-refusals.seen
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the call that was under way: %v", err)
	}
	if err := <-second; err != nil || seconds.Load() != 1 {
		t.Errorf("the call of the refused message: %d runs, %v", seconds.Load(), err)
	}
}
