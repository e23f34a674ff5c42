package reminder

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/abi/schedule"
	"github.com/greenroom-run/greenroom/actor"
)

// ErrNoEvent is how a delivery of a cursor ends behind which there is no event yet.
var ErrNoEvent = errors.New("there is no event behind the cursor")

// longestCursorWait bounds the waits of a cursor whose event fails.
const longestCursorWait = 5 * time.Minute

// planCursor returns the delivery of a due cursor. Whoever delivers it reads the event.
func planCursor(r *actor.Reminder) Plan {
	return Plan{
		Deliver: true,
		here:    schedule.Occurrence{At: r.Due, Left: r.Left},
		Firing: actor.Firing{
			Reminder: r.ID, Key: r.Key, Name: r.Name, Method: r.Method, Due: r.Due, Attempt: r.Failures + 1,
			Step: actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version}, Pull: &actor.Pull{Cursor: *r.Cursor},
		},
	}
}

// failedCursor returns the step of a cursor whose event failed, known at now. The event is delivered
// again for as long as it is kept, and later ones wait for it: a subscriber misses none without being
// told. An actor that has passed away subscribes to nothing.
func failedCursor(r *actor.Reminder, now time.Time, cond *actor.Condition, reason string) actor.ReminderStep {
	step := actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version}
	if cond == actor.ErrPassedAway {
		return step
	}
	step.Then = &actor.ReminderProgress{
		Due: r.Due, Left: r.Left, FireAt: schedule.Ceil(now.Add(backoff(r.ID, r.Failures, longestCursorWait))),
		Failures: r.Failures + 1, LastError: shorten(reason),
	}
	return step
}
