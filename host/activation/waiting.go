package activation

import (
	"slices"

	"github.com/greenroom-run/greenroom/actor"
)

// maxWaiting bounds the messages that an activation remembers. Others are delivered again when their
// wait is over, as are those of an actor that has left memory or moved.
const maxWaiting = 64

// KeepWaiting remembers a message that an actor does not accept in its method set; nil: none.
func KeepWaiting(a *Activation, f *actor.Firing) {
	if f == nil {
		return
	}
	s := a.Shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if len(a.waiting) < maxWaiting && !slices.Contains(a.waiting, f.Reminder) {
		a.waiting = append(a.waiting, f.Reminder)
		a.Weigh()
	}
}

// TakeWaiting forgets the messages that [KeepWaiting] was called with, and returns them. The
// caller has the lock.
func TakeWaiting(a *Activation) []actor.ReminderID {
	messages := a.waiting
	if a.waiting = nil; len(messages) > 0 {
		a.Weigh()
	}
	return messages
}
