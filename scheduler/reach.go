package scheduler

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/scheduler/clock"
)

// patience is for how many leases a leader goes on that no other host reaches, and a host
// keeps its row that has no session: longer than an election takes.
const patience = 2

// standsBack is for how many leases a process lets others lead that resigned since none
// reached it: it takes only a lease that nobody has wanted for the length of one.
const standsBack = 10

// reach is what a leader knows of whether the other hosts reach it. It is pure state.
type reach struct {
	others int           // hosts with a lease, beside the leader
	met    bool          // one of them has had a session in this term
	cut    bool          // others are there, and none has a session
	since  clock.Instant // from when on; while cut
}

// connected notes that another host has a session.
func (r *reach) connected() { r.met, r.cut = true, false }

// saw notes how many other hosts were there at a reading of the rows, and how many of them
// had a session.
func (r *reach) saw(now clock.Instant, others, sessions int) {
	r.others = others
	switch {
	case sessions > 0:
		r.connected()
	case others == 0:
		r.cut = false
	case !r.cut:
		r.cut, r.since = true, now
	}
}

// mayGrant reports whether a term may give anything away. One that two others cannot reach,
// and nobody has yet, would give everything to its own host, which would be of no use to
// them, and for which each later leader would wait.
func (r *reach) mayGrant() bool { return r.met || r.others < 2 }

// lost reports whether the leader should let another one try. Of two hosts that do not
// reach each other either leads as well as the other, if it can grant.
func (r *reach) lost(now, lease clock.Instant, granting bool) bool {
	return r.cut && now-r.since >= patience*lease && (r.others > 1 || !granting)
}

// search is what a host knows of its search for a session with a leader. It is pure state.
type search struct {
	epoch  uint64        // of the leader that it looks for
	since  clock.Instant // from when on it has had no session with it
	last   clock.Instant // until when it looked last
	anewIn uint64        // the epoch in which it gave up its row
}

// failed notes that there was no session with the leader of an epoch at now, and reports
// whether that has been so for long, for the first time in that epoch. A time in which the
// store did not say who leads does not count.
func (w *search) failed(now, lease clock.Instant, epoch uint64) (long bool) {
	if w.epoch != epoch || now-w.last > lease {
		w.epoch, w.since = epoch, now
	}
	w.last = now
	return w.anewIn != epoch && now-w.since >= patience*lease
}

// looked notes that an attempt at a session lasted until now: one that gets no answer takes
// as long as a lease.
func (w *search) looked(now clock.Instant) { w.last = now }

// ended notes that a session of the present epoch has ended.
func (w *search) ended(now clock.Instant) { w.since, w.last = now, now }

// seek notes that this host looks for a session with the leader of an epoch, and has its
// row given up if that has failed for long: see [Service.giveUpRow].
func (s *Service) seek(epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.search.failed(s.now(), s.cfg.Lease, epoch) && s.idle() {
		select {
		case s.unwanted <- struct{}{}:
		default:
		}
	}
}

// idle reports whether no leader has to know of this host: it holds and owns nothing, runs
// nothing of types that nobody holds, which takes a leader's word ([Holdings.Told]), has no
// session that a leader has answered, and does not leave. The caller has the lock.
func (s *Service) idle() bool {
	if s.cfg.hosts() && s.holdings.Told() && len(s.view.Load().types) > 0 {
		return false
	}
	return (s.session == nil || !s.session.met) && s.draining == "" && !s.holdings.Holding() && s.owned.count.Load() == 0 && s.partitions() == 0
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

// goesFirst is how long a process that stands back leaves the leader's lease to others,
// which ended at end; nothing once that is enough.
func goesFirst(end, now time.Time, lease time.Duration) time.Duration {
	return max(0, end.Add(lease).Sub(now))
}
