package reminder

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
)

// indexed is a [memory] that finds by ID, and takes its time for it.
type indexed struct {
	*memory
	takes time.Duration

	names map[actor.ReminderID]actor.ReminderName // guarded by the lock of the memory
}

func index(m *memory, takes time.Duration) *indexed {
	return &indexed{memory: m, takes: takes, names: map[actor.ReminderID]actor.ReminderName{}}
}

func (m *indexed) LoadReminders(_ context.Context, ids []actor.ReminderID) ([]actor.Reminder, error) {
	if m.takes > 0 {
		<-time.After(m.takes)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make([]actor.Reminder, len(ids))
	for i, id := range ids {
		if _, known := m.names[id]; !known {
			for n, r := range m.reminders {
				m.names[r.ID] = n
			}
		}
		if r := m.reminders[m.names[id]]; r.ID == id {
			found[i] = r
		}
	}
	return found, nil
}

func of(app string, change func(*actor.ReminderSpec)) func(*actor.ReminderSpec) {
	return func(sp *actor.ReminderSpec) {
		sp.Key.App = app
		change(sp)
	}
}

// Behind 20,000 reminders of one app that are due at one instant, which are read 256 at a time in
// 5 ms, another app's reminder of each 50 ms fires each time.
func TestAppWithManyDueAtOnceHoldsUpNoOther(t *testing.T) {
	skipIfRaced(t)
	inBubble(t, func(w *world) {
		cfg := w.config()
		cfg.Store = index(w.store, 5*time.Millisecond)
		s := w.start(cfg)
		at := time.Now().Add(time.Minute).Truncate(time.Second)
		for i := range 20_000 {
			w.set(s, fmt.Sprint("flood", i), true, of("flood", func(sp *actor.ReminderSpec) { sp.Schedule.At = at }))
		}
		w.set(s, "quick", true, func(sp *actor.ReminderSpec) {
			sp.Schedule = actor.Schedule{At: at.Add(2 * time.Millisecond), Every: 50 * time.Millisecond, Times: 10}
		})
		after(2 * time.Minute)
		if n := w.punctual("quick"); n != 10 {
			t.Errorf("it fired %d times of 10", n)
		}
		if got := len(w.host.list()); got != 20_010 {
			t.Errorf("%d fired of 20,010", got)
		}
	})
}

// While a group of reminders of one app is being read, however long it takes, another app's fire.
func TestReadingOfOneAppHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		var first atomic.Bool
		w.store.fails(func(op string) error {
			if op == "load" && !first.Swap(true) {
				<-time.After(20 * time.Second)
			}
			return nil
		})
		for i := range 3 * loadGroup {
			w.set(s, fmt.Sprint("slow", i), true, of("slow", once(time.Millisecond)))
		}
		after(time.Second)
		w.set(s, "quick", true, every(300*time.Millisecond, 10))
		after(4 * time.Second)
		if n := w.punctual("quick"); n != 10 {
			t.Errorf("beside a read that takes 20 s it fired %d times of 10", n)
		}
	})
}

// An app whose type is not deployed, or hangs, has more due than memory holds. Another app's
// reminders fire as if it were not there, also those that are set meanwhile.
func TestAppThatFillsMemoryHoldsUpNoOther(t *testing.T) {
	skipIfRaced(t)
	for name, slow := range map[string]func(ctx context.Context) error{
		"undeployed": func(context.Context) error { return actor.ErrTypeNotFound },
		"hangs":      func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				cfg := w.config()
				cfg.Store = index(w.store, 0)
				cfg.MaxInMemory = 2 * pageSize
				cfg.Deliverer = concurrent(func(ctx context.Context, f actor.Firing) error {
					if f.Key.App == "slow" {
						return slow(ctx)
					}
					return w.host.deliver(ctx, f)
				})
				s := w.start(cfg)
				w.set(s, "quick", true, every(10*time.Second, 0))
				after(5 * time.Second)
				for i := range cfg.MaxInMemory {
					w.set(s, fmt.Sprint("slow", i), true, of("slow", once(time.Second)))
				}
				const minutes = 6
				after(minutes * time.Minute)
				if got := len(w.host.list()); got < minutes*6-1 {
					t.Errorf("a reminder of each 10 s fired %d times in %d minutes", got, minutes)
				}
				w.set(s, "new", true, once(5*time.Minute))
				after(6 * time.Minute)
				if !slices.ContainsFunc(w.host.list(), func(c committed) bool { return c.name == "new" }) {
					t.Error("one that was set to fire after 5 minutes has not fired after 6")
				}
			})
		})
	}
}

// What an app has no room for is in memory once, however often sweeps find it, and all of it fires
// when there is room. A bucket that is lost and comes back meanwhile loses none of it.
func TestSweepsTakeWhatIsUnreadOnce(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost %t", lost), func(t *testing.T) {
			inBubble(t, func(w *world) {
				cfg := w.config()
				cfg.Store = index(w.store, 0)
				cfg.MaxRunning, cfg.MaxOfApp, cfg.MaxOfType, cfg.MaxOfActor = 16, 8, 4, 4
				hangs := make(chan struct{})
				cfg.Deliverer = concurrent(func(ctx context.Context, f actor.Firing) error {
					select {
					case <-hangs:
						return w.host.deliver(ctx, f)
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				s := w.start(cfg)
				const count = 2 * waitingBytesOfApp / actor.MaxReminderPayload
				big := make([]byte, actor.MaxReminderPayload)
				for i := range count {
					w.set(s, fmt.Sprint(i), true, func(sp *actor.ReminderSpec) {
						sp.Key.Type, sp.Payload.Data = fmt.Sprint("T", i%8), big
					})
				}
				for range 2 {
					after(sweepAllEvery + 2*sweepEvery)
					if st := s.Stats(); st.InMemory < count/4 || st.InMemory > count {
						t.Errorf("%d in memory of %d, %d wait", st.InMemory, count, st.Waiting)
					}
					if !lost {
						continue
					}
					for _, b := range s.owner.buckets() {
						w.store.mu.Lock()
						row := w.store.buckets[b.bucket]
						row.Epoch++
						w.store.buckets[b.bucket] = row
						w.store.mu.Unlock()
					}
				}
				after(2 * sweepEvery)
				close(hangs)
				after(10 * sweepEvery)
				if got := len(w.host.list()); got != count || w.store.left() != 0 {
					t.Errorf("%d fired of %d, and %d are left", got, count, w.store.left())
				}
				s.pending.mu.Lock()
				again := len(s.pending.retried)
				s.pending.mu.Unlock()
				if st := s.Stats(); st.InMemory != 0 || again != 0 {
					t.Errorf("%d stay in memory, %d to be read again", st.InMemory, again)
				}
			})
		})
	}
}

// concurrent is a Deliverer that runs each delivery on a goroutine of its own.
type concurrent remindertest.DeliverFunc

// Deliver implements [Deliverer].
func (c concurrent) Deliver(ctx context.Context, f actor.Firing, ended func(error)) func() {
	go func() { ended(c(ctx, f)) }()
	return func() {}
}

// Two apps whose turns hang leave places to a third one.
func TestAppsThatHangHoldUpNoOther(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := w.config() // in the proportions of the defaults
		cfg.MaxRunning, cfg.MaxOfApp, cfg.MaxOfType, cfg.MaxOfActor, cfg.ExecutionTimeout = 16, 8, 4, 4, 20*time.Second
		s := w.start(cfg)
		w.host.turn = func(f actor.Firing) error {
			if f.Key.App != "default" {
				<-time.After(10 * time.Second)
			}
			return nil
		}
		for _, app := range []string{"slow1", "slow2"} {
			for i := range 400 {
				w.set(s, fmt.Sprint(app, i), true, of(app, func(sp *actor.ReminderSpec) { sp.Key.Type = fmt.Sprint("T", i%2) }))
			}
		}
		after(time.Second)
		w.set(s, "quick", true, every(time.Second, 60))
		after(61 * time.Second)
		if n := w.punctual("quick"); n != 60 {
			t.Errorf("beside two apps that hang it fired %d times of 60", n)
		}
	})
}

// Two apps whose subscribers do not answer leave memory for the payloads of a third one.
func TestSubscribersThatDoNotAnswerHoldUpNoOtherApp(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := w.config()
		cfg.ExecutionTimeout = 20 * time.Second
		cfg.Store = index(w.store, 0)
		s := w.start(cfg)
		big := make([]byte, actor.MaxReminderPayload)
		for _, app := range []string{"slow1", "slow2"} {
			c, err := s.Subscribe(app, []string{"jobs"}, MaxExecutions)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for i := range 700 { // 512 of them are half of the bytes
				w.set(s, fmt.Sprint(app, i), true, func(sp *actor.ReminderSpec) {
					sp.Key, sp.Method, sp.Payload.Data = actor.SubscriptionKey(app, "jobs"), "", big
				})
			}
		}
		after(time.Second)
		c := w.subscribe(s, 16, "jobs")
		for i := range 20 {
			w.set(s, fmt.Sprint("quick", i), true, forSubscribers(func(sp *actor.ReminderSpec) { sp.Payload.Data = []byte("1") }))
			after(time.Millisecond)
			list := c.Take()
			if len(list) != 1 {
				t.Fatalf("number %d: %d executions at once", i, len(list))
			}
			if err := c.Answer(list[0].ID, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The end of an execution looks at no subscription that does not wait for memory, however many
// there are.
func TestSettlingLooksAtNoOtherSubscription(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		c := w.subscribe(s, 16, "jobs")
		w.set(s, "a", true, forSubscribers(func(*actor.ReminderSpec) {}))
		after(time.Second)
		list := c.Take()
		if len(list) != 1 {
			t.Fatalf("%d executions", len(list))
		}
		other := actor.SubscriptionKey("other", "jobs")
		s.subs.mu.Lock()
		s.subs.byKey[other] = nil // whoever looks at it panics
		s.subs.mu.Unlock()
		if err := c.Answer(list[0].ID, nil); err != nil {
			t.Fatal(err)
		}
		after(time.Millisecond)
		s.subs.mu.Lock()
		delete(s.subs.byKey, other)
		executing := s.subs.executing
		s.subs.mu.Unlock()
		if executing != 0 || w.store.left() != 0 {
			t.Errorf("%d are not settled", executing)
		}
	})
}
