package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// standsBack is for how many leases a process lets others lead that resigned since none
// reached it: it takes only a lease that nobody has wanted for the length of one.
const standsBack = 10

// electLoop leads whenever the lease can be had; after a term in which no other host
// reached this one, only if nobody else wants it.
func (s *Service) electLoop(ctx context.Context) {
	every, jitter := clock.RenewEvery(s.cfg.Lease), clock.NewJitter("elect", s.Self())
	var backUntil clock.Instant // until when it stands back
	for ctx.Err() == nil {
		var wait time.Duration
		lease, found, now, err := s.leaderLease(ctx)
		switch {
		case err != nil:
			wait = every / 4
		case found && s.now() < backUntil && goesFirst(lease.ExpiresAt, now, s.cfg.Lease) > 0:
			wait = min(every, goesFirst(lease.ExpiresAt, now, s.cfg.Lease)+time.Millisecond)
		case found && lease.Holder != s.Self() && lease.ExpiresAt.After(now):
			// One that is renewed is still there when this is over.
			wait = min(every, lease.ExpiresAt.Sub(now)+time.Millisecond)
		default:
			led, reached := s.lead(ctx)
			if led && !reached {
				backUntil = s.now() + standsBack*s.cfg.Lease
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
		case <-s.leaderless: // all that may lead notice it at once
			clock.Pause(ctx, jitter.Below(every/16))
		}
		timer.Stop()
	}
}

// leaderLease reads the leader's lease, and about what time it is for the database.
func (s *Service) leaderLease(ctx context.Context) (l actor.Lease, found bool, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Lease/2)
	defer cancel()
	l, found, err = s.cfg.Store.Lease(ctx, leaderLease)
	if err != nil || !found {
		return l, found, now, err
	}
	now, err = s.renew(ctx)
	return l, found, now, err
}

// lead tries to take the lease, leads while it lasts, and reports whether it did, and
// whether other hosts reached it.
func (s *Service) lead(ctx context.Context) (led, reached bool) {
	try, cancel := context.WithTimeout(ctx, s.cfg.Lease/2)
	sent := s.now()
	lease, taken, err := s.cfg.Store.AcquireLease(try, leaderLease, s.Self(), s.cfg.Lease)
	cancel()
	if err != nil || !taken {
		return false, false
	}
	ctx, resign := context.WithCancel(ctx)
	defer resign()
	t := newTerm(s, lease, sent)
	t.resign = resign
	s.term.Store(t)
	defer s.term.Store(nil)
	s.resignOthers() // which may have begun meanwhile
	select {
	case s.elected <- struct{}{}:
	default:
	}
	return true, t.run(ctx)
}

// led notifies Events.Led that this process begins or ends a term.
func (s *Service) led(epoch uint64, leads bool) {
	if s.cfg.Events.Led != nil {
		s.cfg.Events.Led(epoch, leads)
	}
}

// resignOthers ends a term that was begun as another incarnation: its leader could not be
// found any more, once that one's row is gone.
func (s *Service) resignOthers() {
	if t := s.term.Load(); t != nil && t.lease.Holder != s.Self() {
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
func (s *Service) Serve(ctx context.Context, stream protocol.ServerStream) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	low, high := max(int(hello.GetMinProtocol()), s.cfg.Self.MinProtocol), min(int(hello.GetMaxProtocol()), s.cfg.Self.MaxProtocol)
	switch t := s.term.Load(); {
	case hello == nil:
		return errors.New("the first message of a session is its hello")
	case hello.GetCluster() != s.cfg.Self.Cluster:
		return fmt.Errorf("this is cluster %q, and host %s is of cluster %q: give it another database, or that name: %w", s.cfg.Self.Cluster, hello.GetHostId(), hello.GetCluster(), actor.ErrClusterName)
	case low > high:
		return fmt.Errorf("%w: this process speaks %d to %d, host %s speaks %d to %d; run versions that are one minor version apart at most", protocol.ErrProtocol,
			s.cfg.Self.MinProtocol, s.cfg.Self.MaxProtocol, hello.GetHostId(), hello.GetMinProtocol(), hello.GetMaxProtocol())
	case t == nil || t.lease.Epoch != hello.GetEpoch():
		return protocol.ErrNotLeader
	default:
		return t.serve(ctx, stream, hello)
	}
}

// leaderLease is the name of the lease that the leader holds.
const leaderLease = "leader"
