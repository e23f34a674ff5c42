// Package clock is the time by which a process counts the leases that it holds. It never compares
// its clock with the clock of another process.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Clocks are read beside Go's monotonic clock, which on Linux stands still while the
// machine is suspended.
type Clocks struct {
	// Wall is the wall time of a moment, from any start. Defaults to the moment's own.
	Wall func(now time.Time) time.Duration
	// Boot is for how long the machine has been up, also while it was suspended. Defaults
	// to none.
	Boot func() time.Duration
}

// Clock is a process's own, by which all leases are counted: the monotonic one, and what the
// others ran ahead of it, by a jump or while the process did not run. It is never behind
// the monotonic one: a wall clock that is set back changes nothing.
type Clock struct {
	Clocks
	began time.Time
	// margin is what the others may run ahead by until that is added: far less than
	// [Usable] leaves, and more than it takes to read two clocks.
	margin Instant
	// ahead is what was added, and wall how far the wall clock is ahead of the monotonic
	// one since began, as it was read last: both Instants. They are written under mu.
	ahead, wall     atomic.Int64
	wallBegan       time.Duration
	mu              sync.Mutex
	boot, bootBegan time.Duration // as wall, under mu
}

// New returns a clock for leases of a length, beside the other clocks.
func New(clocks Clocks, lease time.Duration) *Clock {
	c := &Clock{Clocks: clocks, margin: lease / 200, began: time.Now()}
	c.wallBegan = c.wallOf(c.began)
	if c.Boot != nil {
		c.bootBegan = c.Boot()
	}
	return c
}

func (c *Clock) wallOf(now time.Time) time.Duration {
	if c.Wall != nil {
		return c.Wall(now)
	}
	return time.Duration(now.UnixNano())
}

// At is the time of a moment with a monotonic reading. It does not ask the boot clock:
// [Clock.now] does, which is called several times a lease.
func (c *Clock) At(now time.Time) Instant {
	mono := now.Sub(c.began)
	// Before what is added: between the stores of now this counts a jump twice rather than never.
	jump := c.wallOf(now) - c.wallBegan - mono - Instant(c.wall.Load())
	at := mono + Instant(c.ahead.Load())
	if jump > c.margin {
		at += jump
	}
	return at
}

// Now is the time now, and adds what the other clocks ran ahead by.
func (c *Clock) Now() Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	mono := now.Sub(c.began)
	wall, boot := c.wallOf(now)-c.wallBegan-mono, Instant(0)
	if c.Boot != nil {
		boot = c.Boot() - c.bootBegan - mono
	}
	known := Instant(c.wall.Load())
	jump := max(wall-known, boot-c.boot)
	if jump > c.margin {
		c.ahead.Add(int64(jump))
		c.wall.Store(int64(wall))
		c.boot = boot
	} else {
		// What is less adds up, until it is worth it.
		c.wall.Store(int64(min(wall, known)))
		c.boot = min(boot, c.boot)
	}
	return mono + Instant(c.ahead.Load())
}
