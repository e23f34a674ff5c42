package reminder

import "github.com/greenroom-run/greenroom/actor"

// waits are the reminders that wait for something else than their time. The lock of its [pending]
// guards them.
type waits struct {
	subscribers map[actor.ReminderID]struct{} // for these
	events      cursors
	// sets are messages that their receivers do not accept yet, with their entries in the wheel.
	sets map[actor.ReminderID]Entry
}

// cursors are the cursors of this instance that wait for an event of a publisher, or that are being
// read: these are under way. The lock of its [pending] guards them.
type cursors struct {
	of      map[actor.Key]map[actor.ReminderID]struct{} // by publisher
	count   int
	waiting map[actor.ReminderID]waitingCursor
}

// waitingCursor is one that waits, and its entry in the wheel.
type waitingCursor struct {
	publisher actor.Key
	poll      Entry
}

func newCursors() cursors {
	return cursors{of: map[actor.Key]map[actor.ReminderID]struct{}{}, waiting: map[actor.ReminderID]waitingCursor{}}
}

func (c *cursors) add(publisher actor.Key, id actor.ReminderID) {
	ids := c.of[publisher]
	if ids == nil {
		ids = map[actor.ReminderID]struct{}{}
		c.of[publisher] = ids
	}
	c.count -= len(ids)
	ids[id] = struct{}{}
	c.count += len(ids)
}

func (c *cursors) remove(publisher actor.Key, id actor.ReminderID) {
	ids := c.of[publisher]
	c.count -= len(ids)
	delete(ids, id)
	if c.count += len(ids); len(ids) == 0 {
		delete(c.of, publisher)
	}
}

// due notes that the wheel has a reminder no more, which may be a cursor that waits: it is read next.
func (c *cursors) due(id actor.ReminderID) {
	if w, waits := c.waiting[id]; waits {
		delete(c.waiting, id)
		c.remove(w.publisher, id)
	}
}
