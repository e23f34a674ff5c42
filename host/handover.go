package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
)

// HandOver ends the activations of actors that this host does not hold any more, which
// [Ownership] says by now: what has begun is finished and its commits settled, calls
// that wait get actor.ErrNotOwner, the hooks leaving run, and when it returns nil nothing of the
// actors is left here. Other actors do not notice. moving is called with a lock held: it must be
// quick, and always give the same answer. It may be called concurrently.
//
// With an error HandOver is to be called again: the actors go on leaving. The error is that
// of ctx, or of the store: the outcome of a commit could not be found out in time, and a
// bump of the row's version, which keeps the commit from landing, was not applied either.
func (h *Host) HandOver(ctx context.Context, moving func(actor.Key) bool) error {
	// Volatile children go with their parents, wherever their own IDs would be placed.
	named := moving
	moving = func(key actor.Key) bool { return !key.IsAnonymous() && named(key) }
	var wait []<-chan struct{}
	hooks := newLeaving(ctx, h)
	defer hooks.finish()
	for i := range h.table.Shards {
		wait = h.letGo(&h.table.Shards[i], func(a *activation.Activation) bool { return moving(a.Key) }, hooks, wait)
		wait = h.table.Shards[i].Alone(moving, wait)
		h.table.Shards[i].EndTimers(func(key actor.Key, _ bool) bool { return moving(key) })
	}
	hooks.work()
	for _, gone := range wait {
		select {
		case <-gone:
		case <-ctx.Done():
			return fmt.Errorf("hand over actors: %w", ctx.Err())
		}
	}
	for i := range h.table.Shards {
		if err := h.fenceUnsettled(ctx, &h.table.Shards[i], moving); err != nil {
			return fmt.Errorf("hand over actors: %w", err)
		}
	}
	return nil
}

// fenceUnsettled keeps commits of moving actors from landing whose outcome was given up.
func (h *Host) fenceUnsettled(ctx context.Context, s *activation.Shard, moving func(actor.Key) bool) error {
	s.Mu.Lock()
	keys := s.History.Unsettled.Keys()
	full := s.History.Unsettled.Full(time.Now())
	s.Mu.Unlock()
	for _, key := range keys {
		if !moving(key) {
			continue
		}
		version, _, err := h.store.Version(ctx, key)
		if err == nil {
			err = h.store.Commit((&residency.Row{Version: version}).Bump(key), serving.LaneWarm)
		}
		if err != nil && !errors.Is(err, actor.ErrStale) { // then it has moved on by itself
			return err
		}
		s.Mu.Lock()
		s.History.Unsettled.Delete(key)
		s.Mu.Unlock()
	}
	if full {
		return fmt.Errorf("%w: the outcomes of too many commits are unknown", actor.ErrAmbiguous)
	}
	return nil
}

// DropAll ends the activations of all actors that have one place, without waiting: this
// host has lost them, and others may run them already. Calls that wait get
// actor.ErrNotOwner. What runs is answered only if its commit is applied, and otherwise
// gets actor.ErrNotOwner as well. Nothing that was in memory before is answered after.
func (h *Host) DropAll() {
	for i := range h.table.Shards {
		h.letGo(&h.table.Shards[i], func(a *activation.Activation) bool { return a.Hold != actor.NotHeld }, nil, nil)
		h.table.Shards[i].EndTimers(func(_ actor.Key, placed bool) bool { return placed })
	}
}

// letGo lets the named activations of a shard go: at once, or when they have finished
// what they began. hooks runs their hooks leaving; nil means that they are lost, and others may run
// them already. letGo appends to wait the channels that are closed when the activations that take
// longer are gone.
func (h *Host) letGo(s *activation.Shard, named func(*activation.Activation) bool, hooks *leaving, wait []<-chan struct{}) []<-chan struct{} {
	lost := hooks == nil
	var (
		idle     []*activation.Activation
		answered call.Answers
	)
	s.Mu.Lock()
	s.History.Forget() // what readers are loading is not kept
	if lost {
		s.Losses.Add(1)
	}
	for _, a := range s.Actors {
		if !named(a) {
			continue
		}
		asked := a.Leaving
		a.Leaving, a.Lost = true, a.Lost || lost
		a.GiveBackCalls(&answered)
		if !lost && !asked {
			hooks.add(a)
		}
		if lost {
			h.table.EndChildren(a)
		}
		if a.Idle() {
			h.table.Remove(s, a)
			idle = append(idle, a)
			continue
		}
		if a.Gone == nil {
			a.Gone = make(chan struct{})
		}
		wait = append(wait, a.Gone)
	}
	s.Mu.Unlock()
	for _, a := range idle {
		h.table.Deactivated(a, activation.DeactivateMoved)
	}
	h.answering.Send(&answered)
	return wait
}
