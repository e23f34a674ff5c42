package host

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/overlay"
)

// warmTurn runs one attempt of a turn on the activation's state.
func (h *Host) warmTurn(ctx context.Context, a *activation, c *call, s *served, readOnly bool) (actor.Reply, error) {
	l, err := h.ensureLoaded(ctx, a, s)
	if err != nil {
		return actor.Reply{}, err
	}
	if l.damage != nil {
		return actor.Reply{}, l.damage
	}
	if changed, err := h.fits(ctx, l, s); err != nil {
		return actor.Reply{}, err
	} else if changed {
		return actor.Reply{}, errMoved
	}
	in, err := h.instanceFor(ctx, a, s)
	if err != nil {
		return actor.Reply{}, err
	}
	t := h.turns.Get().(*turn)
	defer h.putTurn(t)
	t.prepare(c, s, l, a.rev, readOnly, h.cfg.Clock())
	c.stats.runs++
	err = t.run(ctx, in, s.migration(l))
	h.giveBack(a, in, err)
	var done sealed
	if err == nil {
		done, err = t.seal(ctx, s, l)
	}
	if err != nil {
		// What the guest cached of its failed turn must never look current.
		a.rev = h.revisions.Next()
		return actor.Reply{}, err
	}
	return h.commitAndRelease(a, l, &done)
}

// commitAndRelease makes a sealed turn durable, installs what it left, and only
// then returns the reply. A turn without a commit is released at once: what it
// observed is committed.
func (h *Host) commitAndRelease(a *activation, l *loaded, done *sealed) (actor.Reply, error) {
	if !done.needed {
		a.rev = done.rev
		return done.reply, nil
	}
	if err := h.commit(done.commit, LaneWarm); err != nil {
		h.dropState(a)
		return actor.Reply{}, err
	}
	h.keep(a, l.after(&done.commit, done.state), done.rev)
	return done.reply, nil
}

// sealed is a turn that has run to its end: what it asks for and what becomes of
// its actor. It refers to nothing of the guest or of the overlay.
type sealed struct {
	needed bool // there is something to commit
	commit actor.Commit
	state  *overlay.State // after the turn
	rev    uint64
	reply  actor.Reply
}

// seal closes the turn. It fails if the turn's time is up, and for a state above
// the limit; then nothing of the turn remains.
func (t *turn) seal(ctx context.Context, s *served, l *loaded) (sealed, error) {
	if err := ctx.Err(); err != nil {
		return sealed{}, err
	}
	done := sealed{
		state: l.state,
		rev:   t.state.Revision(),
		reply: actor.Reply{Payload: t.reply, Version: l.visibleVersion(), Fuel: t.fuel.Used},
	}
	if t.readOnly || t.stateless {
		return done, nil
	}
	state, changed, err := t.state.Seal()
	if err != nil {
		return sealed{}, err
	}
	// A migration that changed nothing is committed as well, so that it is not
	// run again each time.
	if !changed && s.migration(l) == nil {
		return done, nil
	}
	encoded := state.Encoded()
	done.needed, done.state = true, state
	done.commit = newCommit(t.key, l)
	done.commit.Generation, done.commit.StateSchema = s.deployment.Generation, s.stateSchema
	done.commit.Effects.State = &encoded
	done.reply.Version = done.commit.NewVersion
	return done, nil
}

// newCommit returns a commit of the next version of l.
func newCommit(key actor.Key, l *loaded) actor.Commit {
	c := actor.Commit{ID: actor.NewCommitID(), Key: key, ReadVersion: l.version, NewVersion: l.version + 1}
	if l.version == 0 {
		c.NewVersion = actor.FirstVersion()
	}
	return c
}

// ensureLoaded returns the activation's state, reading it if it is cold. A
// damaged one is not kept.
func (h *Host) ensureLoaded(ctx context.Context, a *activation, s *served) (*loaded, error) {
	if a.loaded == nil {
		l, err := h.load(ctx, a.key, actor.LoadOptions{})
		if err != nil {
			return nil, err
		}
		if l.damage != nil {
			return l, nil //nolint:nilerr // the damage is the row's, not the load's
		}
		h.keep(a, l, h.revisions.Next())
	}
	if a.sticky != s.sticky || a.idleTimeout != s.limits.IdleTimeout {
		sh := h.table.shard(a.key)
		sh.mu.Lock()
		a.sticky, a.idleTimeout = s.sticky, s.limits.IdleTimeout
		sh.mu.Unlock()
	}
	return a.loaded, nil
}

// keep makes l what the activation holds.
func (h *Host) keep(a *activation, l *loaded, rev uint64) {
	s := h.table.shard(a.key)
	s.mu.Lock()
	a.loaded, a.rev = l, rev
	fresh := !a.announced
	a.announced = true
	s.mu.Unlock()
	if fresh {
		h.events.Activated(a.key)
	}
}

// dropState forgets the activation's state; its next turn reads the row.
func (h *Host) dropState(a *activation) {
	s := h.table.shard(a.key)
	s.mu.Lock()
	a.loaded = nil
	s.forgets++
	s.mu.Unlock()
}

// keepNothing brings an activation to what the lanes without one want.
func (h *Host) keepNothing(a *activation) {
	if a.loaded != nil {
		h.dropState(a)
	}
	if a.own != nil {
		h.takeOwn(a).discard()
	}
}

// instanceFor returns the instance for the activation's next turn.
func (h *Host) instanceFor(ctx context.Context, a *activation, s *served) (*instance, error) {
	if a.own != nil {
		if s.dedicated && a.own.pool == s.pool {
			return a.own, nil
		}
		h.takeOwn(a).discard()
	}
	if !s.dedicated {
		return s.pool.acquire(ctx)
	}
	in, err := s.pool.make(ctx, true)
	if err != nil {
		return nil, err
	}
	sh := h.table.shard(a.key)
	sh.mu.Lock()
	a.own = in
	sh.mu.Unlock()
	return in, nil
}

// giveBack ends the use of an instance whose run ended with err.
func (h *Host) giveBack(a *activation, in *instance, err error) {
	switch {
	case !in.dedicated:
		in.giveBack(err)
	case broken(err):
		h.takeOwn(a).discard()
	default:
		in.count()
	}
}

// takeOwn takes its dedicated instance from an activation. It is for the worker.
func (h *Host) takeOwn(a *activation) *instance {
	s := h.table.shard(a.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	in := a.own
	a.own = nil
	return in
}

func (h *Host) putTurn(t *turn) {
	t.forget()
	h.turns.Put(t)
}
