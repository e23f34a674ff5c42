package timer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/internal/fair"
)

// Clock waits for timers in Go's runtime, which keeps them in a heap for each processor,
// and counts them. Its methods may be called concurrently.
type Clock struct {
	fire  func(*Timer)
	count atomic.Int64
	bytes *fair.Account
	// running counts the timers that wait in the runtime, and those that fire.
	running sync.WaitGroup
}

// NewClock returns a clock for timers of so many bytes, which apps share. Each may always have a
// 64th, and all of them take as much again for that at most. It calls fire for each timer that is
// due, on a goroutine of its own.
func NewClock(memory int64, fire func(*Timer)) *Clock {
	return &Clock{fire: fire, bytes: fair.NewAccount(fair.Bounds{Name: "bytes of timers", Total: memory, Always: memory / 64, Most: memory})}
}

// Count returns how many timers are set.
func (c *Clock) Count() int { return int(c.count.Load()) }

// Room reports whether there is memory for so many more timers of an app, which have so many
// bytes together.
func (c *Clock) Room(app string, timers int, bytes int64) bool {
	return c.bytes.Check(app, bytes+int64(timers)*cost) == nil
}

// Wait waits until no timer is set and none fires.
func (c *Clock) Wait() { c.running.Wait() }

// start counts a timer, which fires after d.
func (c *Clock) start(t *Timer, d time.Duration) {
	c.count.Add(1)
	c.bytes.Add(t.spec.Key.App, t.size())
	c.running.Add(1)
	t.runtime = time.AfterFunc(d, func() {
		defer c.running.Done()
		c.fire(t)
	})
}

// restart lets a timer that has fired fire again, after d.
func (c *Clock) restart(t *Timer, d time.Duration) {
	c.running.Add(1)
	t.runtime.Reset(d)
}

// stop ends what start began.
func (c *Clock) stop(t *Timer) {
	if t.runtime.Stop() {
		c.running.Done()
	}
	c.count.Add(-1)
	c.bytes.Give(t.spec.Key.App, t.size())
}
