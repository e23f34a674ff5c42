package host

import (
	"context"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/instance"
)

// warmTurn runs one attempt of a turn on the activation's tip.
func (h *Host) warmTurn(ctx *turnContext, a *activation, c *call, s *served, readOnly bool, now time.Time) outcome {
	if c.keyed() {
		if o, ok := h.known(ctx, a, c); ok {
			return o
		}
	}
	if err := h.checkMemory(); err != nil {
		return failed(err)
	}
	l, err := h.ensureLoaded(ctx, a, s)
	if err != nil {
		return failed(err)
	}
	if l == nil {
		return outcome{retry: true}
	}
	if l.damage != nil {
		return failed(l.damage)
	}
	if changed, err := h.fits(ctx, l, s); err != nil {
		o := failed(err) // of the tip, which need not be the newest
		o.resting, o.since = !isContextError(err), h.since(now, err)
		return o
	} else if changed {
		return failed(errMoved)
	}
	in, err := h.instanceFor(ctx, a, s)
	if err != nil {
		return failed(err)
	}
	t := h.newRun(c)
	defer h.putRun(t)
	t.prepare(s, l, a.rev, readOnly, now)
	t.activation, t.began = a, now
	err = t.on(ctx, in, s.migration(l))
	ran := time.Now()
	h.giveBack(a, in, err, ran)
	o := outcome{under: s, resting: true, ended: ran}
	if err == nil {
		if err = ctx.errAt(ran); err == nil {
			o.sealed, err = t.seal(s, l)
		}
	}
	if err != nil {
		// What the guest cached of its failed turn must never look current.
		a.rev = h.revisions.Next()
		if t.recorded != nil {
			return outcome{result: *t.recorded, ended: ran}
		}
		o := outcome{result: result{err: err}, resting: !isContextError(err), ended: ran}
		o.fails, o.since = c.keyed() && unrecorded(err) && !errors.Is(err, errDropped), h.since(now, err)
		return o
	}
	a.rev = o.sealed.rev
	o.reply = o.sealed.reply
	o.commits, o.since = o.sealed.changed || c.keyed(), h.since(now, nil)
	return o
}

// newCommit returns a commit of the next version of l.
func newCommit(key actor.Key, l *loaded) actor.Commit {
	c := actor.Commit{ID: actor.NewCommitID(), Key: key, ReadVersion: l.version, NewVersion: l.version + 1}
	if l.version == 0 {
		c.NewVersion = actor.FirstVersion()
	}
	return c
}

// ensureLoaded returns the activation's tip, reading it if it is cold. A damaged
// one is not kept. The result is nil if the state was dropped since the worker
// took the call: the calls before it go first.
func (h *Host) ensureLoaded(ctx context.Context, a *activation, s *served) (*loaded, error) {
	sh := a.shard
	sh.mu.Lock()
	h.catchUp(sh, a)
	tip, dropped := a.tip, a.member.Dropped() != nil
	a.sticky, a.idleTimeout = s.sticky, s.limits.IdleTimeout
	sh.mu.Unlock()
	if tip != nil || dropped {
		return tip, nil //nolint:nilerr // why it was dropped is for the calls that go again
	}
	asked := time.Now()
	l, err := h.load(ctx, a.key, actor.LoadOptions{})
	if err != nil || l.damage != nil {
		return l, err
	}
	h.keep(a, l, h.revisions.Next(), asked)
	if !h.evictToBudget() {
		h.dropState(a)
		return nil, h.errStateMemory()
	}
	return l, nil
}

// catchUp brings an activation without batches to the newest state that this host
// knows of: nothing, if it knows only that there is one. What is loaded from now on
// is as new. The caller has the shard's lock.
func (h *Host) catchUp(s *shard, a *activation) {
	switch {
	case a.tip == nil:
		a.newest = 0
	case !a.member.Quiet() || !a.outdated():
	case a.shown != nil:
		l := a.shown
		a.install(l)
		a.tip, a.rev = l, h.revisions.Next()
		h.table.weigh(a)
	default:
		h.table.forget(s, a)
	}
}

// keep makes l, which is committed and was asked for at a moment, what the
// activation holds. If something newer was heard of since, what rests on it is not
// answered.
func (h *Host) keep(a *activation, l *loaded, rev uint64, asked time.Time) {
	s := a.shard
	s.mu.Lock()
	a.install(l)
	a.tip, a.rev, a.current = l, rev, asked
	h.table.weigh(a)
	fresh := !a.announced
	a.announced = true
	s.mu.Unlock()
	if fresh {
		h.events.Activated(a.key)
	}
}

// dropState forgets the activation's state; its next turn reads the row.
func (h *Host) dropState(a *activation) {
	s := a.shard
	s.mu.Lock()
	h.table.forget(s, a)
	s.mu.Unlock()
}

// dropAll brings an activation to what the lanes without one want.
func (h *Host) dropAll(a *activation) {
	if a.loaded != nil { // it is drained: nobody else changes it
		h.dropState(a)
	}
	if a.dedicated != nil {
		h.takeDedicated(a).Discard()
	}
}

// instanceFor returns the instance for the activation's next turn.
func (h *Host) instanceFor(ctx context.Context, a *activation, s *served) (*instance.Instance, error) {
	if a.dedicated != nil {
		if s.dedicated && a.dedicated.Pool() == s.pool {
			return a.dedicated, nil
		}
		h.takeDedicated(a).Discard()
	}
	if !s.dedicated {
		return s.pool.Acquire(ctx)
	}
	in, err := s.pool.Make(ctx, true)
	if err != nil {
		return nil, err
	}
	sh := a.shard
	sh.mu.Lock()
	a.dedicated = in
	sh.mu.Unlock()
	return in, nil
}

// giveBack ends the use of an instance whose run ended with err.
func (h *Host) giveBack(a *activation, in *instance.Instance, err error, now time.Time) {
	switch {
	case !in.Dedicated():
		in.GiveBack(err, now)
	case instance.Broken(err):
		h.takeDedicated(a).Discard()
	default:
		in.Count()
	}
}

// takeDedicated takes its dedicated instance from an activation. It is for the worker.
func (h *Host) takeDedicated(a *activation) *instance.Instance {
	s := a.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	in := a.dedicated
	a.dedicated = nil
	return in
}
