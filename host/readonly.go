package host

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// readTurn runs a read-only method over committed state, beside everything else.
func (h *Host) readTurn(ctx *turnContext, c *call, s *served, warm *loaded) (actor.Reply, error) {
	c.stats.lane = LaneReadOnly
	strong := c.inv.Consistency == actor.ConsistencyStrong
	l := warm
	if s.lane == LaneLocked {
		l = nil
	}
	for again := false; ; again = true {
		var err error
		if again {
			if err := ctx.Err(); err != nil {
				return actor.Reply{}, err
			}
			if s, err = h.serving(c.inv.Key.App, c.inv.Key.Type); err != nil {
				return actor.Reply{}, err
			}
		}
		if m, err := c.method(s); err != nil {
			return actor.Reply{}, err
		} else if !m.readOnly { // no more, since the call came
			return actor.Reply{}, errMoved
		}
		if l == nil {
			if l, err = h.committed(ctx, c, s, strong); err != nil {
				return actor.Reply{}, err
			}
		}
		if l.damage != nil {
			return actor.Reply{}, l.damage
		}
		changed, err := h.fits(ctx, l, s)
		if changed {
			continue
		}
		var reply actor.Reply
		if err == nil {
			reply, err = h.runApart(ctx, c, s, l, true)
		}
		if !strong || isContextError(err) {
			return reply, err
		}
		c.stats.ended = time.Time{} // not yet
		version, asked, unknown := h.versionNow(ctx, c.inv.Key)
		if unknown != nil {
			return actor.Reply{}, unknown
		}
		if h.confirmRead(c.inv.Key, l, version, asked) { // a failure shows the state as well
			return reply, err
		}
		l = nil
	}
}

// confirmRead takes over that the store had a version at a moment after asked, and
// reports whether it is that of l.
func (h *Host) confirmRead(key actor.Key, l *loaded, version uint64, asked time.Time) bool {
	s := h.table.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.actors[key]
	if version != l.version {
		if a == nil || a.loaded == nil {
			s.noteNewer(a, version)
		} else {
			s.noteOther(a, version)
		}
		return false
	}
	if a != nil && a.committed() == l {
		a.confirmed(asked)
	}
	return true
}

// statelessTurn runs a method of a type that has no state.
func (h *Host) statelessTurn(ctx *turnContext, c *call, s *served, _ *loaded) (actor.Reply, error) {
	c.stats.lane = LaneStateless
	m, err := c.method(s)
	if err != nil {
		return actor.Reply{}, err
	}
	return h.runApart(ctx, c, s, &loaded{state: noState}, m.readOnly)
}

// runApart runs a method on a spare instance, over l; it never commits.
func (h *Host) runApart(ctx *turnContext, c *call, s *served, l *loaded, readOnly bool) (actor.Reply, error) {
	in, err := s.pool.Acquire(ctx)
	if err != nil {
		return actor.Reply{}, err
	}
	t := h.newRun(c)
	defer h.putRun(t)
	// A revision of its own: the guest's caches of a read-only turn are nobody's.
	t.prepare(s, l, h.revisions.Next(), readOnly, c.arrived)
	err = t.on(ctx, in, s.migration(l))
	ran := time.Now()
	in.GiveBack(err, ran)
	if err == nil {
		err = ctx.errAt(ran)
	}
	if err != nil {
		return actor.Reply{}, err
	}
	c.stats.ended = ran
	done, err := t.seal(s, l)
	return done.reply, err
}

// committed returns the state that a read-only method reads: for warm types the
// activation's, made if there is none.
func (h *Host) committed(ctx context.Context, c *call, s *served, strong bool) (*loaded, error) {
	key := c.inv.Key
	sh := h.table.shard(key)
	if s.lane == LaneLocked {
		asked := time.Now()
		sh.mu.Lock()
		forgets, least := sh.forgets, sh.answered.least(key, asked)
		if a := sh.actors[key]; a != nil { // of another placement, before
			least = max(least, a.known())
		}
		sh.mu.Unlock()
		fresh := strong
		l, err := h.loadApart(ctx, c, actor.LoadOptions{AllowStale: !fresh})
		if err == nil && !fresh && l.damage == nil && l.version < least {
			fresh = true
			l, err = h.loadApart(ctx, c, actor.LoadOptions{}) // than which it was answered newer
		}
		if err == nil {
			sh.mu.Lock()
			sh.answered.note(key, l.version, time.Now())
			if a := sh.actors[key]; fresh && a != nil && a.loaded != nil { // of another placement, before or after
				h.show(sh, a, l, asked, forgets)
			} else { // what turns and readers of another placement have or load may be older
				sh.noteNewer(a, l.version)
			}
			sh.mu.Unlock()
		}
		return l, err
	}
	for {
		sh.mu.Lock()
		forgets, l, a := sh.forgets, sh.look(key, c.arrived), sh.actors[key]
		old := a != nil && a.committed() != nil // what there is was not confirmed lately
		sh.mu.Unlock()
		if l != nil {
			return l, nil
		}
		if old {
			if err := h.confirm(ctx, sh, a); err != nil {
				return nil, err
			}
			continue
		}
		asked := time.Now()
		l, err := h.loadApart(ctx, c, actor.LoadOptions{})
		if err == nil && l.damage == nil {
			h.offer(sh, key, s, l, asked, forgets)
		}
		return l, err
	}
}

// loadApart reads a row for a call that runs alone, which may have to wait for
// an instance with the state in its hands: it counts for Config.CallMemory until
// the call is answered.
func (h *Host) loadApart(ctx context.Context, c *call, opts actor.LoadOptions) (*loaded, error) {
	l, err := h.load(ctx, c.inv.Key, opts)
	if err != nil {
		return nil, err
	}
	if !h.memory.take(l.cost()) {
		return nil, h.errCallMemory()
	}
	c.loaded += l.cost()
	return l, nil
}

// offer gives a state that a reader loaded to the actor's activation: for readers
// alone if it has a state by now, and not at all if a worker is loading one or
// anything of the shard was forgotten since it was asked for, since the state might
// be older then than what was already answered. What it does not take is answered
// all the same, and nothing older may be afterwards.
func (h *Host) offer(sh *shard, key actor.Key, s *served, l *loaded, asked time.Time, forgets uint64) {
	sh.mu.Lock()
	a := sh.actors[key]
	if a != nil && a.loaded != nil {
		h.show(sh, a, l, asked, forgets)
		sh.mu.Unlock()
		return
	}
	if sh.forgets != forgets || a != nil && a.busy || a == nil && !h.table.reserve() { // readers push nobody out
		sh.noteNewer(a, l.version)
		sh.mu.Unlock()
		return
	}
	if a == nil {
		a = &activation{key: key}
		h.table.add(sh, a)
	}
	a.loaded, a.tip, a.rev, a.current = l, l, h.revisions.Next(), asked
	h.table.weigh(a)
	a.sticky, a.idleTimeout, a.lastUsed = s.sticky, s.limits.IdleTimeout, time.Now()
	fresh := !a.announced
	a.announced = true
	sh.mu.Unlock()
	if fresh {
		h.events.Activated(key)
	}
	h.evictToBudget()
}
