package client

import (
	"context"
	"errors"
	"testing"

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
