package reminder

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/abi/schedule"
	"github.com/greenroom-run/greenroom/actor"
)

// ErrNoEvent is how a delivery of a cursor ends behind which there is no event yet.
var ErrNoEvent = errors.New("there is no event behind the cursor")

const (
	// A cursor that waits for an event is read again after eventPoll where other hosts write to the
	// store: their actors publish without a report here. All cursors of an instance together are read
	// at most every eventPollSpacing, however many they are.
	eventPoll        = 2 * time.Second
	eventPollSpacing = 5 * time.Millisecond
	// eventPollAlone is for an instance that is told of all events: a report may only be lost with
	// an event whose commit was settled later.
	eventPollAlone = time.Minute
	// longestCursorWait bounds the waits of a cursor whose event fails.
	longestCursorWait = 5 * time.Minute
)

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

// reads notes that the events behind a cursor are about to be read: what is published from now on
// has them read once more.
func (p outcomes) reads(publisher actor.Key, id actor.ReminderID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cursors.add(publisher, id)
}

// hasRead notes that a delivery of a cursor has ended that has read an event, or could not.
func (p outcomes) hasRead(publisher actor.Key, id actor.ReminderID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cursors.remove(publisher, id)
}

// awaitEvent has a cursor wait in memory until an event is published here, or it is time to ask the
// store: at once if one was published since it was read.
func (p outcomes) awaitEvent(r *actor.Reminder, shared bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := eventPollAlone
	if shared {
		wait = max(eventPoll, time.Duration(p.cursors.count)*eventPollSpacing)
	}
	wait += spread(r.ID, 0, wait/4)
	if published := p.forget(r.ID); !published.IsZero() {
		wait = 0
	}
	b := p.owned[r.ID.Bucket()]
	if b == nil {
		p.cursors.remove(r.Cursor.Publisher, r.ID)
		return
	}
	p.retried[r.ID] = struct{}{}
	p.cursors.waiting[r.ID] = waitingCursor{r.Cursor.Publisher, p.put(b, r.ID, p.clock.now().Add(wait))}
	p.rouse()
}

// published has the cursors read that wait for an event of an actor, and again those that are being
// read.
func (p outcomes) published(publisher actor.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.now()
	for id := range p.cursors.of[publisher] {
		w, waits := p.cursors.waiting[id]
		b := p.owned[id.Bucket()]
		switch {
		case !waits:
			p.underWay.changed(id, now)
		case b != nil: // otherwise another instance reads it
			p.cursors.due(id)
			p.wheel.Cancel(w.poll)
			p.memory.remove(id)
			p.put(b, id, now)
			p.rouse()
		}
	}
}
