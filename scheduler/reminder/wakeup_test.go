package reminder

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// outdated is a [memory] whose reads of whole reminders take long to come back.
type outdated struct {
	*memory
	takes time.Duration
}

func (m *outdated) LoadReminders(ctx context.Context, ids []actor.ReminderID) ([]actor.Reminder, error) {
	rows, err := m.memory.LoadReminders(ctx, ids)
	<-time.After(m.takes)
	return rows, err
}

// A reminder that is resumed between the read of it, which found it paused, and the end of that
// read fires at once, not only when a sweep finds it.
func TestResumedWhileItIsRead(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := w.config()
		cfg.Store = &outdated{w.store, 200 * time.Millisecond}
		s := w.start(cfg)
		a := NewAdmin(s, &adminStore{memory: w.store})
		r := w.set(s, "n", true, once(time.Second))
		names := []actor.ReminderName{nameOf(&r)}
		if _, _, err := a.SetPaused(w.Context(), names, true); err != nil {
			t.Fatal(err)
		}
		after(1100 * time.Millisecond)
		if _, changed, err := a.SetPaused(w.Context(), names, false); changed != 1 || err != nil {
			t.Fatal(changed, err)
		}
		after(time.Second)
		if got := w.host.list(); len(got) != 1 {
			t.Errorf("a second after it was resumed it has fired %d times", len(got))
		}
	})
}

// A delivery that does not begin since its bucket is being given up is read again if the bucket
// stays: it may have been under way when the bucket was read.
func TestDeliveryOfABucketThatStays(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		r := w.set(s, "n", true, once(time.Hour))
		synctest.Wait() // no read of the rows is under way, which would end the lapse
		s.tenure.mu.Lock()
		s.tenure.lapsed = true // nothing is taken from memory meanwhile
		s.tenure.mu.Unlock()
		s.pending.mu.Lock()
		b := s.pending.owned[r.ID.Bucket()]
		b.leaving = true
		s.pending.underWay.begin(r.ID, false)
		was := s.pending.inMemory()
		s.pending.mu.Unlock()
		d := &delivery{reminder: &r}
		if full := s.deliveries.queue.add(d); full != (scope{}) {
			t.Fatal(full)
		}
		s.deliveries.begin(s.deliveries.queue.take())
		s.pending.mu.Lock()
		defer s.pending.mu.Unlock()
		if got := s.pending.inMemory(); got != was+1 || s.pending.underWay.buckets[r.ID.Bucket()] != 0 {
			t.Errorf("%d are in memory, want %d; %v are under way", got, was+1, s.pending.underWay.buckets)
		}
	})
}

// An app that has no room since others use all bytes of payloads is not read over and over until
// there is, and hears of it when one of the others gives some back.
func TestAppHearsOfBytesThatOthersGiveBack(t *testing.T) {
	cfg := Config{}.WithDefaults()
	d := newDispatch(&cfg, func() {})
	d.woken = true // it needs no worker
	big := make([]byte, actor.MaxReminderPayload)
	others := actor.ReminderID{Prefix: anID.Prefix + 1, Vector: anID.Vector}
	add := func(key actor.Key, id actor.ReminderID) scope {
		r := &actor.Reminder{ID: id, ReminderSpec: actor.ReminderSpec{Key: key}}
		r.Payload.Data = big
		return d.add(&delivery{reminder: r})
	}
	for app := range 8 {
		for typ := range 4 {
			for n := range waitingBytesOfType / actor.MaxReminderPayload {
				add(actor.Key{App: fmt.Sprint("other", app), Type: fmt.Sprint(typ), ID: fmt.Sprint(n)}, others)
			}
		}
	}
	key, n := actor.Key{App: "app", Type: "T"}, 0
	for full := (scope{}); full == (scope{}); n++ {
		key.ID = fmt.Sprint(n)
		if full = add(key, anID); full != (scope{}) && full != appScope("app") || n > 1000 {
			t.Fatalf("%d wait, and full is %+v", n, full)
		}
	}
	d.watch(appScope("app"))
	if of, ok := d.nextRoom(); ok {
		t.Fatalf("%+v has room, with nothing given back", of)
	}
	d.drop(others.Bucket())
	for of, ok := d.nextRoom(); of != appScope("app"); of, ok = d.nextRoom() {
		if !ok {
			t.Fatal("others gave their bytes back, and the app does not hear of it")
		}
	}
}

// A reminder that is alone in a closed bucket, and was paused while the bucket was found empty, is
// read ahead from when it was resumed on: it fires in time also where it is due next beyond the
// window, and before it would be asked again whether the bucket is empty.
func TestResumedInABucketThatRests(t *testing.T) {
	inBubble(t, func(w *world) {
		const buckets, apart = 10, 10 * time.Second
		var names []actor.ReminderName
		for n := range buckets {
			row, err := w.store.AllocateBucket(w.Context(), "default", "gone", anID.Vector)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.store.CloseBucket(w.Context(), row.Bucket); err != nil {
				t.Fatal(err)
			}
			s := spec(actor.Schedule{After: time.Duration(n) * apart, Every: buckets * apart})
			s.Name, s.Hold = fmt.Sprint(n), true
			r, err := NewPlanner().Prepare(s, row.Bucket.Token(1), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			c := actor.CommitOf()
			c.Reminders.Set = []actor.Reminder{r}
			if err := w.store.commit(&c); err != nil {
				t.Fatal(err)
			}
			names = append(names, nameOf(&r))
		}
		service := w.start(w.config())
		after(20 * time.Minute)
		asked := make(chan struct{})
		var once sync.Once
		w.store.fails(func(op string) error {
			if op == "recent" {
				once.Do(func() { close(asked) })
			}
			return nil
		})
		<-asked
		after(time.Second)
		a := NewAdmin(service, &adminStore{memory: w.store})
		if _, changed, err := a.SetPaused(w.Context(), names, false); changed != buckets || err != nil {
			t.Fatal(changed, err)
		}
		after(10 * time.Minute)
		fired := map[string]int{}
		for _, c := range w.host.list() {
			fired[c.name]++
			if late := c.at.Sub(c.due); fired[c.name] > 1 && late > 10*time.Millisecond {
				t.Errorf("%s fired %v late", c.name, late)
			}
		}
		if len(fired) != buckets || fired["0"] < 6 {
			t.Errorf("fired: %v", fired)
		}
	})
}
