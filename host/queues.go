package host

import (
	"context"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
)

// Queues are the mailboxes of a host's actors.
type Queues struct {
	table     *activation.Table
	answering *call.Answering
}

// QueuesOf returns the mailboxes of a host.
func QueuesOf(h *Host) Queues { return Queues{&h.table, &h.answering} }

// Quotas bound what apps store by requests that are no turns. Methods may be called concurrently.
type Quotas interface {
	// Grow lets what an app stores grow, or refuses that with an [*actor.LimitError].
	Grow(ctx context.Context, app string, by actor.Stored) error
	// Stored returns what an app stores, as this host counted it last; false if it has not.
	Stored(app string) (actor.Stored, bool)
	// EachStored calls f with what is stored by each app that was counted.
	EachStored(f func(app string, stored actor.Stored))
}

// QuotasOf returns the quotas of a host.
func QuotasOf(h *Host) Quotas { return h.rules }

// Cancelled is what [Queues.CancelQueued] has cancelled.
type Cancelled struct {
	Calls int // of callers from outside and of turns
	Tells int // volatile messages
	// Begun are the durable messages whose turns run.
	Begun []actor.ReminderID
}

// CancelQueued cancels what waits at this host for an actor or, without an ID, for all actors of a
// type: calls get [actor.ErrCallCancelled], and volatile messages go back to senders that ask for it.
// Turns that have begun go on, as do those that are to run again, reminders and timers. Durable
// messages are given back to who delivers them, and not counted: their rows are the caller's to remove.
func (q Queues) CancelQueued(of actor.Key) (all Cancelled) {
	if of.ID != "" {
		q.cancelAt(q.table.Shard(of), of, &all)
		return all
	}
	for i := range q.table.Shards {
		q.cancelAt(&q.table.Shards[i], of, &all)
	}
	return all
}

// cancelAt is CancelQueued for the actors of one shard.
func (q Queues) cancelAt(s *activation.Shard, of actor.Key, all *Cancelled) {
	var answered call.Answers
	s.Mu.Lock()
	for c := range s.Running.All() {
		if !covers(of, c.Inv.Key) {
			continue
		}
		if count, err := all.cancels(c); err != nil && c.CancelEntry(err) {
			count()
		}
		if f := c.Inv.Firing; f != nil && f.Message != nil && !c.NotBegun() {
			all.Begun = append(all.Begun, f.Reminder)
		}
	}
	for key, a := range s.Actors {
		if !covers(of, key) {
			continue
		}
		for _, c := range a.Calls.All() {
			if !c.Stats.Began.IsZero() { // it is to run again
				continue
			}
			count, err := all.cancels(c)
			if err == nil || !a.Calls.TakeOut(&c.Place) {
				continue
			}
			c.EndOutside()
			c.Result = call.Result{Err: err, Stats: c.Stats}
			c.Result.Stats.Lane = c.Lane
			c.Answer(&answered)
			count()
		}
	}
	s.Mu.Unlock()
	q.answering.Send(&answered)
}

// covers reports whether of is a key, or the type of it.
func covers(of, key actor.Key) bool {
	return of.App == key.App && of.Type == key.Type && (of.ID == "" || of.ID == key.ID)
}

// cancels returns the error of a call that is cancelled while it waits, and counts it; nil if it is not
// to be cancelled.
func (all *Cancelled) cancels(c *call.Call) (count func(), err error) {
	m := c.Inv.Message
	switch {
	case c.Op != call.OpInvoke && c.Op != call.OpAll && c.Op != call.OpEnlist, c.Timer != nil, m != nil && m.IsNotice():
		return nil, nil
	case c.Cause.Fires() && c.Inv.Firing.Message == nil:
		return nil, nil
	case c.Cause.Fires():
		return func() {}, &actor.ReasonError{Condition: actor.ErrOverloaded, Reason: "what waits for the actor is being cancelled"}
	case m != nil:
		return func() { all.Tells++ }, cancelledCall(c)
	}
	return func() { all.Calls++ }, cancelledCall(c)
}

func cancelledCall(c *call.Call) error {
	return &actor.ReasonError{Condition: actor.ErrCallCancelled, Reason: fmt.Sprintf("what waited for %s %s was cancelled, by `greenroom actors cancel` or `greenroom types cancel`; the call has not run", c.Inv.Key.Type, c.Inv.Key.ID)}
}
