package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// TestServersDeadline: a turn that the server ended for its own limit is no deadline
// of the caller's context, which goes on.
func TestServersDeadline(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	h.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: actor.ErrDeadline}
	})
	for _, unary := range []bool{false, true} {
		c := newClient(t, "http://"+s.Addr().String(), func(c *Config) { c.Unary, c.MaxAttempts = unary, 1 })
		_, err := c.Invoke(t.Context(), "T", "a", "Add", nil)
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindDeadline || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("unary %v: %v, the caller's deadline: %t", unary, err, errors.Is(err, context.DeadlineExceeded))
		}
	}
}

// TestBackoff: pauses double from the shortest to the longest, whatever these are and
// however often a call is repeated.
func TestBackoff(t *testing.T) {
	for _, conf := range []Config{
		{MinBackoff: 10 * time.Millisecond, MaxBackoff: time.Second},
		{MinBackoff: 1, MaxBackoff: 24 * time.Hour},
		{MinBackoff: 3, MaxBackoff: 1 << 62},
		{MinBackoff: time.Second, MaxBackoff: time.Second},
	} {
		c := &Client{conf: conf}
		longest := conf.MinBackoff
		for n := 1; n <= 200; n++ {
			if d := c.backoff(n); d < longest/2 || d > longest {
				t.Errorf("from %s to %s: pause %d is %s, want half of %s to all of it", conf.MinBackoff, conf.MaxBackoff, n, d, longest)
			}
			if longest > conf.MaxBackoff/2 {
				longest = conf.MaxBackoff
			} else {
				longest *= 2
			}
		}
	}
}

// TestCloseIsNotTheCallersContext: a call that its client's Close ends, under way or
// between two attempts, does not say that its caller's context ended.
func TestCloseIsNotTheCallersContext(t *testing.T) {
	h := &fakeHost{}
	s := startServer(t, h, "127.0.0.1:0", nil)
	entered, _ := h.blocks()
	c := newClient(t, "http://"+s.Addr().String(), func(c *Config) { c.IdempotencyKeys = true })
	failed := make(chan error, 1)
	go func() {
		_, err := c.Invoke(t.Context(), "T", "a", "Add", nil)
		failed <- err
	}()
	<-entered
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for where, err := range map[string]error{"under way": <-failed, "in a pause": c.pause(t.Context(), time.Hour)} {
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindClosed || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, a caller's context: %t", where, err, errors.Is(err, context.Canceled))
		}
	}
}
