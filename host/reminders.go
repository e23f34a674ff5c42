package host

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

// reminders is what turns do with reminders, and the firings that ask for them. It is a
// [turn.Reminders]. Nil: the host has none.
type reminders struct {
	Reminders
	store *storage.Store
}

// Find implements [turn.Reminders]: in groups with others.
func (rs *reminders) Find(ctx context.Context, name actor.ReminderName) (actor.Reminder, error) {
	found, err := rs.store.Reminders.Get(ctx, name)
	if err != nil {
		err = fmt.Errorf("find reminder: %w", err)
	}
	return found, err
}

// Names implements [turn.Reminders].
func (rs *reminders) Names(ctx context.Context, key actor.Key, prefix string, limit int) ([]string, error) {
	return rs.ReminderNames(ctx, key, prefix, limit)
}

// some reports whether an actor without a row has reminders all the same, so that it can
// be deleted: actor.ErrActorNotFound if it has none.
func (rs *reminders) some(ctx context.Context, key actor.Key) error {
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
func (rs *reminders) thin(ctx context.Context, key actor.Key, l *residency.Row) error {
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

// committed tells of a commit that was applied.
func (rs *reminders) committed(e *actor.ReminderEffects) {
	if rs != nil && !e.Empty() {
		rs.Committed(e)
	}
}

// refused gives back the tokens of what a commit would have set that was refused.
func (rs *reminders) refused(e *actor.ReminderEffects) {
	if rs == nil || len(e.Set) == 0 {
		return
	}
	tokens := make([]actor.ReminderID, len(e.Set))
	for i := range e.Set {
		tokens[i] = e.Set[i].ID
	}
	rs.unused(e.Set[0].Key.App, tokens) // a commit is of one app
}

// unused gives back the tokens of reminders that no commit sets.
func (rs *reminders) unused(app string, tokens []actor.ReminderID) {
	if rs != nil && len(tokens) > 0 {
		rs.Unused(app, tokens)
	}
}

// look makes sure that the firing which asks for a call was not taken before, by what is
// committed and by what the activation is about to commit. over means that the firing was
// taken, or that this is not known: then o is the outcome. look leaves a firing that is
// delivered for the first time to the commit, which has to decide in any case.
func (rs *reminders) look(ctx context.Context, a *activation.Activation, c *call.Call) (o call.Outcome, over bool) {
	if rs == nil {
		return call.Failed(fmt.Errorf("%w: this host has no reminders", actor.ErrUnavailable)), true
	}
	touched := a.Touches(c.Inv.Firing.Step.ReminderName)
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
// it has changed.
func (rs *reminders) confirm(ctx context.Context, c *call.Call) error {
	f := c.Inv.Firing
	found, err := rs.Find(ctx, f.Step.ReminderName)
	switch {
	case err != nil:
		return err
	case found.ID != f.Step.ID || found.Version != f.Step.Version:
		return actor.ErrFiringTaken
	}
	c.Fired = &found
	return nil
}
