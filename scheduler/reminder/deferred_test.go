package reminder

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
)

// However many reminders are due of an actor that takes its time, no more are in memory than
// may be: those count as well that wait for the actor.
func TestMemoryIsBoundedWhereAnActorIsSlow(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		cfg := w.config()
		cfg.Host, cfg.Members = "", &members{self: "one", live: []actor.HostID{"one"}}
		cfg.MaxInMemory, cfg.ExecutionTimeout = 2*pageSize, time.Hour
		cfg.Deliverer = remindertest.DeliverFunc(func(ctx context.Context, _ actor.Firing) error {
			<-ctx.Done()
			return ctx.Err()
		})
		s := w.start(cfg)
		specs := make([]actor.ReminderSpec, cfg.MaxInMemory+pageSize)
		for i := range specs {
			specs[i] = actor.ReminderSpec{
				Key: actor.Key{App: "default", Type: "T", ID: "slow"}, Name: fmt.Sprint(i), Method: "M", Schedule: actor.Schedule{After: time.Second},
			}
		}
		w.lostOwner(specs...)
		after(10 * time.Second)
		if st := s.Stats(); st.InMemory < pageSize || st.InMemory > cfg.MaxInMemory {
			t.Errorf("of %d that are due %d are in memory, where %d may be", len(specs), st.InMemory, cfg.MaxInMemory)
		}
	})
}

// What was taken from the wheel counts until it was loaded, however many are due at once.
func TestWhatIsBeingLoadedIsInMemory(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		const n = 3 * loadGroup
		for i := range n {
			w.set(s, fmt.Sprint(i), true, once(time.Second))
		}
		loaded := make(chan struct{})
		w.store.fails(func(op string) error {
			if op == "load" {
				<-loaded
			}
			return nil
		})
		after(2 * time.Second)
		if st := s.Stats(); st.InMemory != n {
			t.Errorf("while the first of %d are loaded %d are in memory", n, st.InMemory)
		}
		close(loaded)
		after(time.Second)
		if st := s.Stats(); st.Fired != n || st.InMemory != 0 {
			t.Errorf("%d were fired of %d, and %d are in memory", st.Fired, n, st.InMemory)
		}
	})
}

// What was set aside is not forgotten when the room that there was for it is gone by the time at
// which it would be read.
func TestSetAsideWaitsForRoomAgain(t *testing.T) {
	roused := 0
	cfg := Config{}.WithDefaults()
	d := newDispatch(&cfg, func() { roused++ })
	d.woken = true // it needs no worker
	key := actor.Key{App: "app", Type: "T", ID: "a"}
	add := func() scope {
		return d.add(&delivery{reminder: &actor.Reminder{ReminderSpec: actor.ReminderSpec{Key: key}}})
	}
	for range waitingOfActor {
		if full := add(); full != (scope{}) {
			t.Fatalf("%+v is full", full)
		}
	}
	p, u := newDeferred(), newUnread()
	p.add(actorScope(key), anID)
	u.room(actorScope(key))
	if g := u.take(&p, d); len(g.due) != 0 {
		t.Fatalf("without room %d are read", len(g.due))
	}
	for range waitingOfActor / 2 {
		d.end(d.take())
	}
	of, ok := d.nextRoom()
	if !ok || of != actorScope(key) || roused == 0 {
		t.Fatalf("there is room again, and nobody hears of it: %+v, %t, %d", of, ok, roused)
	}
	u.room(of)
	if g := u.take(&p, d); len(g.due) != 1 || g.due[0].ID != anID {
		t.Errorf("with room %+v is read", g.due)
	}
}
