package reminder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
)

// papers are the events of publishers, and the turns of the cursors that read them: a turn commits the
// firing's step and the next cursor, as a host does.
type papers struct {
	w *world

	mu      sync.Mutex
	newest  map[actor.Key]uint64
	reads   int
	readAt  func() // if there is one, called when an event is looked for
	turn    func(f actor.Firing) error
	applied []string // "subscriber version" of the events whose turns were committed
}

func newPapers(w *world) *papers { return &papers{w: w, newest: map[actor.Key]uint64{}} }

// start starts a service that delivers them.
func (p *papers) start(cfg Config) *Service {
	p.w.Helper()
	var s *Service
	cfg.Deliverer = remindertest.DeliverFunc(func(ctx context.Context, f actor.Firing) error { return p.deliver(ctx, s, f) })
	s = p.w.start(cfg)
	return s
}

func (p *papers) deliver(ctx context.Context, s *Service, f actor.Firing) error {
	p.mu.Lock()
	p.reads++
	next, newest, readAt, turn := f.Pull.After.Version+1, p.newest[f.Pull.Publisher], p.readAt, p.turn
	p.mu.Unlock()
	if readAt != nil {
		readAt()
	}
	if next > newest {
		return ErrNoEvent
	}
	f.Pull.Event.Position.Version = next
	if turn != nil {
		if err := turn(f); err != nil {
			return err
		}
	}
	r, err := s.Prepare(ctx, f.Next())
	if err != nil {
		return err
	}
	c := actor.CommitOf()
	c.Reminders.Steps, c.Reminders.Set = []actor.ReminderStep{f.Step}, []actor.Reminder{r}
	return p.w.store.commitThen(&c, func() {
		p.mu.Lock()
		p.applied = append(p.applied, fmt.Sprint(f.Key.ID, " ", next))
		p.mu.Unlock()
		s.Committed(&c.Reminders)
	})
}

// publish publishes an event, of which services are told.
func (p *papers) publish(publisher string, told ...*Service) {
	p.mu.Lock()
	p.newest[actorKey(publisher)]++
	p.mu.Unlock()
	for _, s := range told {
		s.Published(actorKey(publisher))
	}
}

func (p *papers) took() (applied []string, reads int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	applied, reads = p.applied, p.reads
	p.applied, p.reads = nil, 0
	return applied, reads
}

// subscribe sets the cursor of an actor, of which a service is told.
func (p *papers) subscribe(s *Service, subscriber, publisher string) actor.Reminder {
	p.w.Helper()
	at := actor.EventPosition{Version: p.newest[actorKey(publisher)]}
	r, err := s.Prepare(p.w.Context(), actor.CursorSpec(actorKey(subscriber), "M", actor.Cursor{Publisher: actorKey(publisher), After: at}))
	if err != nil {
		p.w.Fatal(err)
	}
	c := actor.CommitOf()
	c.Reminders.Set = []actor.Reminder{r}
	if err := p.w.store.commit(&c); err != nil {
		p.w.Fatal(err)
	}
	s.Committed(&c.Reminders)
	return r
}

func (p *papers) expect(what string, want ...string) {
	p.w.Helper()
	if got, _ := p.took(); !slices.Equal(got, want) {
		p.w.Fatalf("%s: %q, want %q", what, got, want)
	}
}

// checkCursors fails unless a service has so many cursors that wait, each once, and none that it reads.
func (p *papers) checkCursors(s *Service, waiting int) {
	p.w.Helper()
	s.pending.mu.Lock()
	defer s.pending.mu.Unlock()
	c := &s.pending.waits.events
	of := 0
	for _, ids := range c.of {
		of += len(ids)
	}
	if len(c.waiting) != waiting || c.count != waiting || of != waiting || s.pending.inMemory() != waiting || len(s.pending.tries) != 0 {
		p.w.Fatalf("%d wait, %d counted, %d by publisher, %d in memory, %d tries; want %d of each and no tries", len(c.waiting), c.count, of, s.pending.inMemory(), len(s.pending.tries), waiting)
	}
}

// Events are delivered at once, in order and once, and between them the cursor waits without a read.
func TestCursorIsToldOfEvents(t *testing.T) {
	inBubble(t, func(w *world) {
		p := newPapers(w)
		s := p.start(w.config())
		p.publish("times", s)
		p.subscribe(s, "ann", "times")
		p.subscribe(s, "bob", "post")
		after(time.Second)
		p.expect("before there is an event")
		for range 3 {
			p.publish("times", s)
		}
		p.publish("none reads it", s)
		after(time.Millisecond)
		p.expect("at once", "ann 2", "ann 3", "ann 4")
		p.checkCursors(s, 2)
		p.publish("times", s)
		after(time.Millisecond)
		p.expect("once more", "ann 5")
		after(eventPollAlone / 2)
		if _, reads := p.took(); reads != 0 {
			t.Errorf("%d reads without an event", reads)
		}
		if n := w.store.left(); n != 2 {
			t.Errorf("%d cursors", n)
		}
	})
}

// What is published while a cursor is being read is delivered at once.
func TestPublishedWhileACursorIsRead(t *testing.T) {
	inBubble(t, func(w *world) {
		p := newPapers(w)
		s := p.start(w.config())
		p.subscribe(s, "ann", "times")
		after(time.Second)
		var seen atomic.Bool
		p.readAt = func() { // it has seen that there is none
			if !seen.Swap(true) {
				p.publish("times", s)
			}
		}
		s.Published(actorKey("times"))
		after(time.Millisecond)
		p.expect("at once", "ann 1")
		p.checkCursors(s, 1)
	})
}

// Without a notice, cursors ask the store: each every 2 s, and all together 200 times a second.
func TestPollsOfCursors(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		p := newPapers(w)
		s := p.start(w.config())
		after(10 * time.Second)
		p.subscribe(s, "ann", "times")
		after(time.Second)
		p.took()
		p.publish("times")
		after(eventPoll + eventPoll/4)
		p.expect("after a poll", "ann 1")
		const n, seconds = 700, 30
		for i := range n {
			p.subscribe(s, fmt.Sprint("s", i), fmt.Sprint("p", i%7))
		}
		after(20 * time.Second) // each was read, and waits as long as all do
		p.checkCursors(s, n+1)
		p.took()
		after(seconds * time.Second)
		if _, reads := p.took(); reads > 200*seconds || reads < 100*seconds {
			t.Errorf("%d reads in %d seconds", reads, seconds)
		}
		p.publish("p3")
		after(n * eventPollSpacing * 5 / 4)
		after(time.Second)
		if applied, _ := p.took(); len(applied) != n/7 && len(applied) != n/7+1 {
			t.Errorf("%d subscribers of %d", len(applied), n/7)
		}
	})
}

// An event that fails is delivered again, without end and ever later, and others wait for it.
func TestFailingEvent(t *testing.T) {
	inBubble(t, func(w *world) {
		p := newPapers(w)
		s := p.start(w.config())
		p.subscribe(s, "ann", "times")
		after(time.Second)
		var failing atomic.Bool
		failing.Store(true)
		var attempts, last atomic.Uint32 // how many there were, and the number of the last
		p.turn = func(f actor.Firing) error {
			attempts.Add(1)
			if last.Store(f.Attempt); failing.Load() {
				return &actor.GuestError{Code: "no"}
			}
			return nil
		}
		p.publish("times", s)
		p.publish("times", s)
		after(3 * time.Hour)
		p.expect("while it fails")
		n := int(attempts.Load())
		if most := int(3*time.Hour/(longestCursorWait*3/4)) + 30; n < int(3*time.Hour/longestCursorWait) || n > most || int(last.Load()) != n {
			t.Fatalf("%d attempts, the last is %d", n, last.Load())
		}
		failing.Store(false)
		after(longestCursorWait)
		p.expect("afterwards", "ann 1", "ann 2")
		if last.Load() != 1 {
			t.Errorf("the next event begins with attempt %d", last.Load())
		}
		p.checkCursors(s, 1)
		if len(w.store.dead) != 0 {
			t.Errorf("dead letters %+v", w.store.dead)
		}
	})
}

// An event whose commit's answer was lost takes effect once, and the next one follows.
func TestLostAnswerOfAnEvent(t *testing.T) {
	inBubble(t, func(w *world) {
		p := newPapers(w)
		s := p.start(w.config())
		p.subscribe(s, "ann", "times")
		after(time.Second)
		var lost atomic.Int32
		w.store.mu.Lock() // the commits read it
		w.store.lose = func() error {
			if lost.Add(1) <= 2 {
				return actor.ErrAmbiguous
			}
			return nil
		}
		w.store.mu.Unlock()
		for range 3 {
			p.publish("times", s)
		}
		after(time.Minute)
		p.expect("each once", "ann 1", "ann 2", "ann 3")
		if n := lost.Load(); n < 3 {
			t.Errorf("%d commits", n)
		}
		p.checkCursors(s, 1)
	})
}

// A subscription that has ended leaves nothing in memory, though nothing is published.
func TestEndedCursorIsForgotten(t *testing.T) {
	inBubble(t, func(w *world) {
		p := newPapers(w)
		s := p.start(w.config())
		r := p.subscribe(s, "ann", "times")
		after(time.Second)
		p.checkCursors(s, 1)
		c := actor.CommitOf()
		c.Reminders.Cancel = []actor.ReminderName{nameOf(&r)}
		if err := w.store.commit(&c); err != nil {
			t.Fatal(err)
		}
		s.Committed(&c.Reminders)
		after(2 * eventPollAlone)
		p.checkCursors(s, 0)
		p.publish("times", s)
		after(time.Minute)
		p.expect("afterwards")
	})
}

// A cursor whose owner was lost between the read of an event and the commit of its turn goes on at
// another instance; what the lost one commits later has no effect.
func TestCursorIsTakenOver(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		p := newPapers(w)
		m := &members{self: "one", live: []actor.HostID{"one", "lost"}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		s := p.start(cfg)
		p.publish("times")
		w.lostOwner(actor.CursorSpec(actorKey("ann"), "M", actor.Cursor{Publisher: actorKey("times"), After: actor.EventPosition{Version: 1}}))
		lost := w.store.reminders[actor.ReminderName{Key: actorKey("ann"), Name: actor.CursorName(actorKey("times"))}]
		p.publish("times")
		p.publish("times")
		after(10 * time.Second)
		p.expect("while its owner is there")
		m.set("one")
		after(3*pollEvery + time.Second)
		p.expect("its owner is lost", "ann 2", "ann 3")
		late := planCursor(&lost).Firing
		late.Pull.Event.Position.Version = 2
		next, err := s.Prepare(w.Context(), late.Next())
		if err != nil {
			t.Fatal(err)
		}
		c := actor.CommitOf()
		c.Reminders.Steps, c.Reminders.Set = []actor.ReminderStep{late.Step}, []actor.Reminder{next}
		if err := w.store.commit(&c); !errors.Is(err, actor.ErrFiringTaken) {
			t.Errorf("the commit of the lost one: %v", err)
		}
		p.publish("times")
		after(eventPoll + eventPoll/4)
		p.expect("after its poll", "ann 4")
		p.checkCursors(s, 1)
	})
}

// A cursor that an instance read and had not delivered is delivered by who gets its buckets.
func TestCursorsOfAStoppedInstance(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		p := newPapers(w)
		a, b := p.start(w.config()), p.start(w.config())
		after(10 * time.Second)
		p.subscribe(a, "ann", "times")
		p.subscribe(b, "bob", "times")
		after(time.Second)
		p.publish("times", a, b)
		after(time.Millisecond)
		if applied, _ := p.took(); len(applied) != 2 {
			t.Fatalf("%q", applied)
		}
		if err := a.Stop(w.Context()); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			p.publish("times", b)
		}
		after(time.Minute)
		applied, _ := p.took()
		slices.Sort(applied)
		if want := []string{"ann 2", "ann 3", "ann 4", "ann 5", "ann 6", "bob 2", "bob 3", "bob 4", "bob 5", "bob 6"}; !slices.Equal(applied, want) {
			t.Errorf("%q", applied)
		}
		p.checkCursors(b, 2)
	})
}
