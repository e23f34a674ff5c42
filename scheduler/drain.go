package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/protocol"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// Drain hands over all that this host holds, to hosts that are not draining, and gets
// nothing new until the process ends. It returns when nothing is left here and others have
// it, by the leader's word, for which it waits as long as a lease at most; at once if there
// is no other host to take it. Calls go on to be routed. It is safe to call twice: both
// wait.
func (s *Service) Drain(ctx context.Context, reason string) error {
	began := s.now()
	var late <-chan time.Time // has a value a lease after nothing was left here
	tooLate := false
	s.mu.Lock()
	if s.draining == "" {
		s.draining = reason
		s.kickCheckout()
		s.cfg.Logger.Info("draining", "host", s.self.ID, "reason", reason)
		if s.session != nil {
			s.session.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Drain{Drain: &greenroomv1.DrainRequest{}}})
		}
	}
	s.mu.Unlock()
	for {
		s.mu.Lock()
		changed := s.view.Load().changed
		alone, holding, owns := s.alone(), s.holdings.Holding() || s.partitions() > 0, s.owned.count.Load() > 0
		underWay := s.holdings.UnderWay()
		if !alone && !holding && owns && s.session != nil && !s.releasing {
			s.releasing = true
			leaving := s.owned.leave(maxDrained, func(actor.Key, *ownedActor) bool { return true })
			s.giveUp(s.session, leaving, func() { s.releasing = false })
		}
		s.mu.Unlock()
		if !holding && !owns && late == nil {
			timer := time.NewTimer(s.cfg.Lease)
			defer timer.Stop()
			late = timer.C
		}
		if alone || !holding && !owns && (!underWay || tooLate || ctx.Err() != nil) {
			s.drainOnce.Do(func() {
				s.cfg.Logger.Info("drained", "host", s.Self(), "reason", reason, "alone", alone, "took", (s.now() - began).Round(time.Millisecond).String())
				if !alone && underWay {
					s.cfg.Logger.Warn("the leader did not say who has all that this host handed over", "waited", s.cfg.Lease.String())
				}
				if s.cfg.Events.Drained != nil {
					s.cfg.Events.Drained(reason)
				}
			})
			return nil
		}
		select {
		case <-changed:
		case <-late:
			tooLate = true
		case <-ctx.Done():
			return fmt.Errorf("drain: not all was handed over: %w", ctx.Err())
		}
	}
}

// maxDrained is how many sticky actors are handed over together: those pause for the
// hand-over of as many others.
const maxDrained = 1024

// Draining reports whether this host hands over what it holds, or has.
func (s *Service) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining != ""
}

// alone reports whether there is no other host to take over. The caller has the lock.
func (s *Service) alone() bool {
	for id, h := range s.members {
		if id != s.self.ID && slices.Contains(h.Roles, protocol.RoleHost) && !s.drains[id] {
			return false
		}
	}
	return true
}

// DrainHost has another host, or this one, drain; it does not wait for the end.
// [actor.ErrHostGone] if there is no such host, and [actor.ErrUnavailable] while there
// is no leader to tell.
func (s *Service) DrainHost(id actor.HostID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.members[id]; !there {
		return fmt.Errorf("host %s: %w", id, actor.ErrHostGone)
	}
	if s.session == nil {
		return fmt.Errorf("no session with the leader of the cluster: %w", actor.ErrUnavailable)
	}
	if id == s.self.ID {
		s.loops.Go(func() { _ = s.Drain(s.drainContext, "asked") })
		return nil
	}
	s.session.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Drain{Drain: &greenroomv1.DrainRequest{HostId: string(id)}}})
	return nil
}
