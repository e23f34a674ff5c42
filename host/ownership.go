package host

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/storage"
)

// This file decides which host runs an actor, and what that host may answer about it:
//
//   - admits decides for every call whether this host may run it, under the lock under
//     which the call gets its place. An activation that is in the table and does not
//     leave is held: [Ownership] is asked only where there is no such activation.
//   - activate makes every activation. remove ends an activation that has no work, after
//     the turns that it was given. Handing an actor over lets its activation reach that
//     point; see handover.go.
//   - newest reports whether the state in memory is the newest, as long as the host's
//     lease lasts; currentSince decides whether an answer needs the store. Package residency
//     has what was in memory, and what is known to be newer.
//
// What a host has in memory is surely current only at the moment of a commit or of a
// read. Where no other process writes to the store, it stays current permanently; where
// this host holds the actor, for as long as the host's lease lasts. Otherwise an answer
// that no commit proves is given only on a state that was current after some moment. For
// reads and for a turn that changed nothing, this moment is [actor.MaxReadAge] before the
// call began. For a failure, for the news that there is no actor and for what leaves the
// host, the moment is the beginning of the call. If the host does not know yet whether
// the state was current then, it asks the store for the row's version, together with
// those of other actors.
//
// The lease is checked after the fact: what was in memory, or was read, before the lease
// was found to last was there before anybody else was given the actor. So nothing builds
// on what a host learns after it has lost an actor, and would write over.

// ownership says what this host may run, and what it may answer without asking the
// store.
type ownership struct {
	shared  bool      // others write to the store
	cluster Ownership // nil: everything is held
	store   *storage.Store
}

// admits returns how the host holds an actor whose call is to run under by, and an error if
// the call may not run. a is the actor's activation, nil if there is none. The caller has
// the shard's lock.
func (o *ownership) admits(s *shard, key actor.Key, a *activation, by *serving.Type, now time.Time) (actor.Hold, error) {
	if o.cluster == nil {
		return actor.NotHeld, nil
	}
	if a != nil && a.leaving {
		return actor.NotHeld, actor.ErrNotOwner
	}
	if by.Lane == serving.LaneLocked {
		return actor.NotHeld, o.mayRun(key, by, now)
	}
	if !by.Placed() {
		return actor.NotHeld, nil
	}
	if !o.cluster.Current(now) {
		return actor.NotHeld, actor.ErrNotOwner
	}
	if a != nil && a.hold != actor.NotHeld {
		return a.hold, nil
	}
	hold := o.cluster.Holds(key, by.Placement)
	switch {
	case hold == actor.NotHeld:
		return hold, actor.ErrNotOwner
	case a != nil && a.Loaded != nil, s.history.Unsettled.Has(key, now): // what was loaded then may be old now
		return actor.Held, nil
	default:
		return hold, nil
	}
}

// holdsStill reports whether this host holds an actor now, whatever its activation was given.
func (o *ownership) holdsStill(key actor.Key, by *serving.Type) bool {
	return o.cluster == nil || o.cluster.Holds(key, by.Placement) != actor.NotHeld
}

// mayRun says why nothing may be written to an actor under by now, which gives it no place.
// What was read before is not built on by anybody else: who is given the actor later
// fences out what was read before that.
func (o *ownership) mayRun(key actor.Key, by *serving.Type, now time.Time) error {
	if o.cluster == nil || o.cluster.Current(now) && o.cluster.Holds(key, by.Placement) != actor.NotHeld {
		return nil
	}
	return actor.ErrNotOwner
}

// mayRead reports whether a call that is not held here is answered from a copy.
func (o *ownership) mayRead(c *call.Call, by *serving.Type) bool {
	return o.cluster != nil && by.Shared && by.Placed() && c.Op == call.OpInvoke && c.Cause != actor.CauseFiring &&
		c.Inv.Consistency != actor.ConsistencyStrong && o.cluster.Reads(c.Inv.Key)
}

// enter admits a call under by that runs on its caller's goroutine. warm is what its
// actor's activation holds for readers, nil if there is nothing or it is not current, or
// if the call is to be answered from a copy, which call.copied reports.
// errUnfenced means that earlier owners of the actor have to be fenced out first.
func (o *ownership) enter(s *shard, c *call.Call, by *serving.Type) (warm *residency.Row, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, actor.ErrStopping
	}
	a := s.actors[c.Inv.Key]
	hold := actor.NotHeld
	if by.Lane != serving.LaneLocked || a != nil && a.leaving { // otherwise it reads what the store has
		hold, err = o.admits(s, c.Inv.Key, a, by, c.Arrived)
	}
	c.Copied = err != nil && o.mayRead(c, by)
	switch {
	case c.Copied:
	case err != nil:
		return nil, err
	case hold == actor.Held && by.Sticky:
		return nil, call.ErrUnfenced
	case a != nil:
		a.hold = hold
	}
	c.Losses = s.losses.Load()
	s.work.Add(1)
	s.running.Push(&c.Place, c)
	if c.Copied {
		return nil, nil //nolint:nilnil // the call is in
	}
	return o.look(s, c.Inv.Key, by, c.Arrived), nil
}

// look returns the committed state that an actor's activation has for readers, nil
// if it has none that is current, and counts as a use of it. The caller has the lock.
//
// Where other hosts answer from copies, what is in memory may be older than what they
// have answered as long as a commit is under way, which they see in the store before its
// outcome is known here: then a state is current that was the newest after the call came.
func (o *ownership) look(s *shard, key actor.Key, by *serving.Type, now time.Time) *residency.Row {
	a := s.actors[key]
	if a == nil || a.Loaded == nil {
		return nil
	}
	s.used(a)
	a.lastUsed = now
	newest, current := o.newest(a), a.Current.After(now.Add(-actor.MaxReadAge))
	if by.ReadElsewhere(now) {
		newest, current = newest && !a.busy, !a.Current.Before(now)
	}
	if !newest && !current {
		return nil
	}
	return a.Committed()
}

// mayBegin says why no turn of a may begin under by now. It is for the worker.
func (o *ownership) mayBegin(a *activation, by *serving.Type, now time.Time) error {
	if o.cluster == nil || !by.Placed() && by.Lane != serving.LaneLocked {
		return nil
	}
	s := a.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	hold, err := o.admits(s, a.key, a, by, now)
	if err == nil {
		a.hold = hold
	}
	return err
}

// stillHeld reports whether what the activation has just learned may be built on: it was
// the newest when the host's lease was found to last. It is for the worker.
func (o *ownership) stillHeld(a *activation) bool {
	if o.cluster == nil {
		return true
	}
	s := a.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.hold == actor.NotHeld || !a.lost && o.cluster.Current(time.Now())
}

// holds reports whether what a call without a mailbox was shown may be answered: the
// host's lease lasts, so that it was the newest when the call entered. lost means that
// the host has lost what it held since.
func (o *ownership) holds(s *shard, c *call.Call) (lost, sure bool) {
	if o.cluster == nil {
		return false, true
	}
	now := c.Stats.Ended
	if now.IsZero() {
		now = time.Now()
	}
	lost = s.losses.Load() != c.Losses
	return lost, !lost && o.cluster.Current(now)
}

// newest reports whether the activation has the newest state, provided that the host has
// no other news and that its lease lasts, which is to be found out when the call is
// answered. The caller has the shard's lock.
func (o *ownership) newest(a *activation) bool {
	return !o.shared || o.cluster != nil && a.hold == actor.HeldClean
}

// advanced takes over that a commit of an activation has been applied: no earlier one
// can land any more. The caller has the shard's lock.
func (o *ownership) advanced(a *activation) {
	if a.hold == actor.Held {
		a.hold = actor.HeldClean
		if a.sticky {
			o.cluster.Settled(a.key)
		}
	}
	a.shard.history.Unsettled.Delete(a.key)
}

// currentSince reports whether what the activation has for readers is known now to
// have been the newest at some moment after since. A host whose lease does not last
// knows nothing by itself. The caller has the shard's lock.
func (o *ownership) currentSince(a *activation, since, now time.Time) bool {
	switch {
	case !o.shared:
		return true
	case o.cluster == nil, a.hold == actor.NotHeld:
		return a.Current.After(since)
	default:
		return !a.lost && o.cluster.Current(now) && (o.newest(a) || a.Current.After(since))
	}
}

// confirm finds out whether what readers see of a, an activation that was in the
// table when its reader came, is current. When it returns nil that is noted.
func (o *ownership) confirm(ctx context.Context, s *shard, a *activation) error {
	s.mu.Lock()
	known, c := a.Committed(), a.confirmation
	first := c == nil
	if first {
		c = &confirmation{done: make(chan struct{})}
		a.confirmation = c
	}
	s.mu.Unlock()
	if first {
		asked := time.Now()
		o.store.Versions.Ask(a.key, func(v actor.RowVersion, err error) {
			s.mu.Lock()
			switch {
			case err != nil:
				c.err = fmt.Errorf("confirm version: %w", err)
			case known == nil || a.Committed() != known: // no longer what was asked for
			case known.Version == v.Version:
				a.Confirmed(asked)
			default:
				s.noteOther(a, v.Version)
			}
			a.confirmation = nil
			s.mu.Unlock()
			close(c.done)
		})
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// confirmTip makes sure that the state that the activation's turns run on, which
// has no batch, was the newest after a moment. It reports whether it was not: then
// it is not to be built on. It is for the worker.
func (o *ownership) confirmTip(ctx context.Context, a *activation, since time.Time) (outdated bool, err error) {
	s := a.shard
	s.mu.Lock()
	tip, lost := a.Tip, a.lost
	ok := o.currentSince(a, since, time.Now()) && !a.Outdated()
	s.mu.Unlock()
	if lost {
		return false, actor.ErrNotOwner
	}
	if ok || tip == nil {
		return false, nil
	}
	version, asked, err := o.store.Version(ctx, a.key)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != tip.Version {
		s.noteOther(a, version)
	} else {
		a.Confirmed(asked)
	}
	return a.Outdated(), nil
}

// since is the moment after which the state must have been the newest that an
// outcome shows, if no commit proves it: zero if that does not matter. strict means that the state must
// not be older than the turn.
func (o *ownership) since(s *serving.Type, began time.Time, strict bool) time.Time {
	if !o.shared {
		return time.Time{}
	}
	if !strict && !s.ReadElsewhere(began) {
		return began.Add(-actor.MaxReadAge)
	}
	return began
}
