package activation

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

// Ownership says what this host may run, and what it may answer without asking the
// store.
type Ownership struct {
	Shared  bool    // others write to the store
	Cluster Cluster // nil: everything is held
	Store   *storage.Store
}

// Admits returns how the host holds an actor whose call is to run under by, and an error if
// the call may not run. a is the actor's activation, nil if there is none. The caller has
// the shard's lock.
func (o *Ownership) Admits(s *Shard, key actor.Key, a *Activation, by *serving.Type, now time.Time) (actor.Hold, error) {
	if o.Cluster == nil || key.IsAnonymous() { // no host but this one knows it
		return actor.NotHeld, nil
	}
	if a != nil && a.Leaving {
		return actor.NotHeld, actor.ErrNotOwner
	}
	if by.Lane == serving.LaneLocked {
		return actor.NotHeld, o.MayRun(key, by, now)
	}
	if !by.Placed() {
		return actor.NotHeld, nil
	}
	if !o.Cluster.Current(now) {
		return actor.NotHeld, actor.ErrNotOwner
	}
	if a != nil && a.Hold != actor.NotHeld {
		return a.Hold, nil
	}
	hold := o.Cluster.Holds(key, by.Placement)
	switch {
	case hold == actor.NotHeld:
		return hold, actor.ErrNotOwner
	case a != nil && a.Loaded != nil, s.History.Unsettled.Has(key, now): // what was loaded then may be old now
		return actor.Held, nil
	default:
		return hold, nil
	}
}

// HoldsStill reports whether this host holds an actor now, whatever its activation was given.
func (o *Ownership) HoldsStill(key actor.Key, by *serving.Type) bool {
	return o.Cluster == nil || key.IsAnonymous() || o.Cluster.Holds(key, by.Placement) != actor.NotHeld
}

// MayRun says why nothing may be written to an actor under by now, which gives it no place.
// What was read before is not built on by anybody else: who is given the actor later
// fences out what was read before that.
func (o *Ownership) MayRun(key actor.Key, by *serving.Type, now time.Time) error {
	if o.Cluster == nil || o.Cluster.Current(now) && o.Cluster.Holds(key, by.Placement) != actor.NotHeld {
		return nil
	}
	return actor.ErrNotOwner
}

// mayRead reports whether a call that is not held here is answered from a copy.
func (o *Ownership) mayRead(c *call.Call, by *serving.Type) bool {
	return o.Cluster != nil && by.Shared && by.Placed() && c.Op == call.OpInvoke && !c.Cause.Fires() &&
		c.Inv.Consistency != actor.ConsistencyStrong && o.Cluster.Reads(c.Inv.Key)
}

// Enter admits a call under by that runs on its caller's goroutine. warm is what its
// actor's activation holds for readers, nil if there is nothing or it is not current, or if the
// call is to be answered from a copy; then c.Copied is true. [call.ErrUnfenced] means that earlier
// owners of the actor have to be fenced out first.
func (o *Ownership) Enter(s *Shard, c *call.Call, by *serving.Type) (warm *residency.Row, err error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Closed {
		return nil, actor.ErrStopping
	}
	a := s.Actors[c.Inv.Key]
	hold := actor.NotHeld
	if by.Lane != serving.LaneLocked || a != nil && a.Leaving { // otherwise it reads what the store has
		hold, err = o.Admits(s, c.Inv.Key, a, by, c.Arrived)
	}
	c.Copied = err != nil && o.mayRead(c, by)
	switch {
	case c.Copied:
	case err != nil:
		return nil, err
	case hold == actor.Held && by.Sticky:
		return nil, call.ErrUnfenced
	case a != nil:
		a.Hold = hold
	}
	c.Losses = s.Losses.Load()
	s.Work.Add(1)
	s.Running.Push(&c.Place, c)
	if c.Copied {
		return nil, nil //nolint:nilnil // the call is in
	}
	return o.Look(s, c.Inv.Key, by, c.Arrived), nil
}

// Look returns the committed state that an actor's activation has for readers, nil
// if it has none that is current, and counts as a use of it. The caller has the lock.
//
// Where other hosts answer from copies, what is in memory may be older than what they
// have answered as long as a commit is under way, which they see in the store before its
// outcome is known here: then a state is current that was the newest after the call came.
func (o *Ownership) Look(s *Shard, key actor.Key, by *serving.Type, now time.Time) *residency.Row {
	a := s.Actors[key]
	if a == nil || a.Loaded == nil {
		return nil
	}
	s.Used(a)
	a.LastUsed = now
	newest, current := o.newest(a), a.Current.After(now.Add(-actor.MaxReadAge))
	if by.ReadElsewhere(now) {
		newest, current = newest && !a.Busy, !a.Current.Before(now)
	}
	if !newest && !current {
		return nil
	}
	return a.Committed()
}

// MayBegin says why no turn of a may begin under by now. It is for the worker.
func (o *Ownership) MayBegin(a *Activation, by *serving.Type, now time.Time) error {
	if o.Cluster == nil || !by.Placed() && by.Lane != serving.LaneLocked {
		return nil
	}
	s := a.Shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	hold, err := o.Admits(s, a.Key, a, by, now)
	if err == nil {
		a.Hold = hold
	}
	return err
}

// StillHeld reports whether what the activation has just learned may be built on: it was
// the newest when the host's lease was found to last. It is for the worker.
func (o *Ownership) StillHeld(a *Activation) bool {
	if o.Cluster == nil {
		return true
	}
	s := a.Shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return a.Hold == actor.NotHeld || !a.Lost && o.Cluster.Current(time.Now())
}

// Holds reports whether what a call without a mailbox was shown may be answered: the
// host's lease lasts, so that it was the newest when the call entered. lost means that
// the host has lost what it held since.
func (o *Ownership) Holds(s *Shard, c *call.Call) (lost, sure bool) {
	if o.Cluster == nil {
		return false, true
	}
	now := c.Stats.Ended
	if now.IsZero() {
		now = time.Now()
	}
	lost = s.Losses.Load() != c.Losses
	return lost, !lost && o.Cluster.Current(now)
}

// newest reports whether the activation has the newest state, provided that the host has
// no other news and that its lease lasts, which is to be found out when the call is
// answered. The caller has the shard's lock.
func (o *Ownership) newest(a *Activation) bool {
	return !o.Shared || o.Cluster != nil && a.Hold == actor.HeldClean
}

// Advanced takes over that a commit of an activation has been applied: no earlier one
// can land any more. The caller has the shard's lock.
func (o *Ownership) Advanced(a *Activation) {
	if a.Hold == actor.Held {
		a.Hold = actor.HeldClean
		if a.Sticky {
			o.Cluster.Fenced(a.Key)
		}
	}
	a.Shard.History.Unsettled.Delete(a.Key)
}

// CurrentSince reports whether what the activation has for readers is known now to
// have been the newest at some moment after since. A host whose lease does not last
// knows nothing by itself. The caller has the shard's lock.
func (o *Ownership) CurrentSince(a *Activation, since, now time.Time) bool {
	switch {
	case !o.Shared:
		return true
	case o.Cluster == nil, a.Hold == actor.NotHeld:
		return a.Current.After(since)
	default:
		return !a.Lost && o.Cluster.Current(now) && (o.newest(a) || a.Current.After(since))
	}
}

// Confirm finds out whether what readers see of a, an activation that was in the
// table when its reader came, is current. When it returns nil that is noted.
func (o *Ownership) Confirm(ctx context.Context, s *Shard, a *Activation) error {
	s.Mu.Lock()
	known, c := a.Committed(), a.confirmation
	first := c == nil
	if first {
		c = &confirmation{done: make(chan struct{})}
		a.confirmation = c
	}
	s.Mu.Unlock()
	if first {
		asked := time.Now()
		o.Store.Versions.Ask(a.Key, func(v actor.RowVersion, err error) {
			s.Mu.Lock()
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
			s.Mu.Unlock()
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

// ConfirmTip makes sure that the state that the activation's turns run on, which
// has no batch, was the newest after a moment. It reports whether it was not: then
// it is not to be built on. It is for the worker.
func (o *Ownership) ConfirmTip(ctx context.Context, a *Activation, since time.Time) (outdated bool, err error) {
	s := a.Shard
	s.Mu.Lock()
	tip, lost := a.Tip, a.Lost
	ok := o.CurrentSince(a, since, time.Now()) && !a.Outdated()
	s.Mu.Unlock()
	if lost {
		return false, actor.ErrNotOwner
	}
	if ok || tip == nil {
		return false, nil
	}
	version, asked, err := o.Store.Version(ctx, a.Key)
	if err != nil {
		return false, err
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if version != tip.Version {
		s.noteOther(a, version)
	} else {
		a.Confirmed(asked)
	}
	return a.Outdated(), nil
}

// Since is the moment after which the state must have been the newest that an
// outcome shows, if no commit proves it: zero if that does not matter. strict means that the state must
// not be older than the turn.
func (o *Ownership) Since(s *serving.Type, began time.Time, strict bool) time.Time {
	if !o.Shared {
		return time.Time{}
	}
	if !strict && !s.ReadElsewhere(began) {
		return began.Add(-actor.MaxReadAge)
	}
	return began
}

// Cluster says which actors this host may run in a cluster: those that it holds, and
// of any types those that nobody does. It is not asked for what writes nothing of actors
// without a place: reads of any types, and turns of stateless ones. It is asked on the way
// of every other call, mostly with a lock held: it never blocks, and does not allocate.
//
// The host relies on being told of what it loses: after Holds has begun to say
// actor.NotHeld of an actor, nobody else runs it before [Host.HandOver] has returned, or
// before Current was false and [Host.DropAll] has returned; and Current is not true
// again before that.
type Cluster interface {
	// Holds says what this host holds of an actor, which it would run by a placement. Of one
	// that nobody holds it says actor.Held, to all hosts that would run it so.
	Holds(key actor.Key, placement string) actor.Hold
	// Reads reports whether this host may answer read-only methods of an actor for which
	// Holds returns actor.NotHeld: another host holds the actor.
	Reads(key actor.Key) bool
	// Fenced is called when a commit of this host has advanced the version of a sticky
	// actor for which Holds returned actor.Held: no commit of an earlier owner can land any
	// more, and Holds may return actor.HeldClean from now on.
	Fenced(key actor.Key)
	// Current reports whether the host's lease is known to hold at now, a time with a
	// monotonic reading.
	Current(now time.Time) bool
}
