package host

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/serving"
)

// outcome is what came of one run of a call on its activation's worker.
type outcome struct {
	call.Result
	// sealed is what a turn left that ran on the tip, under is what it ran under;
	// commits reports whether there is something to commit.
	sealed  sealed
	under   *serving.Type
	commits bool
	// resting means that the result may show what is not committed yet.
	resting bool
	// ended is when the guest was done; zero: not known.
	ended time.Time
	// since is the moment after which the state that a resting result shows must have
	// been the newest; zero if that does not matter. fails means that the result is the
	// failure of a call with a key.
	since time.Time
	fails bool
	// retry asks for the call to be run once more, after those that were dropped. deadlock means that
	// another chain waits for the actor, and is to have it before.
	retry, deadlock bool
}

func failed(err error) outcome { return outcome{Result: call.Result{Err: err}} }

// sealed is a turn that has run to its end: what it asks for and what happens to
// its actor. It refers to nothing of the guest or of the overlay.
type sealed struct {
	changed bool           // the state is to be committed
	state   *overlay.State // after the turn
	rev     uint64
	reply   actor.Reply
	// reminders is what the turn does to its actor's reminders, the step of its own
	// among it.
	reminders actor.ReminderEffects
}

// size is what the turn adds to a commit, in bytes.
func (s *sealed) size() int64 {
	size := len(s.reply.Payload.Data) + activation.RecordCost + s.reminders.Size()
	if s.changed {
		size += s.state.Size()
	}
	return int64(size)
}
