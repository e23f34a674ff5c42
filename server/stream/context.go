package stream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// endReason is why a task's context ended before the stream's.
type endReason = uint32

const (
	endNot endReason = iota
	endCanceled
	endDeadline
)

// taskContext is the context of a task: it ends with the stream's, at the task's
// deadline or when the task is ended. Hosts that only ask whether it has ended
// need no more than that; a context that can be waited for is made when somebody
// waits.
type taskContext struct {
	stream   context.Context
	deadline time.Time // zero: none
	timeout  time.Duration
	reason   atomic.Uint32

	mu     sync.Mutex
	real   context.Context // made by Done
	cancel context.CancelFunc
}

var _ context.Context = (*taskContext)(nil)

func (c *taskContext) Deadline() (time.Time, bool) {
	d, ok := c.stream.Deadline()
	if !c.deadline.IsZero() && (!ok || c.deadline.Before(d)) {
		return c.deadline, true
	}
	return d, ok
}

func (c *taskContext) Err() error {
	switch c.reason.Load() {
	case endCanceled:
		return context.Canceled
	case endDeadline:
		return context.DeadlineExceeded
	}
	if err := c.stream.Err(); err != nil {
		return err
	}
	// Done may be a moment ahead of the task's own timer.
	if !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

func (c *taskContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		if c.deadline.IsZero() {
			c.real, c.cancel = context.WithCancel(c.stream)
		} else {
			c.real, c.cancel = context.WithDeadline(c.stream, c.deadline)
		}
		if c.reason.Load() == endCanceled {
			c.cancel()
		}
	}
	return c.real.Done()
}

func (c *taskContext) Value(key any) any {
	if _, ok := key.(actor.TimeoutKey); ok && c.timeout > 0 {
		return actor.Timeout{After: c.timeout, By: "timeout_ms"}
	}
	c.mu.Lock()
	real := c.real
	c.mu.Unlock()
	if real == nil {
		real = c.stream
	}
	return real.Value(key)
}

// ended reports whether the task itself was ended.
func (c *taskContext) ended() bool { return c.reason.Load() != endNot }

// mark notes why the context ends, and reports false if it was ended before. Who
// marks it calls endMarked.
func (c *taskContext) mark(why endReason) bool { return c.reason.CompareAndSwap(endNot, why) }

func (c *taskContext) endMarked(why endReason) {
	if why == endCanceled { // at its deadline it ends by itself, and with that error
		c.release()
	}
}

// release closes Done.
func (c *taskContext) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}
