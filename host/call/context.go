package call

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/executor"
)

// Context is the context of one run of a call: it ends with the caller's, at
// a deadline, or when it is stopped. Most turns only ask whether it has ended, and
// a timer and a place in the caller's context cost more than all else that the
// host does for a turn; so it has neither before somebody waits for Done.
type Context struct {
	caller   context.Context
	deadline time.Time
	ended    atomic.Pointer[error]         // why; it stays what it was first
	Slot     atomic.Pointer[executor.Slot] // of the guest that runs or ran last; nil before one does
	pool     *executor.Pool                // of the turn

	mu       sync.Mutex
	done     chan struct{}
	timer    *time.Timer
	detach   func() bool // from caller
	finished bool        // done, if it was made, is closed
}

var _ context.Context = (*Context)(nil)

// Deadline implements [context.Context].
func (c *Context) Deadline() (time.Time, bool) { return c.deadline, true }

// SetDeadline changes the deadline of a context that has no user yet.
func (c *Context) SetDeadline(deadline time.Time) { c.deadline = deadline }

// OfCaller reports whether the deadline is the caller's, and not the turn's.
func (c *Context) OfCaller() bool {
	theirs, ok := c.caller.Deadline()
	return ok && theirs.Equal(c.deadline)
}

// Value implements [context.Context].
func (c *Context) Value(key any) any {
	switch key.(type) {
	case engine.ProcessorKey:
		if slot := c.Slot.Load(); slot != nil {
			return slot
		}
		return nil // never that of a turn that calls
	case executor.PoolKey:
		return c.pool
	}
	return c.caller.Value(key)
}

// Err implements [context.Context]. It may report the deadline a moment before Done is closed.
func (c *Context) Err() error { return c.ErrAt(time.Time{}) }

// ErrAt is Err at a time that the caller has just read from the clock; zero if it
// has not.
func (c *Context) ErrAt(now time.Time) error {
	if ended := c.ended.Load(); ended != nil {
		return *ended
	}
	if err := c.caller.Err(); err != nil {
		c.note(err)
	} else if c.passed(now) {
		c.note(context.DeadlineExceeded)
	} else {
		return nil
	}
	return *c.ended.Load()
}

// passed reports whether the deadline is over. time.Until reads the monotonic clock
// alone, which is half of what time.Now does.
func (c *Context) passed(now time.Time) bool {
	if now.IsZero() {
		return time.Until(c.deadline) <= 0
	}
	return !now.Before(c.deadline)
}

// note remembers why the context ended, unless that is known already.
func (c *Context) note(err error) {
	why := &context.Canceled // of the package, to need no memory of its own
	if errors.Is(err, context.DeadlineExceeded) {
		why = &context.DeadlineExceeded
	}
	c.ended.CompareAndSwap(nil, why)
}

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.finished || c.Err() != nil {
			close(c.done)
			c.finished = true
			return c.done
		}
		c.timer = time.AfterFunc(time.Until(c.deadline), func() { c.end(context.DeadlineExceeded) })
		c.detach = context.AfterFunc(c.caller, func() { c.end(c.caller.Err()) })
	}
	return c.done
}

// Both returns a context that ends with the first of two, or by cancel. Its values are those of ctx.
func Both(ctx, other context.Context) (both context.Context, cancel func()) {
	var end context.CancelFunc
	if deadline, ok := other.Deadline(); ok {
		ctx, end = context.WithDeadline(ctx, deadline)
	} else {
		ctx, end = context.WithCancel(ctx)
	}
	detach := context.AfterFunc(other, end)
	return ctx, func() {
		detach()
		end()
	}
}

// Stop ends the context early, or after its use.
func (c *Context) Stop() { c.end(context.Canceled) }

func (c *Context) end(err error) {
	c.note(err)
	c.finish()
}

// finish closes Done, if anybody has asked for it, and lets go of the rest.
func (c *Context) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		return
	}
	c.finished = true
	if c.done == nil {
		return
	}
	close(c.done)
	c.timer.Stop()
	c.detach()
}
