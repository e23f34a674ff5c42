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

// effects is what the chain of a turn has done by now, with the turn.
type effects struct {
	done   SideEffects
	tokens []actor.ReminderID // of the reminders that the turn itself has set, until they are handed over
}

// GoOnFrom lets the run begin, or go on, with what turns of its chain have done before.
func (e *effects) GoOnFrom(before *SideEffects) {
	r := &before.Reminders
	e.done.Reminders = actor.ReminderEffects{Steps: slices.Clone(r.Steps), Cancel: slices.Clone(r.Cancel), Set: slices.Clone(r.Set)}
	e.done.Timers = before.Timers.clone()
}

// SideEffects returns what the chain has done by now, with the run.
func (e *effects) SideEffects() SideEffects { return e.done }

// Tokens returns those of the reminders that the run itself has set. They are the caller's from
// then on.
func (e *effects) Tokens() []actor.ReminderID {
	tokens := e.tokens
	e.tokens = nil
	return tokens
}

// TimerEffects returns what is done to the actor's timers. The caller owns it.
func (e *effects) TimerEffects() []TimerEffect {
	effects := e.done.Timers.effects
	e.done.Timers = TimerChanges{}
	return effects
}

// discard forgets all that was done, and gives back the tokens of reminders that were not handed
// over: the guest does not know them.
func (e *effects) discard(env *Env, app string) {
	if len(e.tokens) > 0 {
		env.Reminders.Unused(app, e.tokens)
	}
	*e = effects{}
}
