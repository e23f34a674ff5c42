package scheduler

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/leader"
	"github.com/greenroom-run/greenroom/scheduler/ownership"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// registration keeps the row of this host in the store, and begins another incarnation when the row
// is gone.
type registration struct {
	*member
	sticky   *sticky
	elector  *leader.Elector
	search   search        // for a session with the leader
	unwanted chan struct{} // has a value when the row is to be given up: see giveUpRow
}

// incarnate begins a new incarnation, which holds nothing and is not registered. The
// caller has the lock.
func (r *registration) incarnate() {
	r.self = r.cfg.Self
	r.self.ID = r.cfg.NewID()
	r.countFor(r.self.ID)
	r.ownership, r.holdings = ownership.NewMember(r.self.ID), assignment.NewHoldings(r.self.ID)
	r.competing = map[protocol.TypeName]*checkoutType{}
}

// register inserts the host's row. If it fails the next try is another incarnation's: the
// row may be there all the same, and be cleared before that, and a host that was cleared
// never comes back.
func (r *registration) register(ctx context.Context) error {
	r.mu.Lock()
	self := r.self
	r.mu.Unlock()
	sent := r.now()
	registered, err := r.cfg.Store.RegisterHost(ctx, self, r.cfg.Lease)
	if err != nil {
		r.notRenewed(err)
		r.end()
		return err
	}
	r.renewed(self.ID, sent)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.self = registered
	r.members = maps.Clone(r.members)
	r.members[self.ID] = registered
	r.publish(true)
	return nil
}

// followRenewals publishes what has changed by a renewal: calls go on that waited for it,
// or fail since it has been missing for long, and what is held may have become clean.
func (r *registration) followRenewals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.renewals:
		}
		r.mu.Lock()
		if sent, ok := r.newestRenewal(r.self.ID); ok {
			r.ownership.Renewed(sent, r.cfg.Lease)
		}
		cleanAt := r.holdings.CleanAt(r.now() - clock.RenewEvery(r.cfg.Lease))
		if clean := cleanAt != 0 && cleanAt <= r.now(); r.wakes.Swap(false) || clean {
			r.publish(clean)
		}
		if r.lost() {
			r.sticky.wake()
		}
		r.mu.Unlock()
	}
}

// run keeps the host's row, and begins another incarnation when it is gone.
func (r *registration) run(ctx context.Context) {
	every := clock.RenewEvery(r.cfg.Lease)
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.unwanted:
			r.giveUpRow(ctx)
			continue
		case <-timer.C:
		}
		timer.Reset(every)
		switch _, err := r.renew(ctx); {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, actor.ErrHostGone):
			r.begunAnew(ctx)
		default:
			r.cfg.Logger.Warn("the lease of this host was not renewed", "host", r.Self(), "current", r.Current(time.Now()), "error", err)
			timer.Reset(every / 4)
		}
	}
}

// renew leases the row for another while, and returns the database's time.
func (r *registration) renew(ctx context.Context) (now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Lease/2)
	defer cancel()
	sent := r.now()
	id := r.Self()
	now, err = r.cfg.Store.RenewHost(ctx, id, r.cfg.Lease, r.Owned())
	if err != nil {
		r.notRenewed(err)
		return now, err
	}
	r.renewed(id, sent)
	r.followRenewal()
	return now, nil
}

// end ends this incarnation: nothing is held from now on, and nothing of it is left when
// end returns. The next one is not registered.
func (r *registration) end() { r.endIf(func() bool { return true }) }

// endIf is end, unless fits says with the lock held that nothing is to end.
func (r *registration) endIf(fits func() bool) bool {
	r.mu.Lock()
	if !fits() {
		r.mu.Unlock()
		return false
	}
	old := r.self.ID
	r.ownership.End()
	r.countFor("")
	r.owned.clear()
	r.members = maps.Clone(r.members)
	delete(r.members, old)
	r.endSession(errors.New("the host begins anew"))
	r.incarnate()
	r.publish(true)
	r.mu.Unlock()
	r.elector.ResignOthers()
	if r.cfg.Actors != nil {
		r.cfg.Actors.DropAll()
	}
	return true
}

// begunAnew begins another incarnation in the place of this one, whose row is gone.
func (r *registration) begunAnew(ctx context.Context) {
	old := r.Self()
	r.end()
	r.cfg.Logger.Error("the lease of this host ran out, and what it held was given away: it begins anew", "host", old, "as", r.Self())
	if r.cfg.Events.Ended != nil {
		r.cfg.Events.Ended(old)
	}
	r.registerAgain(ctx)
}

// giveUpRow removes the row of a host that holds nothing and that the leader does not get
// to know, and registers it anew: a leader waits for those that were registered when its
// term began, and would for this one for as long as its row is renewed.
func (r *registration) giveUpRow(ctx context.Context) {
	var epoch uint64
	old := r.Self()
	if !r.endIf(func() bool {
		if !r.idle() || r.search.anewIn == r.search.epoch {
			return false
		}
		epoch = r.search.epoch
		r.search.anewIn = epoch
		return true
	}) {
		return
	}
	r.cfg.Logger.Warn("the leader of the cluster does not get to know this host, which holds nothing: it registers anew, so that the others do not wait for it",
		"host", old, "as", r.Self(), "epoch", epoch)
	try, cancel := context.WithTimeout(ctx, r.cfg.Lease)
	err := r.cfg.Store.RemoveHost(try, old)
	cancel()
	if err != nil && ctx.Err() == nil {
		r.cfg.Logger.Warn("the row of this host was not removed, and is over in a lease", "host", old, "error", err)
	}
	r.registerAgain(ctx)
}

// registerAgain registers an incarnation that has begun, however often that takes.
func (r *registration) registerAgain(ctx context.Context) {
	for wait := clock.RenewEvery(r.cfg.Lease) / 8; ; wait = min(2*wait, r.cfg.Lease) {
		try, cancel := context.WithTimeout(ctx, r.cfg.Lease)
		err := r.register(try)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		r.cfg.Logger.Warn("this host could not register again", "host", r.Self(), "error", err)
		if !clock.Pause(ctx, wait) {
			return
		}
	}
}

// seek notes that this host looks for a session with the leader of an epoch, and has its
// row given up if that has failed for long: see giveUpRow.
func (r *registration) seek(epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.search.failed(r.now(), r.cfg.Lease, epoch) && r.idle() {
		select {
		case r.unwanted <- struct{}{}:
		default:
		}
	}
}

// idle reports whether no leader has to know of this host: it holds and owns nothing, runs
// nothing of types that nobody holds, which takes a leader's word ([assignment.Holdings.Informed]), has no
// session that a leader has answered, and does not leave. The caller has the lock.
func (r *registration) idle() bool {
	if r.cfg.hosts() && r.holdings.Informed() && len(r.view.Load().types) > 0 {
		return false
	}
	return (r.session == nil || !r.session.met) && r.draining == "" && !r.holdings.Holding() && r.owned.count.Load() == 0 && r.heldPartitions() == 0
}
