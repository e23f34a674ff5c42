package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server"
)

// wantError checks an error's kind and what it says of the outcome.
func wantError(tb testing.TB, err error, kind string, unknown bool) *Error {
	tb.Helper()
	var e *Error
	if !errors.As(err, &e) {
		tb.Fatalf("got %v, want kind %s", err, kind)
	}
	if e.Kind != kind || e.OutcomeUnknown != unknown {
		tb.Errorf("got kind %s, outcome unknown %v; want %s, %v: %v", e.Kind, e.OutcomeUnknown, kind, unknown, err)
	}
	return e
}

// ways are how calls travel.
func ways(t *testing.T, each func(t *testing.T, change func(*Config))) {
	t.Helper()
	t.Run("stream", func(t *testing.T) { each(t, nil) })
	t.Run("streams", func(t *testing.T) { each(t, func(c *Config) { c.Streams = 3 }) })
	t.Run("unary", func(t *testing.T) { each(t, func(c *Config) { c.Unary = true }) })
}

func TestCalls(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	ways(t, func(t *testing.T, change func(*Config)) {
		h.does(nil)
		c := newClient(t, "http://"+s.Addr().String()+"/", change)
		payload := []byte{0, 1, 0xff, '"'}
		reply, err := c.Do(t.Context(), Request{App: "shop", Type: "Cart", ID: "a||b/c 🎭", Method: "Add", Payload: payload, ContentType: "x/y"})
		if err != nil || !bytes.Equal(reply.Payload, payload) || reply.ContentType != "x/y" || reply.Version != 1 {
			t.Errorf("got %+v, %v", reply, err)
		}

		seen := make(chan actor.Invocation, 1)
		h.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
			if _, ok := ctx.Deadline(); ok != (inv.Method == "Deadline") {
				t.Errorf("%s: deadline %v", inv.Method, ok)
			}
			seen <- inv
			return actor.Reply{}, nil
		})
		if _, err := c.Query(t.Context(), "Cart", "a", "Get", nil); err != nil {
			t.Error(err)
		}
		if inv := <-seen; !inv.ReadOnly || inv.Key != (actor.Key{App: "default", Type: "Cart", ID: "a"}) {
			t.Errorf("the host got %+v", inv)
		}
		if _, err := c.Do(t.Context(), Request{Type: "Cart", ID: "a", Method: "Get", ReadOnly: true, Strong: true}); err != nil {
			t.Error(err)
		}
		if inv := <-seen; inv.Consistency != actor.ConsistencyStrong {
			t.Errorf("the host got %+v", inv)
		}
		if _, err := c.Do(t.Context(), Request{Type: "Cart", ID: "a", Method: "Add", IdempotencyKey: `k "1" \`}); err != nil {
			t.Error(err)
		}
		if inv := <-seen; inv.IdempotencyKey != `k "1" \` {
			t.Errorf("the host got %+v", inv)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Invoke(ctx, "Cart", "a", "Deadline", nil); err != nil {
			t.Error(err)
		}
		<-seen

		large := bytes.Repeat([]byte("x"), maxStreamed+1)
		h.does(nil)
		if reply, err := c.Invoke(t.Context(), "Cart", "a", "Add", large); err != nil || !bytes.Equal(reply.Payload, large) {
			t.Errorf("a large payload: %d bytes, %v", len(reply.Payload), err)
		}
	})
}

func TestErrors(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	ways(t, func(t *testing.T, change func(*Config)) {
		c := newClient(t, "http://"+s.Addr().String(), change)
		h.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
			return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: &actor.GuestError{
				Status: actor.Status(connect.CodeFailedPrecondition), Code: "out_of_stock", Message: "only 2 left", Detail: actor.Payload{Data: []byte(`{"left":2}`)},
			}}
		})
		_, err := c.Invoke(t.Context(), "Cart", "a", "Add", nil)
		e := wantError(t, err, "guest_error", false)
		if e.Code != connect.CodeFailedPrecondition || e.Guest == nil || e.Guest.Code != "out_of_stock" || string(e.Guest.Detail) != `{"left":2}` || !strings.Contains(e.Error(), "only 2 left") {
			t.Errorf("got %+v", e)
		}
		before := h.called()
		_, err = c.Invoke(t.Context(), "no type", "a", "Add", nil)
		wantError(t, err, "invalid_argument", false)
		if h.called() != before {
			t.Error("the host was called")
		}
		h.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
			return actor.Reply{}, actor.ErrAmbiguous
		})
		_, err = c.Invoke(t.Context(), "Cart", "a", "Add", nil)
		wantError(t, err, "ambiguous", true)
	})
}

// TestRetries: what had no effect and may succeed later is repeated until it does.
func TestRetries(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	ways(t, func(t *testing.T, change func(*Config)) {
		c := newClient(t, "http://"+s.Addr().String(), change)
		var n atomic.Int32
		h.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
			if n.Add(1) < 4 {
				return actor.Reply{}, &actor.TurnError{Key: inv.Key, Err: actor.ErrMailboxFull}
			}
			return actor.Reply{Payload: inv.Payload}, nil
		})
		if _, err := c.Invoke(t.Context(), "Cart", "a", "Add", nil); err != nil || n.Load() != 4 {
			t.Errorf("%v after %d attempts", err, n.Load())
		}

		n.Store(0)
		h.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
			if inv.Method == "Few" {
				n.Add(1)
			}
			return actor.Reply{}, actor.ErrMailboxFull
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := c.Invoke(ctx, "Cart", "a", "Add", nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		few := newClient(t, "http://"+s.Addr().String(), func(conf *Config) {
			if change != nil {
				change(conf)
			}
			conf.MaxAttempts = 3
		})
		_, err = few.Invoke(t.Context(), "Cart", "a", "Few", nil)
		if e := wantError(t, err, "mailbox_full", false); !e.Retryable || n.Load() != 3 {
			t.Errorf("%v after %d attempts", err, n.Load())
		}
	})
}

// An actor that says how long to wait is asked again after that, and not at all if
// the call's time is over before.
func TestTheActorsDelay(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	ways(t, func(t *testing.T, change func(*Config)) {
		c := newClient(t, "http://"+s.Addr().String(), change)
		var n atomic.Int64
		busy := func(after time.Duration) {
			n.Store(0)
			h.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
				if n.Add(1) == 1 {
					return actor.Reply{}, &actor.GuestError{Status: 14, Code: "busy", Message: "busy", Retryable: true, RetryAfter: after}
				}
				return actor.Reply{}, nil
			})
		}
		busy(2 * time.Millisecond)
		if _, err := c.Invoke(t.Context(), "Cart", "a", "Add", nil); err != nil || n.Load() != 2 {
			t.Errorf("%v after %d attempts", err, n.Load())
		}
		busy(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		_, err := c.Invoke(ctx, "Cart", "a", "Add", nil)
		var e *Error
		if !errors.As(err, &e) || !e.Retryable || e.RetryAfter != time.Hour || n.Load() != 1 {
			t.Errorf("%+v after %d attempts", err, n.Load())
		}
	})
}

func TestContexts(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	ways(t, func(t *testing.T, change func(*Config)) {
		c := newClient(t, "http://"+s.Addr().String(), change)
		entered, release := h.blocks()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-entered; cancel() }()
		_, err := c.Invoke(ctx, "Cart", "a", "Add", nil)
		wantError(t, err, KindCanceled, true)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		_, err = c.Invoke(ctx, "Cart", "a", "Add", nil)
		wantError(t, err, KindCanceled, false)

		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err = c.Invoke(ctx, "Cart", "a", "Add", nil)
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindDeadline || e.Code != connect.CodeDeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err) // the server's word or the client's, whichever is first
		}
		// The server's, as here nobody else notices.
		_, err = c.Invoke(lateContext{t.Context(), time.Now().Add(20 * time.Millisecond)}, "Cart", "a", "Add", nil)
		if !errors.As(err, &e) || e.Kind != KindDeadline || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the server answered %v", err)
		}
		close(release)
	})
}

// lateContext has a deadline that nobody on this side notices: its timer waits for
// a processor.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// TestManyCallers: everybody gets their own reply, whatever becomes of the others.
func TestManyCallers(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	h.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
		switch inv.Method {
		case "Slow":
			<-ctx.Done()
			return actor.Reply{}, ctx.Err()
		case "Fail":
			return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: actor.ErrMethodNotFound}
		}
		return actor.Reply{Payload: inv.Payload}, nil
	})
	for _, conf := range []Config{{}, {Streams: 2}, {MaxInFlight: 3}} {
		c := newClient(t, "http://"+s.Addr().String(), func(c *Config) { c.Streams, c.MaxInFlight = conf.Streams, conf.MaxInFlight })
		var callers sync.WaitGroup
		for caller := range 64 {
			callers.Go(func() {
				for n := range 50 {
					payload := []byte(fmt.Sprint(caller, n))
					switch {
					case n%10 == 8:
						_, err := c.Invoke(t.Context(), "T", "a", "Fail", payload)
						wantError(t, err, "method_not_found", false)
					case n == 9:
						ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
						if _, err := c.Invoke(ctx, "T", "a", "Slow", payload); err == nil {
							t.Error("a call outlived its deadline")
						}
						cancel()
					default:
						if r, err := c.Invoke(t.Context(), "T", "a", "Echo", payload); err != nil || !bytes.Equal(r.Payload, payload) {
							t.Errorf("got %q, %v; want %q", r.Payload, err, payload)
						}
					}
				}
			})
		}
		callers.Wait()
	}
}

// TestSlowServer: calls beyond what may be under way wait their turn; those whose
// context ends leave.
func TestSlowServer(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	entered, release := h.blocks()
	c := newClient(t, "http://"+s.Addr().String(), func(c *Config) { c.MaxInFlight = 2 })
	var callers sync.WaitGroup
	call := func(ctx context.Context, check func(error)) {
		callers.Go(func() {
			_, err := c.Invoke(ctx, "T", "a", "Add", nil)
			check(err)
		})
	}
	good := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	call(t.Context(), good)
	call(t.Context(), good)
	<-entered
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	call(ctx, func(err error) { wantError(t, err, KindCanceled, false); close(left) })
	call(t.Context(), good)
	cancel()
	<-left
	if n := h.called(); n != 2 {
		t.Errorf("%d calls are under way", n)
	}
	close(release)
	callers.Wait()
	if n := h.called(); n != 3 {
		t.Errorf("%d calls were made", n)
	}
}

// TestStreamFull: what the server refuses for want of memory is made again.
func TestStreamFull(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", func(c *server.Config) { c.MaxStreamsBytes = 1 << 10 })
	c := newClient(t, "http://"+s.Addr().String(), nil)
	var callers sync.WaitGroup
	for range 32 {
		callers.Go(func() {
			for range 10 {
				if _, err := c.Invoke(t.Context(), "T", "a", "Add", nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

// TestWithoutHTTP2: calls go as requests of their own, or fail where that is
// refused.
func TestWithoutHTTP2(t *testing.T) {
	h := &fakeHost{}
	s := newServer(t, h, "127.0.0.1:0", nil)
	for name, handler := range map[string]http.Handler{
		"HTTP/1.1 only": s,
		"an older server": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/InvokeStream") {
				http.NotFound(w, r)
				return
			}
			s.ServeHTTP(w, r)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			hs := httptest.NewUnstartedServer(handler)
			if name != "HTTP/1.1 only" {
				hs.Config.Protocols = new(http.Protocols)
				hs.Config.Protocols.SetHTTP1(true)
				hs.Config.Protocols.SetUnencryptedHTTP2(true)
			}
			hs.Start()
			defer hs.Close()
			c := newClient(t, hs.URL, func(c *Config) { c.MaxAttempts = 3 })
			defer c.Close()
			for range 3 {
				if r, err := c.Invoke(t.Context(), "T", "a", "Add", []byte("1")); err != nil || string(r.Payload) != "1" {
					t.Errorf("got %q, %v", r.Payload, err)
				}
			}
			if c.servers.configured[0].unaryUntil.Load() == 0 {
				t.Error("calls went over a stream")
			}
			only := newClient(t, hs.URL, func(c *Config) { c.MaxAttempts, c.StreamOnly = 3, true })
			defer only.Close()
			for range 2 {
				_, err := only.Invoke(t.Context(), "T", "a", "Add", nil)
				wantError(t, err, KindNoStream, false)
			}
			if handler != s {
				return
			}
			// With the caller's own HTTP client, which knows HTTP/1.1 only.
			own := newClient(t, hs.URL, func(c *Config) { c.HTTPClient, c.MaxAttempts = &http.Client{Transport: &http.Transport{}}, 3 })
			defer own.conf.HTTPClient.CloseIdleConnections()
			if _, err := own.Invoke(t.Context(), "T", "a", "Add", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestToken(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", func(c *server.Config) { c.Token = "secret" })
	ways(t, func(t *testing.T, change func(*Config)) {
		with := func(token string) *Client {
			return newClient(t, "http://"+s.Addr().String(), func(c *Config) {
				if change != nil {
					change(c)
				}
				c.Token = token
			})
		}
		if _, err := with("secret").Invoke(t.Context(), "T", "a", "Add", nil); err != nil {
			t.Error(err)
		}
		_, err := with("wrong").Invoke(t.Context(), "T", "a", "Add", nil)
		if e := wantError(t, err, "unauthenticated", false); e.Code != connect.CodeUnauthenticated {
			t.Errorf("got %+v", e)
		}
	})
}

func TestClose(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	ways(t, func(t *testing.T, change func(*Config)) {
		entered, release := h.blocks()
		c := newClient(t, "http://"+s.Addr().String(), change)
		got := make(chan error, 1)
		go func() { _, err := c.Invoke(t.Context(), "T", "a", "Add", nil); got <- err }()
		<-entered
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantError(t, <-got, KindClosed, true)
		_, err := c.Invoke(t.Context(), "T", "a", "Add", nil)
		// Whether net/http sent it is not for the client to know.
		wantError(t, err, KindClosed, c.conf.Unary)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		close(release)
	})
}

func TestConfig(t *testing.T) {
	for name, conf := range map[string]Config{
		"no URL":          {},
		"no scheme":       {URL: "localhost:8080"},
		"other scheme":    {URL: "ftp://localhost"},
		"query":           {URL: "http://localhost?a=b"},
		"token":           {URL: "http://localhost", Token: "a\nb"},
		"timeout":         {URL: "http://localhost", HTTPClient: &http.Client{Timeout: 1}},
		"negative":        {URL: "http://localhost", Streams: -1},
		"app":             {URL: "http://localhost", App: "a b"},
		"backoff reverse": {URL: "http://localhost", MinBackoff: 2, MaxBackoff: 1},
	} {
		if c, err := New(conf); err == nil {
			t.Errorf("%s was taken", name)
			_ = c.Close()
		}
	}
}

// TestCancelReachesTheServer: a call whose caller is gone ends in the host, and
// others on the stream do not notice.
func TestCancelReachesTheServer(t *testing.T) {
	h := &fakeHost{}
	entered, release := h.blocks()
	ended := make(chan error, 1)
	block := h.invoke
	h.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
		r, err := block(ctx, inv)
		if inv.Key.ID == "gone" {
			ended <- err
		}
		return r, err
	})
	c := newClient(t, "http://"+startServer(t, h, "127.0.0.1:0", nil).Addr().String(), nil)
	other := make(chan error, 1)
	go func() {
		_, err := c.Invoke(t.Context(), "T", "stays", "Add", nil)
		other <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := c.Invoke(ctx, "T", "gone", "Add", nil)
		gone <- err
	}()
	<-entered
	cancel()
	var e *Error
	if err := <-gone; !errors.As(err, &e) || e.Kind != KindCanceled || !e.OutcomeUnknown {
		t.Errorf("the call ended with %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the turn ended with %v", err)
	}
	close(release)
	if err := <-other; err != nil {
		t.Error(err)
	}
}

// TestFuel is told whichever way a call goes.
func TestFuel(t *testing.T) {
	h := &fakeHost{}
	h.does(func(context.Context, actor.Invocation) (actor.Reply, error) { return actor.Reply{Fuel: 1234}, nil })
	url := "http://" + startServer(t, h, "127.0.0.1:0", nil).Addr().String()
	for _, unary := range []bool{false, true} {
		c := newClient(t, url, func(c *Config) { c.Unary = unary })
		for _, readOnly := range []bool{false, true} {
			r, err := c.Do(t.Context(), Request{Type: "T", ID: "a", Method: "M", ReadOnly: readOnly})
			if err != nil || r.Fuel != 1234 {
				t.Errorf("unary %v, read-only %v: %+v, %v", unary, readOnly, r, err)
			}
		}
	}
}

// TestTrace: a call belongs to the trace of its context's span, over streams and in
// requests of its own; without one it belongs to none.
func TestTrace(t *testing.T) {
	for name, unary := range map[string]bool{"stream": false, "unary": true} {
		t.Run(name, func(t *testing.T) {
			h := &fakeHost{}
			got := make(chan *actor.Trace, 1)
			h.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
				got <- inv.Trace
				return actor.Reply{}, nil
			})
			s := startServer(t, h, "127.0.0.1:0", nil)
			c := newClient(t, "http://"+s.Addr().String(), func(conf *Config) { conf.Unary = unary })
			span := actor.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1")
			for _, readOnly := range []bool{false, true} {
				req := Request{Type: "T", ID: "a", Method: "M", ReadOnly: readOnly}
				if _, err := c.Do(span.Context(t.Context()), req); err != nil {
					t.Fatal(err)
				}
				if tr := <-got; tr == nil || tr.TraceID() != span.TraceID() || tr.SpanID() == span.SpanID() || tr.TraceState().String() != "a=1" {
					t.Errorf("the host got %v", tr)
				}
				if _, err := c.Do(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				if tr := <-got; tr != nil {
					t.Errorf("without a span the host got %v", tr)
				}
			}
		})
	}
}
