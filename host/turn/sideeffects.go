package turn

import (
	"slices"

	"github.com/greenroom-run/greenroom/actor"
)

// SideEffects is what turns of a chain have done to the reminders and timers of one actor. It
// does not change: the next turn of that actor in the chain goes on from a copy.
type SideEffects struct {
	Reminders actor.ReminderEffects
	Timers    TimerChanges
}

// GoOnFrom lets the run begin, or go on, with what turns of its chain have done before.
func (t *Turn) GoOnFrom(before *SideEffects) {
	r := &before.Reminders
	t.reminders.effects = actor.ReminderEffects{Steps: slices.Clone(r.Steps), Cancel: slices.Clone(r.Cancel), Set: slices.Clone(r.Set)}
	t.timers = before.Timers.clone()
}

// SideEffects returns what the chain has done by now, with the run. tokens are those of the
// reminders that the run itself has set, which are the caller's from then on.
func (t *Turn) SideEffects() (e SideEffects, tokens []actor.ReminderID) {
	tokens, t.reminders.tokens = t.reminders.tokens, nil
	return SideEffects{Reminders: t.reminders.effects, Timers: t.timers}, tokens
}
