package activation

import (
	"context"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/host/serving"
)

// AwaitCommits waits until all of the activation's state is committed. It reports
// whether the state was dropped instead: then what was to be done on it comes
// after the calls that go again. It is for the worker.
func (a *Activation) AwaitCommits(ctx context.Context) (dropped bool, err error) {
	s := a.Shard
	s.Mu.Lock()
	if !a.Member.Committed() && a.Drained == nil {
		a.Drained = make(chan struct{})
	}
	drained := a.Drained
	dropped = a.Member.Dropped() != nil
	s.Mu.Unlock()
	if drained == nil {
		return dropped, nil
	}
	select {
	case <-drained:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return a.Member.Dropped() != nil, nil
}

// GaveUp takes over that a commit of the activation may still land. The caller has the
// shard's lock.
func (a *Activation) GaveUp(now time.Time) {
	if a.Hold == actor.NotHeld {
		return
	}
	a.Hold = actor.Held
	a.Shard.History.Unsettled.Note(a.Key, now)
}

// Launch makes the pending batch the flight, if there is one and the last has
// landed. The caller has the locks, and sends the result without them.
func (a *Activation) Launch(now time.Time) *Batch {
	if f := a.Member.Launch(now); f != nil {
		return f.Payload
	}
	return nil
}

// Passed reports whether the actor has passed away in a turn of this activation, committed or not.
// The store alone knows when: the next turn is to read the row.
func (a *Activation) Passed() bool {
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	return a.Tip != nil && a.Tip.Life > 0 && a.Tip.Born.IsZero()
}

// Dropped reports whether the state was dropped under the turn that runs.
func (a *Activation) Dropped() bool {
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	return a.Member.Dropped() != nil
}

// WarmFor reports whether a turn under s can begin without waiting for anything.
func (a *Activation) WarmFor(s *serving.Type) bool {
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	newest := !a.Member.Committed() || !a.Outdated()
	return a.Serving == s && s.Lane == serving.LaneWarm && a.Tip != nil && newest && !a.Unfenced(s)
}

// Unfenced reports whether the newest state is to be read again before the first turn, since no
// commit of this activation has moved the version past those of earlier owners. The caller has
// the shard's lock.
func (a *Activation) Unfenced(s *serving.Type) bool {
	return s.Sticky && a.Hold == actor.Held && a.Member.Committed()
}

// Touches reports whether what the activation has not committed yet does anything to the reminder
// of a step. For an ordered message it also reports whether a later message of the same sender is
// consumed there: one commit with both would hide from the store that they ran in the wrong order.
func (a *Activation) Touches(step *actor.ReminderStep) bool {
	s := a.Shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, f := range []*Flight{a.Member.Pending(), a.Member.Flight()} {
		if f != nil && (f.Payload.Reminders.Names(step.ReminderName) || inbox.Overtaken(step, f.Payload.Reminders.Steps)) {
			return true
		}
	}
	return false
}

// spawns reports whether what the activation has not committed yet spawns an actor.
func (a *Activation) spawns(key actor.Key) bool {
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	for _, f := range [...]*Flight{a.Member.Pending(), a.Member.Flight()} {
		if f != nil && slices.ContainsFunc(f.Payload.Spawned, func(row actor.RowWrite) bool { return row.Key == key }) {
			return true
		}
	}
	return false
}
