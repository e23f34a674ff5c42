package reminder

import (
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// releasedFor is how long an instance that released a reminder leaves it alone: enough for the
// commit of the instance that takes it over.
const releasedFor = 10 * time.Second

// outcomes is how the reminders go on that were read from memory: they are delivered, done, to be
// read again, set aside, or waiting for a subscriber. Its methods may be called concurrently.
type outcomes struct{ *pending }

// stillOwns reports whether the bucket of a reminder that was loaded is still what it was
// before. If not, the reminder is done with: its owner reads it, or this one anew.
func (p outcomes) stillOwns(b *ownedBucket, r *actor.Reminder, id actor.ReminderID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owned[id.Bucket()] == b {
		p.unread.sized(b.row.App, r.Size())
		return true
	}
	p.delay(id, 0, 0)
	return false
}

// fresh reports whether nobody can have delivered the firing that a reminder asks for as it
// was just read: neither this owner of the bucket at another time, nor one before it, which
// delivered nothing before its time.
func (p outcomes) fresh(r *actor.Reminder) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.owned[r.ID.Bucket()]
	return b != nil && p.tries[r.ID] == 0 && r.FireAt.After(b.deliveredBefore)
}

// begins counts a delivery for the rate of its bucket, and reports whether this instance still
// delivers the bucket.
func (p outcomes) begins(id actor.ReminderID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.owned[id.Bucket()]
	if b == nil || b.leaving {
		return false
	}
	b.begun++
	return true
}

// done forgets a reminder that was loaded, unless it was changed since.
func (p outcomes) done(id actor.ReminderID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := p.forget(id)
	p.unline(id)
	if !due.IsZero() {
		p.note(id, due)
	}
}

// isFirst reports whether a message that was loaded may be delivered: no earlier one of its sender to
// its receiver is known here that was not consumed. Otherwise it waits until those are gone.
func (p outcomes) isFirst(r *actor.Reminder) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, first := p.lines.enter(r)
	if first {
		return true
	}
	b := p.keep(r.ID, p.tries[r.ID])
	switch {
	case b == nil:
		p.unline(r.ID)
	case !m.parked: // otherwise there was notice of a change of it
		p.lines.park(m)
		p.memory.add(b.bucket, b.row.App)
		p.lines.wholes.keep(r)
	}
	return false
}

// unline notes that an ordered message is gone, or another instance's, and has the next one of its
// line delivered; p.mu is held.
func (p outcomes) unline(id actor.ReminderID) {
	next := p.lines.remove(id)
	if next == nil {
		return
	}
	p.memory.remove(next.id)
	if b := p.owned[next.id.Bucket()]; b != nil {
		p.put(b, next.id, p.clock.now())
		p.rouse()
		return
	}
	p.unpark(next)
	p.unline(next.id)
}

// unpark forgets what is known of a message that was parked; p.mu is held.
func (p outcomes) unpark(m *inLine) {
	delete(p.retried, m.id)
	delete(p.tries, m.id)
	p.lines.wholes.take(m.id)
}

// dropLines forgets the ordered messages of a bucket that this instance does not deliver any more, or
// anew; p.mu is held.
func (p outcomes) dropLines(b actor.Bucket) {
	for _, m := range p.lines.of(b) {
		if m.parked {
			p.unpark(m)
			p.memory.remove(m.id)
		}
		p.unline(m.id)
	}
}

// outOfOrder has a message delivered again before which there is another one, of which this instance
// may not know: soon at first, and then ever later. It uses up no attempt.
func (p outcomes) outOfOrder(id actor.ReminderID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.tries[id]
	wait := min(firstOrderWait<<min(n, 16), longestWait)
	p.delay(id, wait-spread(id, n, wait/4), n+1)
}

// doneUntil is done, for one that is due again.
func (p outcomes) doneUntil(id actor.ReminderID, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if due := p.forget(id); !due.IsZero() && due.Before(at) {
		at = due
	}
	p.note(id, at)
}

// again has a reminder read again after a while.
func (p outcomes) again(id actor.ReminderID, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay(id, after, p.tries[id])
}

// postpone has a reminder read again that could not be delivered, for reasons that are
// none of its actor's: each time after twice as long, up to longest, and for as long as
// it takes. It counts against no policy for failures.
func (p outcomes) postpone(id actor.ReminderID, longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.tries[id]
	p.delay(id, backoff(id, n, longest), n+1)
}

// awaitSet postpones a message that its receiver does not accept yet. The message is delivered again at
// once if notice came, since it was loaded, that the receiver accepts other methods.
func (p outcomes) awaitSet(id actor.ReminderID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.tries[id]
	wait := backoff(id, n, longestWait)
	if !p.underWay.reminders[id].due.IsZero() {
		wait = 0
	}
	p.unwaitSet(id)
	if e := p.delay(id, wait, n+1); e != 0 {
		p.waits.sets[id] = e
	}
}

// setAside has a reminder wait until there is room for its delivery.
func (p outcomes) setAside(id actor.ReminderID, of scope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.keep(id, p.tries[id])
	if b == nil {
		return
	}
	p.memory.add(b.bucket, b.row.App)
	if of == appScope(of.app) {
		p.unread.fill(of.app, id)
		return
	}
	p.deferred.add(of, id)
}

// wait has a reminder that was loaded wait for a subscriber, in memory if it is to, or in the
// store only. It reports false if another instance delivers it, or it waits already.
func (p outcomes) wait(id actor.ReminderID, inMemory bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(id)
	if _, waits := p.waits.subscribers[id]; waits || p.owned[id.Bucket()] == nil {
		return false
	}
	if inMemory {
		p.waits.subscribers[id] = struct{}{}
	}
	return true
}

// keepWaiting returns those of the reminders that wait whose buckets are still owned, in the same
// memory.
func (p outcomes) keepWaiting(list []waitingReminder) []waitingReminder {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(list, func(w waitingReminder) bool {
		lost := p.owned[w.id.Bucket()] == nil
		if lost {
			delete(p.waits.subscribers, w.id)
		}
		return lost
	})
}

// awaited returns how many reminders wait for subscribers.
func (p outcomes) awaited() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waits.subscribers)
}

// unwait has a reminder wait no more, and reports whether this instance still owns its bucket.
func (p outcomes) unwait(id actor.ReminderID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waits.subscribers, id)
	return p.owned[id.Bucket()] != nil
}

// released has a reminder that another instance takes over read again after a while.
func (p outcomes) released(id actor.ReminderID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.owned[id.Bucket()]; b != nil {
		p.put(b, id, p.clock.now().Add(releasedFor))
		p.retried[id] = struct{}{}
	}
}

// borrow begins to execute a reminder once that another instance owns, and goes on owning; false
// if it is under way here.
func (p outcomes) borrow(id actor.ReminderID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.underWay.has(id) {
		return false
	}
	p.underWay.begin(id, true)
	return true
}

// borrows reports whether a reminder that is under way here was borrowed.
func (p outcomes) borrows(id actor.ReminderID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.underWay.reminders[id].borrowed
}

// backoff is how long to wait after so many waits: twice as long each time, up to
// longest, and up to a quarter less.
func backoff(id actor.ReminderID, waits uint32, longest time.Duration) time.Duration {
	wait := min(firstWait<<min(waits, 16), longest)
	return wait - spread(id, waits, wait/4)
}
