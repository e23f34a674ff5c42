package reminder

import (
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// wholeBytes bounds the messages that are in memory whole, by about their size in bytes; apps
// share it.
const wholeBytes = 64 << 20

// wholes are messages that are due and in memory, whole: they are not read when they are
// delivered. Each is of a reminder in the wheel, unread or parked. It is guarded by the lock of
// its [pending].
type wholes struct {
	messages map[actor.ReminderID]*actor.Reminder
	bytes    *fair.Account
}

func newWholes() wholes {
	return wholes{map[actor.ReminderID]*actor.Reminder{}, fair.NewAccount(fair.Bounds{Name: "bytes of messages in memory", Total: wholeBytes})}
}

// keep keeps a message, if its app has memory for it. Nobody changes it from then on.
func (w *wholes) keep(r *actor.Reminder) {
	if w.messages[r.ID] == nil && w.bytes.Take(r.Key.App, int64(r.Size())) == nil {
		w.messages[r.ID] = r
	}
}

// take returns a message that was kept, and keeps it no more; nil: it is to be read.
func (w *wholes) take(id actor.ReminderID) *actor.Reminder {
	r := w.messages[id]
	if r != nil {
		delete(w.messages, id)
		w.bytes.Give(r.Key.App, int64(r.Size()))
	}
	return r
}
