package turn

import (
	"slices"

	"github.com/greenroom-run/greenroom/actor"
)

// Life returns what the run does to the life of its actor. The caller owns it.
func (e *effects) Life() Life {
	life := e.done.Life
	e.done.Life = Life{}
	return life
}

// SideEffects is what turns of a chain have done to the reminders and timers of one actor, and the
// volatile messages and events that they have sent as that actor. It does not change: the next turn of that actor in the chain goes on from a copy.
type SideEffects struct {
	Reminders actor.ReminderEffects
	Timers    TimerChanges
	Tells     []actor.Tell
	TellBytes int64 // their sizes together
	Events    []actor.EventWrite
	Life      Life
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
	e.done.Tells, e.done.TellBytes = slices.Clone(before.Tells), before.TellBytes
	e.done.Events = slices.Clone(before.Events)
	e.done.Life = before.Life
	e.done.Life.Spawned = slices.Clone(before.Life.Spawned)
	e.done.Life.Services = slices.Clone(before.Life.Services)
}

// Adopt adds what a called turn of a type without state has done, whose tokens the chain has.
func (e *effects) Adopt(called *actor.ReminderEffects) { e.done.Reminders.Add(called) }

// SideEffects returns what the chain has done by now, with the run.
func (e *effects) SideEffects() SideEffects { return e.done }

// Tokens returns those of the reminders that the run itself has set. They are the caller's from
// then on.
func (e *effects) Tokens() []actor.ReminderID {
	tokens := e.tokens
	e.tokens = nil
	return tokens
}

// TimerChanges returns what is done to the actor's timers and watches. The caller owns it.
func (e *effects) TimerChanges() TimerChanges {
	changes := e.done.Timers
	e.done.Timers = TimerChanges{}
	return changes
}

// Tells returns the volatile messages that are sent. The caller owns them.
func (e *effects) Tells() []actor.Tell {
	tells := e.done.Tells
	e.done.Tells, e.done.TellBytes = nil, 0
	return tells
}

// Publishes adds an event that the host publishes with the turn.
func (e *effects) Publishes(event actor.EventWrite) { e.done.Events = append(e.done.Events, event) }

// Published returns the events that are published. The caller owns them.
func (e *effects) Published() []actor.EventWrite {
	events := e.done.Events
	e.done.Events = nil
	return events
}

// discard forgets all that was done, and gives back the tokens of reminders that were not handed
// over: the guest does not know them.
func (e *effects) discard(env *Env, app string) {
	if len(e.tokens) > 0 {
		env.Reminders.Unused(app, e.tokens)
	}
	*e = effects{}
}
