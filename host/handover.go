package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
)

// HandOver ends the activations of actors that this host does not hold any more, which
// [Ownership] says by now: what has begun is finished and its commits settled, calls
// that wait get actor.ErrNotOwner, and when it returns nil nothing of the actors is left
// here. Other actors do not notice. moving is called with a lock held: it must be quick,
// and always give the same answer. It may be called concurrently.
//
// With an error HandOver is to be called again: the actors go on leaving. The error is that
// of ctx, or of the store: the outcome of a commit could not be found out in time, and a
// bump of the row's version, which keeps the commit from landing, was not applied either.
func (h *Host) HandOver(ctx context.Context, moving func(actor.Key) bool) error {
	var wait []<-chan struct{}
	for i := range h.table.shards {
		wait = h.letGo(&h.table.shards[i], func(a *activation) bool { return moving(a.key) }, false, wait)
		wait = h.table.shards[i].alone(moving, wait)
		h.table.shards[i].endTimers(func(key actor.Key, _ bool) bool { return moving(key) })
	}
	for _, gone := range wait {
		select {
		case <-gone:
		case <-ctx.Done():
			return fmt.Errorf("hand over actors: %w", ctx.Err())
		}
	}
	for i := range h.table.shards {
		if err := h.settle(ctx, &h.table.shards[i], moving); err != nil {
			return fmt.Errorf("hand over actors: %w", err)
		}
	}
	return nil
}

// settle keeps the commits from landing whose outcome was given up, of actors that move.
func (h *Host) settle(ctx context.Context, s *shard, moving func(actor.Key) bool) error {
	s.mu.Lock()
	keys := s.history.Unsettled.Keys()
	full := s.history.Unsettled.Full(time.Now())
	s.mu.Unlock()
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
		s.mu.Lock()
		s.history.Unsettled.Delete(key)
		s.mu.Unlock()
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
	for i := range h.table.shards {
		h.letGo(&h.table.shards[i], func(a *activation) bool { return a.hold != actor.NotHeld }, true, nil)
		h.table.shards[i].endTimers(func(_ actor.Key, placed bool) bool { return placed })
	}
}

// letGo lets the named activations of a shard go: at once, or when they have finished
// what they began. lost means that others may run them already. letGo appends to wait
// the channels that are closed when the activations that take longer are gone.
func (h *Host) letGo(s *shard, named func(*activation) bool, lost bool, wait []<-chan struct{}) []<-chan struct{} {
	var (
		idle     []*activation
		answered call.Answers
	)
	s.mu.Lock()
	s.history.Forget() // what readers are loading is not kept
	if lost {
		s.losses.Add(1)
	}
	for _, a := range s.actors {
		if !named(a) {
			continue
		}
		a.leaving, a.lost = true, a.lost || lost
		a.giveBackCalls(&answered)
		if a.idle() {
			h.table.remove(s, a)
			idle = append(idle, a)
			continue
		}
		if a.gone == nil {
			a.gone = make(chan struct{})
		}
		wait = append(wait, a.gone)
	}
	s.mu.Unlock()
	for _, a := range idle {
		h.table.deactivated(a, DeactivateMoved)
	}
	h.answering.Send(&answered)
	return wait
}

// alone appends to wait what is closed when the calls have left that run beside the
// activations of actors that are named.
func (s *shard) alone(moving func(actor.Key) bool, wait []<-chan struct{}) []<-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.running.All() {
		if c.Home != nil || c.Copied || !moving(c.Inv.Key) {
			continue
		}
		if c.Left == nil {
			c.Left = make(chan struct{})
		}
		wait = append(wait, c.Left)
	}
	return wait
}
