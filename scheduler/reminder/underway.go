package reminder

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// underWay are the reminders that were loaded and are not done with yet; guarded by the lock of its
// [pending].
type underWay struct {
	reminders map[actor.ReminderID]loaded
	buckets   map[actor.Bucket]int // how many there are of each
}

// loaded is a reminder that is under way.
type loaded struct {
	borrowed bool
	// due is when a change says that it is due, which there was notice of since it was loaded: what
	// was loaded may be older. Zero: there was none.
	due time.Time
}

func (u *underWay) has(id actor.ReminderID) bool {
	_, has := u.reminders[id]
	return has
}

// begin adds a reminder, which may be borrowed from its owner.
func (u *underWay) begin(id actor.ReminderID, borrowed bool) {
	u.reminders[id] = loaded{borrowed: borrowed}
	u.buckets[id.Bucket()]++
}

// changed notes when a reminder that is under way is due by a change of it.
func (u *underWay) changed(id actor.ReminderID, due time.Time) {
	l := u.reminders[id]
	if l.due.IsZero() || due.Before(l.due) {
		l.due = due
	}
	u.reminders[id] = l
}

// end removes a reminder, and returns its [loaded.due].
func (u *underWay) end(id actor.ReminderID) (due time.Time) {
	due = u.reminders[id].due
	delete(u.reminders, id)
	b := id.Bucket()
	if u.buckets[b]--; u.buckets[b] == 0 {
		delete(u.buckets, b)
	}
	return due
}
