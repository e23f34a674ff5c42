package call

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnContext compares a turn's context with what the standard library makes
// of the same ends, asked in every way and order.
func TestTurnContext(t *testing.T) {
	ends := map[string]struct {
		caller, turn time.Duration // 0: none, and a minute
		end          func(c *Context, cancel context.CancelFunc)
		want         error
	}{
		"nothing":           {0, 0, func(*Context, context.CancelFunc) {}, nil},
		"turn's deadline":   {0, time.Second, func(*Context, context.CancelFunc) { time.Sleep(2 * time.Second) }, context.DeadlineExceeded},
		"caller's deadline": {time.Second, 0, func(*Context, context.CancelFunc) { time.Sleep(2 * time.Second) }, context.DeadlineExceeded},
		"caller gone":       {0, 0, func(_ *Context, cancel context.CancelFunc) { cancel() }, context.Canceled},
		"stopped":           {0, 0, func(c *Context, _ context.CancelFunc) { c.Stop() }, context.Canceled},
		"late and gone": {0, time.Second, func(_ *Context, cancel context.CancelFunc) {
			time.Sleep(2 * time.Second)
			cancel()
		}, nil},
	}
	for name, tc := range ends {
		for _, early := range []bool{false, true} { // whether anybody waits before the end
			synctest.Test(t, func(t *testing.T) {
				caller, cancel := context.WithCancel(t.Context())
				if tc.caller > 0 {
					caller, cancel = context.WithTimeout(t.Context(), tc.caller)
				}
				defer cancel()
				turn := time.Minute
				if tc.turn > 0 {
					turn = tc.turn
				}
				c := &Call{Request: Request{Ctx: caller}}
				ctx := c.Begin(time.Now(), turn)
				child, cancelChild := context.WithCancel(context.Background())
				defer cancelChild()
				if early {
					ctx.Done()
					child, cancelChild = context.WithCancel(ctx)
					defer cancelChild()
				}
				tc.end(ctx, cancel)
				synctest.Wait()
				err := ctx.Err()
				if tc.want != nil && !errors.Is(err, tc.want) || name == "nothing" && err != nil {
					t.Errorf("%s, early %t: %v", name, early, err)
				}
				closed := false
				select {
				case <-ctx.Done():
					closed = true
				default:
				}
				if closed != (err != nil) {
					t.Errorf("%s, early %t: Done is closed: %t, but the error is %v", name, early, closed, err)
				}
				if early && (child.Err() != nil) != (err != nil) {
					t.Errorf("%s: its child has %v, it has %v", name, child.Err(), err)
				}
				ctx.Stop()
				<-ctx.Done()
				if again := ctx.Err(); err != nil && !errors.Is(again, err) {
					t.Errorf("%s, early %t: the error %v became %v", name, early, err, again)
				}
				// A later run has a context of its own.
				if next := c.Begin(time.Now(), turn); next == ctx {
					t.Error("a context is used twice")
				}
				c.Kill()
				if !errors.Is(c.turn.Load().Err(), context.Canceled) && caller.Err() == nil {
					t.Errorf("%s: a killed call goes on", name)
				}
				c.turn.Load().Stop()
			})
		}
	}
}
