package scheduler

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/ownership"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// incarnate begins a new incarnation, which holds nothing and is not registered. The
// caller has the lock.
func (s *Service) incarnate() {
	s.self = s.cfg.Self
	s.self.ID = s.cfg.NewID()
	s.countFor(s.self.ID)
	s.member, s.holdings = ownership.NewMember(s.self.ID), assignment.NewHoldings(s.self.ID)
	s.checkouts.types = map[protocol.TypeName]*checkoutType{}
	s.informed = false
}

// register inserts the host's row. If it fails the next try is another incarnation's: the
// row may be there all the same, and be cleared before that, and a host that was cleared
// never comes back.
func (s *Service) register(ctx context.Context) error {
	s.mu.Lock()
	self := s.self
	s.mu.Unlock()
	sent := s.now()
	registered, err := s.cfg.Store.RegisterHost(ctx, self, s.cfg.Lease)
	if err != nil {
		s.notRenewed(err)
		s.end()
		return err
	}
	s.renewed(self.ID, sent)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.self = registered
	s.members = maps.Clone(s.members)
	s.members[self.ID] = registered
	s.publish(true)
	return nil
}

// followRenewals publishes what has changed by a renewal: calls go on that waited for it,
// or fail since it has been missing for long, and what is held may have become clean.
func (s *Service) followRenewals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.renewals:
		}
		s.mu.Lock()
		if sent, ok := s.newestRenewal(s.self.ID); ok {
			s.member.Renewed(sent, s.cfg.Lease)
		}
		ripe := s.holdings.Ripens(s.now() - clock.RenewEvery(s.cfg.Lease))
		if ripens := ripe != 0 && ripe <= s.now(); s.wakes.Swap(false) || ripens {
			s.publish(ripens)
		}
		if s.lost() {
			s.wakeAcquisitions()
		}
		s.mu.Unlock()
	}
}

// wakeAcquisitions has the calls look again that wait for a sticky actor, or for leave to
// ask for one. What was asked for stays so. The caller has the lock.
func (s *Service) wakeAcquisitions() {
	for _, a := range s.asked {
		close(a.done)
		a.done = make(chan struct{})
	}
	if s.mayAsk != nil {
		close(s.mayAsk)
		s.mayAsk = make(chan struct{})
	}
}

// renewLoop keeps the host's row, and begins another incarnation when it is gone.
func (s *Service) renewLoop(ctx context.Context) {
	every := clock.RenewEvery(s.cfg.Lease)
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.unwanted:
			s.giveUpRow(ctx)
			continue
		case <-timer.C:
		}
		timer.Reset(every)
		switch _, err := s.renew(ctx); {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, actor.ErrHostGone):
			s.begunAnew(ctx)
		default:
			s.cfg.Logger.Warn("the lease of this host was not renewed", "host", s.Self(), "current", s.Current(time.Now()), "error", err)
			timer.Reset(every / 4)
		}
	}
}

// renew leases the row for another while, and returns the database's time.
func (s *Service) renew(ctx context.Context) (now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Lease/2)
	defer cancel()
	sent := s.now()
	id := s.Self()
	now, err = s.cfg.Store.RenewHost(ctx, id, s.cfg.Lease, s.Owned())
	if err != nil {
		s.notRenewed(err)
		return now, err
	}
	s.renewed(id, sent)
	s.followRenewal()
	return now, nil
}

// end ends this incarnation: nothing is held from now on, and nothing of it is left when
// end returns. The next one is not registered.
func (s *Service) end() { s.endIf(func() bool { return true }) }

// endIf is end, unless fits says with the lock held that nothing is to end.
func (s *Service) endIf(fits func() bool) bool {
	s.mu.Lock()
	if !fits() {
		s.mu.Unlock()
		return false
	}
	old := s.self.ID
	s.member.End()
	s.countFor("")
	s.owned.clear()
	s.members = maps.Clone(s.members)
	delete(s.members, old)
	s.endSession(errors.New("the host begins anew"))
	s.incarnate()
	s.publish(true)
	s.mu.Unlock()
	s.elector.ResignOthers()
	if s.cfg.Actors != nil {
		s.cfg.Actors.DropAll()
	}
	return true
}

// begunAnew begins another incarnation in the place of this one, whose row is gone.
func (s *Service) begunAnew(ctx context.Context) {
	old := s.Self()
	s.end()
	s.cfg.Logger.Error("the lease of this host ran out, and what it held was given away: it begins anew", "host", old, "as", s.Self())
	if s.cfg.Events.Ended != nil {
		s.cfg.Events.Ended(old)
	}
	s.registerAgain(ctx)
}

// giveUpRow removes the row of a host that holds nothing and that the leader does not get
// to know, and registers it anew: a leader waits for those that were registered when its
// term began, and would for this one for as long as its row is renewed.
func (s *Service) giveUpRow(ctx context.Context) {
	var epoch uint64
	old := s.Self()
	if !s.endIf(func() bool {
		if !s.idle() || s.search.anewIn == s.search.epoch {
			return false
		}
		epoch = s.search.epoch
		s.search.anewIn = epoch
		return true
	}) {
		return
	}
	s.cfg.Logger.Warn("the leader of the cluster does not get to know this host, which holds nothing: it registers anew, so that the others do not wait for it",
		"host", old, "as", s.Self(), "epoch", epoch)
	try, cancel := context.WithTimeout(ctx, s.cfg.Lease)
	err := s.cfg.Store.RemoveHost(try, old)
	cancel()
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("the row of this host was not removed, and is over in a lease", "host", old, "error", err)
	}
	s.registerAgain(ctx)
}

// registerAgain registers an incarnation that has begun, however often that takes.
func (s *Service) registerAgain(ctx context.Context) {
	for wait := clock.RenewEvery(s.cfg.Lease) / 8; ; wait = min(2*wait, s.cfg.Lease) {
		try, cancel := context.WithTimeout(ctx, s.cfg.Lease)
		err := s.register(try)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		s.cfg.Logger.Warn("this host could not register again", "host", s.Self(), "error", err)
		if !clock.Pause(ctx, wait) {
			return
		}
	}
}
