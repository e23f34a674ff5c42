package leader

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// standBackLeases is for how many leases a process that resigned because no other host reached
// it lets others lead: it takes only a lease that nobody has wanted for the length of one.
const standBackLeases = 10

// Elector leads, for terms, when no other process does: it is the leader's part of a process.
// Its methods are safe for concurrent use.
type Elector struct {
	cfg        *Config
	term       atomic.Pointer[term] // while this process leads
	elected    chan struct{}        // has a value when this process has begun to lead
	leaderless chan struct{}        // has a value when perhaps no process leads
}

// New makes an elector, which leads while [Elector.Run] runs.
func New(cfg Config) *Elector {
	return &Elector{cfg: &cfg, elected: make(chan struct{}, 1), leaderless: make(chan struct{}, 1)}
}

// Epoch returns the epoch of this process's term; 0 while it does not lead.
func (e *Elector) Epoch() uint64 {
	if t := e.term.Load(); t != nil {
		return t.lease.Epoch
	}
	return 0
}

// Elected has a value when this process has begun to lead.
func (e *Elector) Elected() <-chan struct{} { return e.elected }

// SessionEnded notes that a session with the leader has ended, so perhaps no process leads.
func (e *Elector) SessionEnded() {
	select {
	case e.leaderless <- struct{}{}:
	default:
	}
}

// Run leads whenever the lease is free, until ctx ends; after a term in which no other host
// reached this one, only if no other process wants the lease.
func (e *Elector) Run(ctx context.Context) {
	every, jitter := clock.RenewEvery(e.cfg.Lease), clock.NewJitter("elect", e.cfg.Host())
	var backUntil clock.Instant // until when it leaves the lease to others
	for ctx.Err() == nil {
		var wait time.Duration
		lease, found, now, err := e.leaderLease(ctx)
		switch {
		case err != nil:
			wait = every / 4
		case found && e.cfg.now() < backUntil && othersFirst(lease.ExpiresAt, now, e.cfg.Lease) > 0:
			wait = min(every, othersFirst(lease.ExpiresAt, now, e.cfg.Lease)+time.Millisecond)
		case found && lease.Holder != e.cfg.Host() && lease.ExpiresAt.After(now):
			// One that is renewed is still there when this is over.
			wait = min(every, lease.ExpiresAt.Sub(now)+time.Millisecond)
		default:
			led, reached := e.lead(ctx)
			if led && !reached {
				backUntil = e.cfg.now() + standBackLeases*e.cfg.Lease
			}
			if led {
				continue
			}
			wait = every / 8
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait + jitter.Below(every/16)):
		case <-e.leaderless: // all that may lead notice it at once
			clock.Pause(ctx, jitter.Below(every/16))
		}
	}
}

// leaderLease reads the leader's lease, and about what time it is for the database.
func (e *Elector) leaderLease(ctx context.Context) (l actor.Lease, found bool, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Lease/2)
	defer cancel()
	l, found, err = e.cfg.Store.Lease(ctx, LeaseName)
	if err != nil || !found {
		return l, found, now, err
	}
	now, err = e.cfg.RenewRow(ctx)
	return l, found, now, err
}

// lead tries to take the lease, leads while it lasts, and reports whether it did, and
// whether other hosts reached it.
func (e *Elector) lead(ctx context.Context) (led, reached bool) {
	try, cancel := context.WithTimeout(ctx, e.cfg.Lease/2)
	sent := e.cfg.now()
	lease, taken, err := e.cfg.Store.AcquireLease(try, LeaseName, e.cfg.Host(), e.cfg.Lease)
	cancel()
	if err != nil || !taken {
		return false, false
	}
	ctx, resign := context.WithCancel(ctx)
	defer resign()
	t := newTerm(e.cfg, lease, sent)
	t.resign = resign
	e.term.Store(t)
	defer e.term.Store(nil)
	e.ResignOthers() // which may have begun meanwhile
	select {
	case e.elected <- struct{}{}:
	default:
	}
	return true, t.run(ctx)
}

// ResignOthers ends a term that began under another incarnation: once that one's row is gone,
// no host could find the leader any more.
func (e *Elector) ResignOthers() {
	if t := e.term.Load(); t != nil && t.lease.Holder != e.cfg.Host() {
		t.resign()
	}
}

// othersFirst is how long a process that stands back leaves the leader's lease to others,
// which ended at end; nothing once that is enough.
func othersFirst(end, now time.Time, lease time.Duration) time.Duration {
	return max(0, end.Add(lease).Sub(now))
}

// Serve serves a session of a host, until it or this process's term ends. ctx is the
// stream's. [actor.ErrClusterName] for a host of another cluster; [protocol.ErrProtocol] for one
// of a version that is too far away.
func (e *Elector) Serve(ctx context.Context, stream protocol.ServerStream) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	low, high := max(int(hello.GetMinProtocol()), e.cfg.Self.MinProtocol), min(int(hello.GetMaxProtocol()), e.cfg.Self.MaxProtocol)
	switch t := e.term.Load(); {
	case hello == nil:
		return errors.New("the first message of a session is its hello")
	case hello.GetCluster() != e.cfg.Self.Cluster:
		return fmt.Errorf("this is cluster %q, and host %s is of cluster %q: give it another database, or that name: %w", e.cfg.Self.Cluster, hello.GetHostId(), hello.GetCluster(), actor.ErrClusterName)
	case low > high:
		return fmt.Errorf("%w: this process speaks %d to %d, host %s speaks %d to %d; run versions that are one minor version apart at most", protocol.ErrProtocol,
			e.cfg.Self.MinProtocol, e.cfg.Self.MaxProtocol, hello.GetHostId(), hello.GetMinProtocol(), hello.GetMaxProtocol())
	case t == nil || t.lease.Epoch != hello.GetEpoch():
		return protocol.ErrNotLeader
	default:
		return t.serve(ctx, stream, hello)
	}
}
