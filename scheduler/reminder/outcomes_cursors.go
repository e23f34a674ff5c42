package reminder

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

const (
	// A cursor that waits for an event is read again after eventPoll where other hosts write to the
	// store: their actors publish without a report here. All cursors of an instance together are read
	// at most every eventPollSpacing, however many they are.
	eventPoll        = 2 * time.Second
	eventPollSpacing = 5 * time.Millisecond
	// eventPollAlone is for an instance that is told of all events: a report may only be lost with
	// an event whose commit was settled later.
	eventPollAlone = time.Minute
)

// reads notes that the events behind a cursor are about to be read: what is published from now on
// has them read once more.
func (p outcomes) reads(publisher actor.Key, id actor.ReminderID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.events.add(publisher, id)
}

// hasRead notes that a delivery of a cursor has ended that has read an event, or could not.
func (p outcomes) hasRead(publisher actor.Key, id actor.ReminderID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.events.remove(publisher, id)
}

// awaitEvent has a cursor wait in memory until an event is published here, or it is time to ask the
// store: at once if one was published since it was read.
func (p outcomes) awaitEvent(r *actor.Reminder, shared bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := eventPollAlone
	if shared {
		wait = max(eventPoll, time.Duration(p.waits.events.count)*eventPollSpacing)
	}
	wait += spread(r.ID, 0, wait/4)
	if published := p.forget(r.ID); !published.IsZero() {
		wait = 0
	}
	b := p.owned[r.ID.Bucket()]
	if b == nil {
		p.waits.events.remove(r.Cursor.Publisher, r.ID)
		return
	}
	p.retried[r.ID] = struct{}{}
	p.waits.events.waiting[r.ID] = waitingCursor{r.Cursor.Publisher, p.put(b, r.ID, p.clock.now().Add(wait))}
	p.rouse()
}

// published has the cursors read that wait for an event of an actor, and again those that are being
// read.
func (p outcomes) published(publisher actor.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.now()
	for id := range p.waits.events.of[publisher] {
		w, waits := p.waits.events.waiting[id]
		b := p.owned[id.Bucket()]
		switch {
		case !waits:
			p.underWay.changed(id, now)
		case b != nil: // otherwise another instance reads it
			p.waits.events.due(id)
			p.wheel.Cancel(w.poll)
			p.memory.remove(id)
			p.put(b, id, now)
			p.rouse()
		}
	}
}
