package scheduler

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

// standsBack is for how many leases a process lets others lead that resigned since none
// reached it: it takes only a lease that nobody has wanted for the length of one.
const standsBack = 10

// elector leads, for terms, when nobody else does. It has the leader's part of a process; its
// methods are safe for concurrent use.
type elector struct {
	*environment
	host       func() actor.HostID                          // the present incarnation
	renewRow   func(ctx context.Context) (time.Time, error) // that of the incarnation; returns the database's time
	term       atomic.Pointer[term]                         // while this process leads
	elected    chan struct{}                                // this process leads
	leaderless chan struct{}                                // perhaps nobody leads: a session with the leader has ended
}

func newElector(e *environment, host func() actor.HostID, renewRow func(context.Context) (time.Time, error)) *elector {
	return &elector{environment: e, host: host, renewRow: renewRow, elected: make(chan struct{}, 1), leaderless: make(chan struct{}, 1)}
}

// electLoop leads whenever the lease can be had; after a term in which no other host
// reached this one, only if nobody else wants it.
func (e *elector) electLoop(ctx context.Context) {
	every, jitter := clock.RenewEvery(e.cfg.Lease), clock.NewJitter("elect", e.host())
	var backUntil clock.Instant // until when it stands back
	for ctx.Err() == nil {
		var wait time.Duration
		lease, found, now, err := e.leaderLease(ctx)
		switch {
		case err != nil:
			wait = every / 4
		case found && e.now() < backUntil && goesFirst(lease.ExpiresAt, now, e.cfg.Lease) > 0:
			wait = min(every, goesFirst(lease.ExpiresAt, now, e.cfg.Lease)+time.Millisecond)
		case found && lease.Holder != e.host() && lease.ExpiresAt.After(now):
			// One that is renewed is still there when this is over.
			wait = min(every, lease.ExpiresAt.Sub(now)+time.Millisecond)
		default:
			led, reached := e.lead(ctx)
			if led && !reached {
				backUntil = e.now() + standsBack*e.cfg.Lease
			}
			if led {
				continue
			}
			wait = every / 8
		}
		timer := time.NewTimer(wait + jitter.Below(every/16))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.leaderless: // all that may lead notice it at once
			clock.Pause(ctx, jitter.Below(every/16))
		}
		timer.Stop()
	}
}

// leaderLease reads the leader's lease, and about what time it is for the database.
func (e *elector) leaderLease(ctx context.Context) (l actor.Lease, found bool, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Lease/2)
	defer cancel()
	l, found, err = e.cfg.Store.Lease(ctx, leaderLease)
	if err != nil || !found {
		return l, found, now, err
	}
	now, err = e.renewRow(ctx)
	return l, found, now, err
}

// lead tries to take the lease, leads while it lasts, and reports whether it did, and
// whether other hosts reached it.
func (e *elector) lead(ctx context.Context) (led, reached bool) {
	try, cancel := context.WithTimeout(ctx, e.cfg.Lease/2)
	sent := e.now()
	lease, taken, err := e.cfg.Store.AcquireLease(try, leaderLease, e.host(), e.cfg.Lease)
	cancel()
	if err != nil || !taken {
		return false, false
	}
	ctx, resign := context.WithCancel(ctx)
	defer resign()
	t := newTerm(e.environment, lease, sent)
	t.resign = resign
	e.term.Store(t)
	defer e.term.Store(nil)
	e.resignOthers() // which may have begun meanwhile
	select {
	case e.elected <- struct{}{}:
	default:
	}
	return true, t.run(ctx)
}

// resignOthers ends a term that was begun as another incarnation: its leader could not be
// found any more, once that one's row is gone.
func (e *elector) resignOthers() {
	if t := e.term.Load(); t != nil && t.lease.Holder != e.host() {
		t.resign()
	}
}

// goesFirst is how long a process that stands back leaves the leader's lease to others,
// which ended at end; nothing once that is enough.
func goesFirst(end, now time.Time, lease time.Duration) time.Duration {
	return max(0, end.Add(lease).Sub(now))
}

// Serve serves a session of a host, until it or this process's term ends. ctx is the
// stream's. [actor.ErrClusterName] for a host of another cluster; [protocol.ErrProtocol] for one
// of a version that is too far away.
func (e *elector) Serve(ctx context.Context, stream protocol.ServerStream) error {
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

// leaderLease is the name of the lease that the leader holds.
const leaderLease = "leader"
