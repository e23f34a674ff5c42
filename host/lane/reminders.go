package lane

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/storage"
)

// Reminders is what turns do with reminders, and the firings that ask for them. It is a
// [turn.Reminders]. Nil: the host has none.
type Reminders struct {
	Keeper
	Store *storage.Store
}

// Find implements [turn.Reminders]: in groups with others.
func (rs *Reminders) Find(ctx context.Context, name actor.ReminderName) (actor.Reminder, error) {
	found, err := rs.Store.Reminders.Get(ctx, name)
	if err != nil {
		err = fmt.Errorf("find reminder: %w", err)
	}
	return found, err
}

// Names implements [turn.Reminders].
func (rs *Reminders) Names(ctx context.Context, key actor.Key, prefix string, limit int) ([]string, error) {
	return rs.ReminderNames(ctx, key, prefix, limit)
}

// some reports whether an actor without a row has reminders all the same, so that it can
// be deleted: actor.ErrActorNotFound if it has none.
func (rs *Reminders) some(ctx context.Context, key actor.Key) error {
	if rs == nil {
		return actor.ErrActorNotFound
	}
	names, err := rs.ReminderNames(ctx, key, "", 1)
	if err == nil && len(names) == 0 {
		err = actor.ErrActorNotFound
	}
	return err
}

// thin leaves few reminders to the commit that deletes an actor. After an error some of
// them are gone: the deletion, repeated, goes on from there.
func (rs *Reminders) thin(ctx context.Context, key actor.Key, l *residency.Row) error {
	if rs == nil {
		return nil
	}
	err := rs.ThinReminders(ctx, actor.RowFence{Key: key, Version: l.Version}, l.Damage != nil)
	if errors.Is(err, actor.ErrAmbiguous) { // of a part: nothing is deleted yet
		err = fmt.Errorf("%w: %v", actor.ErrUnavailable, err)
	}
	if err != nil {
		return fmt.Errorf("remove the reminders of an actor that is deleted: %w", err)
	}
	return nil
}

// Committed passes on what an applied commit did to reminders.
func (rs *Reminders) Committed(e *actor.ReminderEffects) {
	if rs != nil && !e.Empty() {
		rs.Keeper.Committed(e)
	}
}

// Accepted reports messages that their receiver did not accept before and may accept now.
func (rs *Reminders) Accepted(messages []actor.ReminderID) {
	if rs != nil && len(messages) > 0 {
		rs.Keeper.Accepted(messages)
	}
}

// Refused gives back the tokens of what a commit would have set that was refused.
func (rs *Reminders) Refused(e *actor.ReminderEffects) {
	if rs == nil || len(e.Set) == 0 {
		return
	}
	tokens := make([]actor.ReminderID, len(e.Set))
	for i := range e.Set {
		tokens[i] = e.Set[i].ID
	}
	rs.Unused(e.Set[0].Key.App, tokens) // a commit is of one app
}

// Unused gives back the tokens of reminders that no commit sets.
func (rs *Reminders) Unused(app string, tokens []actor.ReminderID) {
	if rs != nil && len(tokens) > 0 {
		rs.Keeper.Unused(app, tokens)
	}
}

// look makes sure that the firing which asks for a call was not taken before, by what is
// committed and by what the activation is about to commit. over means that the firing was
// taken, or that this is not known: then o is the outcome. look leaves a firing that is
// delivered for the first time to the commit, which has to decide in any case.
func (rs *Reminders) look(ctx context.Context, a *activation.Activation, c *call.Call) (o call.Outcome, over bool) {
	if rs == nil {
		return call.Failed(fmt.Errorf("%w: this host has no reminders", actor.ErrUnavailable)), true
	}
	touched := a.Touches(&c.Inv.Firing.Step)
	if touched {
		if dropped, err := a.AwaitCommits(ctx); err != nil || dropped {
			return call.Outcome{Result: call.Result{Err: err}, Retry: dropped}, true
		}
	}
	c.Fired = nil
	if !touched && c.Inv.Firing.Fresh && c.Stats.Runs == 0 {
		return call.Outcome{}, false
	}
	if err := rs.confirm(ctx, c); err != nil {
		return call.Failed(err), true
	}
	return call.Outcome{}, false
}

// confirm reads the reminder of the firing that asks for a call; actor.ErrFiringTaken if
// it has changed, and actor.ErrMessageOrder for an ordered message before which there is another
// one of its sender.
func (rs *Reminders) confirm(ctx context.Context, c *call.Call) error {
	f := c.Inv.Firing
	found, err := rs.Find(ctx, f.Step.ReminderName)
	switch {
	case err != nil:
		return err
	case found.ID != f.Step.ID || found.Version != f.Step.Version:
		return actor.ErrFiringTaken
	}
	if f.Step.Ordered {
		earlier, err := rs.EarlierMessage(ctx, f.Step.ReminderName)
		switch {
		case err != nil:
			return fmt.Errorf("find earlier messages: %w", err)
		case earlier:
			return actor.ErrMessageOrder
		}
	}
	c.Fired = &found
	return nil
}

// Keeper keeps and delivers reminders.
type Keeper interface {
	// Prepare returns the reminder that a spec asks for, with a token of its own: what a
	// commit sets. Errors are [*actor.ArgumentError], and others for what cannot be said
	// now.
	Prepare(ctx context.Context, spec actor.ReminderSpec) (actor.Reminder, error)
	// Unused gives back the tokens of an app's reminders that Prepare returned, in their order,
	// and that no commit sets or may have set. It must not block.
	Unused(app string, tokens []actor.ReminderID)
	// Committed reports what an applied commit did to reminders. It must not
	// block.
	Committed(e *actor.ReminderEffects)
	// Accepted reports messages that were refused with [actor.ErrNotAcceptedYet], and whose
	// receiver has chosen another set of methods since, or passed away. It must not block.
	Accepted(messages []actor.ReminderID)
	// FindReminders reads reminders by name; one that is not there is the zero Reminder.
	FindReminders(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error)
	// ReminderNames returns the names of an actor's reminders with a prefix in byte order,
	// the first limit of them.
	ReminderNames(ctx context.Context, key actor.Key, prefix string, limit int) ([]string, error)
	// ThinReminders removes reminders of an actor that is about to be deleted, in commits
	// that rest on its row, or, if that is damaged, on nothing: until there are few enough to
	// be removed by the commit that deletes it. actor.ErrStale if the row has moved on.
	ThinReminders(ctx context.Context, row actor.RowFence, damaged bool) error
	// EarlierMessage reports whether a message is there that the sender of an ordered one has
	// sent to the same receiver before it.
	EarlierMessage(ctx context.Context, n actor.ReminderName) (bool, error)
	// Inbox counts the messages of an actor and their bytes, up to what an inbox holds. It asks
	// the store.
	Inbox(ctx context.Context, key actor.Key) (messages int, bytes int64, err error)
	// NewestEvent returns the position of the last event of an actor.
	NewestEvent(ctx context.Context, key actor.Key) (actor.EventPosition, error)
}
