package activation

import (
	"slices"

	"github.com/greenroom-run/greenroom/actor"
)

// maxWaiting bounds the messages that an activation remembers. Others are delivered again when their
// wait is over, as are those of an actor that has left memory or moved.
const maxWaiting = 64

// KeepWaiting remembers a message that an actor does not accept in a method set; nil: none.
func KeepWaiting(a *Activation, f *actor.Firing, set string) {
	if f == nil {
		return
	}
	s := a.Shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	w := &a.waiting
	switch {
	case len(w.messages) == 0:
		w.set = set
	case w.set != set:
		w.set = ""
	}
	if len(w.messages) < maxWaiting && !slices.Contains(w.messages, f.Reminder) {
		w.messages = append(w.messages, f.Reminder)
		a.Weigh()
	}
}

// TakeWaiting forgets the messages that [KeepWaiting] was called with, and returns them, if the actor
// may accept them by a commit of the row w. An actor that chooses the set in which they wait once more
// does not, and actors do so in each turn. The caller has the lock.
func TakeWaiting(a *Activation, w *actor.RowWrite) []actor.ReminderID {
	messages := a.waiting.messages
	switch {
	case len(messages) == 0, w.MethodSet == nil && !w.NewLife:
		return nil
	case !w.NewLife && *w.MethodSet != "" && *w.MethodSet == a.waiting.set:
		return nil
	}
	a.waiting = waiting{}
	a.Weigh()
	return messages
}
