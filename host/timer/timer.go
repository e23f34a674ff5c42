package timer

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/turn"
)

// cost is what a timer counts for in the memory of a [Clock] beside its size.
const cost = 512

// Timer is one that is set. The lock of its [Schedule] guards what changes.
type Timer struct {
	spec    *actor.TimerSpec
	due     time.Time
	left    uint32 // firings, the next one included; 0: no limit
	runtime *time.Timer
	gone    bool          // it was cancelled, replaced, or has fired for the last time
	begun   bool          // the turn of this firing has
	late    time.Duration // how long after its time that was
	tell    *actor.Tell   // the message that waits for its time; nil: a timer of an actor
}

// newTimer returns a timer that is set now, nil if its time is over.
func newTimer(spec *actor.TimerSpec, now time.Time) *Timer {
	t := &Timer{spec: spec, left: spec.Schedule.Times}
	switch at := spec.Schedule; {
	case !at.At.IsZero():
		t.due = now.Add(max(0, at.At.Sub(now))) // by the clock that goes on evenly from here
	case at.After > 0:
		t.due = now.Add(at.After)
	default:
		t.due = now.Add(at.Every)
	}
	if t.due.After(t.end()) {
		return nil
	}
	return t
}

// timer is t as callers see it.
func (t *Timer) timer() actor.Timer { return actor.Timer{TimerSpec: *t.spec, Due: t.due, Left: t.left} }

// Spec is what was set. It is shared and read-only.
func (t *Timer) Spec() *actor.TimerSpec { return t.spec }

// Firing is what the guest of a firing's turn receives; the zero value if t is nil.
func (t *Timer) Firing() turn.TimerFiring {
	if t == nil {
		return turn.TimerFiring{}
	}
	return turn.TimerFiring{Name: t.spec.Name, Due: t.due}
}

// size is what the timer counts for in the memory of its clock.
func (t *Timer) size() int64 { return t.spec.Size() + cost }

// end is the time after which the timer does not fire.
func (t *Timer) end() time.Time {
	if until := t.spec.Schedule.Until; !until.IsZero() {
		return until
	}
	return actor.MaxReminderTime
}

// once reports whether the timer fires no more after this time.
func (t *Timer) once() bool { return t.spec.Schedule.Every == 0 || t.left == 1 }

// Fired is one firing of a timer that has begun.
type Fired struct {
	Key    actor.Key
	Name   string
	Method string
	// Late is how long after its time it was.
	Late time.Duration
	// Err is the outcome of its turn.
	Err error
}

// Unserved reports whether err, the outcome of a firing, ends its timer: nothing runs its
// method.
func Unserved(err error) bool {
	return errors.Is(err, actor.ErrTypeNotFound) || errors.Is(err, actor.ErrMethodNotFound)
}
