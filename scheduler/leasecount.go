package scheduler

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
)

// leaseCount is a host's count of its leases. It has a lock of its own, held for no longer
// than it takes to set a field: what keeps the host alive waits for nothing that a leader
// orders.
type leaseCount struct {
	*environment
	// until is the end of the count, a [clock.Instant]; 0: there is none.
	until atomic.Int64
	// failing is since when the row is not renewed, or not inserted, for all trying, an
	// [clock.Instant]; 0: it is.
	failing atomic.Int64
	// renewals signals Service.followRenewals that the row was renewed, or that the lease is
	// lost. wakes is set when waiting calls must look again: the lease is lost, or is back.
	renewals chan struct{}
	wakes    atomic.Bool

	mu   sync.Mutex
	host actor.HostID  // the incarnation; empty: none
	row  clock.Instant // the end of its row's lease
	// partitions is the first end of a partition's lease.
	partitions clock.Instant
}

// countFor begins the count of an incarnation that is not registered yet, and ends the count
// of the incarnation before it. An empty id only ends the count.
func (c *leaseCount) countFor(id actor.HostID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host, c.row, c.partitions = id, 0, noPartitions
	c.until.Store(0)
}

// renewed notes that the row of an incarnation was renewed by a statement that was sent at
// sent.
func (c *leaseCount) renewed(id actor.HostID, sent clock.Instant) {
	c.failing.Store(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.host != id {
		return // that one has ended
	}
	if c.now() >= clock.Instant(c.until.Load()) {
		c.wakes.Store(true)
	}
	c.row = max(c.row, sent+clock.Usable(c.cfg.Lease))
	c.setUntil()
}

// countPartitions notes the first end of a partition's lease.
func (c *leaseCount) countPartitions(until clock.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partitions = until
	c.setUntil()
}

// setUntil counts the row's lease and those of partitions together. The caller has the
// count's lock.
func (c *leaseCount) setUntil() { c.until.Store(int64(min(c.row, c.partitions))) }

// notRenewed notes that the row could not be renewed or inserted, and why.
func (c *leaseCount) notRenewed(err error) {
	if errors.Is(err, actor.ErrHostGone) { // the store works
		c.failing.Store(0)
		return
	}
	c.failing.CompareAndSwap(0, int64(c.now()))
	if c.lost() {
		c.wakes.Store(true)
		c.followRenewal()
	}
}

// followRenewal has what follows from a renewal, or from its failure, done by
// [Service.followRenewals]: that takes the lock that orders take, and a renewal does not.
func (c *leaseCount) followRenewal() {
	select {
	case c.renewals <- struct{}{}:
	default:
	}
}

// lost reports whether this host has no lease, and has not been able to renew it for the
// length of one: by then another host may hold what it held, and this host does not learn of that.
func (c *leaseCount) lost() bool {
	since := clock.Instant(c.failing.Load())
	return since != 0 && c.now()-since >= c.cfg.Lease && !c.Current(time.Now())
}

// Current reports whether the host's lease is known to hold at now, a time with a
// monotonic reading: whether the host may run what it holds, and answer without a
// commit. It is not when the wall clock has jumped ahead beyond the lease; see [clock.Clocks].
func (c *leaseCount) Current(now time.Time) bool {
	return int64(c.clock.At(now)) < c.until.Load()
}

// LeaseSeconds returns how long ago the host's lease was renewed, or began.
func (c *leaseCount) LeaseSeconds() float64 {
	return (c.now() - (clock.Instant(c.until.Load()) - clock.Usable(c.cfg.Lease))).Seconds()
}

// newestRenewal returns when the newest renewal of an incarnation's row was sent; false if there
// was none.
func (c *leaseCount) newestRenewal(id actor.HostID) (sent clock.Instant, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.row - clock.Usable(c.cfg.Lease), c.host == id && c.row > 0
}
