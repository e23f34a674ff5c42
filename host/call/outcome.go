package call

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/turn"
)

// Outcome is the result of one run of a call on its activation's worker.
type Outcome struct {
	Result
	// Sealed is what a turn left that ran on the tip, Under is what it ran under;
	// Commits reports whether there is something to commit.
	Sealed  Sealed
	Under   *serving.Type
	Commits bool
	// Resting means that the result may show what is not committed yet.
	Resting bool
	// Ended is when the guest was done; zero: not known.
	Ended time.Time
	// Since is the moment after which the state that a resting result shows must have
	// been the newest; zero if that does not matter. Fails means that the result is the
	// failure of a call with a key.
	Since time.Time
	Fails bool
	// Retry asks for the call to be run once more, after those that were dropped. Deadlock means that
	// a chain waits for the actor, and is to have it before.
	Retry, Deadlock bool
	// Waits means that the actor does not accept the method now, and that the call is to wait until it
	// may. The result is its answer if it does not come to that.
	Waits bool
}

// Failed returns the result of a call that failed with err.
func Failed(err error) Outcome { return Outcome{Result: Result{Err: err}} }

// Sealed is a turn that has run to its end: what it asks for and what happens to
// its actor. It refers to nothing of the guest or of the overlay.
type Sealed struct {
	Changed bool           // the state is to be committed
	State   *overlay.State // after the turn
	Rev     uint64
	Reply   actor.Reply
	// Reminders is what the turn does to its actor's reminders, the step of its own
	// among it.
	Reminders actor.ReminderEffects
	// Events are those that the turn publishes.
	Events []actor.EventWrite
	// Tokens are those of the reminders that the turn itself has set.
	Tokens []actor.ReminderID
	// Life is what the turn does to the life of its actor, and the actors that it spawns.
	Life turn.Life
}

// Size is what the turn adds to a commit, in bytes.
func (s *Sealed) Size() int64 {
	size := len(s.Reply.Payload.Data) + RecordCost + s.Reminders.Size() + actor.SizeOfEvents(s.Events)
	if s.Changed {
		size += s.State.Size()
	}
	return int64(size)
}
