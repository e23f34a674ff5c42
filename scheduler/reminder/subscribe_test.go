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
	"github.com/greenroom-run/greenroom/store"
)

// forSubscribers makes a spec one for subscribers of jobs.
func forSubscribers(change func(*actor.ReminderSpec)) func(*actor.ReminderSpec) {
	return func(s *actor.ReminderSpec) {
		s.Key, s.Method = actor.SubscriptionKey("default", "jobs"), ""
		change(s)
	}
}

func (w *world) subscribe(s *Service, limit int, names ...string) *Subscriber {
	w.Helper()
	c, err := s.Subscribe("default", names, limit)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(c.Close)
	return c
}

// take returns the names of what a subscriber is asked for.
func take(c *Subscriber) (list []Execution, names []string) {
	list = c.Take()
	for _, x := range list {
		names = append(names, x.Firing.Name)
	}
	return list, names
}

func answer(t *testing.T, c *Subscriber, id uint64, failure error) {
	t.Helper()
	if err := c.Answer(id, failure); err != nil {
		t.Error(err)
	}
}

func TestSubscriberExecutes(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		c := w.subscribe(s, 0, "jobs", "others")
		r := w.set(s, "a", true, forSubscribers(every(time.Hour, 2)))
		after(time.Hour - time.Millisecond)
		if list, _ := take(c); len(list) != 0 {
			t.Fatalf("early: %+v", list)
		}
		for i := range 2 {
			after(2 * time.Millisecond)
			list, _ := take(c)
			if len(list) != 1 || list[0].ID != uint64(i+1) || !list[0].Firing.Due.Equal(r.Due.Add(time.Duration(i)*time.Hour)) || list[0].Firing.Attempt != 1 {
				t.Fatalf("%+v", list)
			}
			answer(t, c, list[0].ID, nil)
			after(time.Hour - 2*time.Millisecond)
		}
		if len(w.store.reminders) != 0 || len(w.host.list()) != 0 {
			t.Errorf("left %+v, actors' turns %v", w.store.reminders, w.host.list())
		}
		if st := s.Stats(); st.Fired != 2 || st.Running+st.Waiting+st.InMemory+st.WaitingForSubscribers != 0 || s.subs.executing != 0 {
			t.Errorf("%+v, %d executing", st, s.subs.executing)
		}
	})
}

// TestReminderWaitsForSubscriber leaves reminders without a subscriber for days, over a
// restart: none is lost or fails, and what was missed is as its policy has it.
func TestReminderWaitsForSubscriber(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		w.set(s, "once", true, forSubscribers(once(time.Second)))
		w.set(s, "collapse", true, forSubscribers(every(time.Hour, 0)))
		w.set(s, "catchup", true, forSubscribers(func(sp *actor.ReminderSpec) {
			sp.Schedule.Every, sp.Missed = time.Hour, actor.MissedPolicy{Kind: actor.MissedCatchUp, Limit: 3}
		}))
		w.set(s, "actor", true, every(time.Hour, 0)) // is not held up
		after(24 * time.Hour)
		if st := s.Stats(); st.WaitingForSubscribers != 3 || st.Failed+st.Retried != 0 || st.Fired != 24 {
			t.Fatalf("%+v", st)
		}
		if err := s.Stop(w.Context()); err != nil {
			t.Fatal(err)
		}
		s = w.start(w.config())
		after(24*time.Hour + 30*time.Minute)
		c := w.subscribe(s, 100, "jobs")
		missed := map[string][]uint32{}
		for range 10 {
			after(time.Second)
			list, names := take(c)
			for i, x := range list {
				missed[names[i]] = append(missed[names[i]], x.Firing.Missed)
				answer(t, c, x.ID, nil)
			}
		}
		if got := fmt.Sprint(missed); got != "map[catchup:[45 0 0] collapse:[47] once:[0]]" {
			t.Error(got)
		}
		if len(w.store.dead) != 0 || len(w.store.reminders) != 3 {
			t.Errorf("dead %v, left %d", w.store.dead, len(w.store.reminders))
		}
	})
}

// TestMoreWaitThanMemoryHolds drains a subscription of which only a part waits in memory.
func TestMoreWaitThanMemoryHolds(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		const n = 60
		s.pending.mu.Lock() // as if so many others were waiting
		for i := range maxWaiting - n/2 {
			s.pending.waits.subscribers[actor.ReminderID{Prefix: 77, Token: uint32(i)}] = struct{}{}
		}
		s.pending.mu.Unlock()
		for i := range n {
			w.set(s, fmt.Sprint(i), true, forSubscribers(once(time.Second)))
		}
		after(time.Minute)
		if sub := s.subs.byKey[actor.SubscriptionKey("default", "jobs")]; len(sub.waiting) != n/2 || !sub.overflowed {
			t.Fatalf("%d wait in memory of %d", len(sub.waiting), n)
		}
		c := w.subscribe(s, 7, "jobs")
		done := map[string]int{}
		for range 60 {
			after(time.Second)
			list, names := take(c)
			for i, x := range list {
				done[names[i]]++
				answer(t, c, x.ID, nil)
			}
		}
		if len(done) != n || len(w.store.reminders) != 0 {
			t.Errorf("%d of %d were executed, %d are left", len(done), n, len(w.store.reminders))
		}
	})
}

func TestAnswerOfSubscriberLost(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		c := w.subscribe(s, 1, "jobs")
		w.set(s, "a", true, forSubscribers(once(0)))
		w.set(s, "b", true, forSubscribers(once(time.Second)))
		after(2 * time.Second)
		first, names := take(c)
		if !slices.Equal(names, []string{"a"}) {
			t.Fatal(names)
		}
		after(time.Minute) // its time is out, and the place is b's
		second, names := take(c)
		if !slices.Equal(names, []string{"b"}) {
			t.Fatal(names)
		}
		answer(t, c, first[0].ID, nil) // too late
		after(time.Second)
		answer(t, c, second[0].ID, nil)
		after(2 * time.Second)
		third, names := take(c)
		if !slices.Equal(names, []string{"a"}) || third[0].Firing.Attempt != 1 {
			t.Fatalf("%+v", third)
		}
		answer(t, c, third[0].ID, nil)
		answer(t, c, third[0].ID, errors.New("said twice"))
		after(time.Second)
		if st := s.Stats(); st.Fired != 2 || st.Retried != 1 || st.Failed != 0 || len(w.store.reminders) != 0 {
			t.Errorf("%+v, left %v", st, w.store.reminders)
		}
		var argument *actor.ArgumentError
		if err := c.Answer(99, nil); !errors.As(err, &argument) {
			t.Errorf("an execution that never was: %v", err)
		}
	})
}

func TestStreamOfSubscriberLost(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		lost, stays := w.subscribe(s, 1, "jobs"), w.subscribe(s, 1, "jobs")
		w.set(s, "a", true, forSubscribers(once(0)))
		w.set(s, "b", true, forSubscribers(once(0)))
		after(time.Millisecond)
		_, one := take(lost)
		list, two := take(stays)
		if len(one) != 1 || len(two) != 1 {
			t.Fatal(one, two)
		}
		lost.Close()
		after(2 * time.Second)
		answer(t, stays, list[0].ID, nil)
		after(2 * time.Second)
		list, names := take(stays)
		if !slices.Equal(names, one) {
			t.Fatalf("%v, and %v was lost", names, one)
		}
		answer(t, stays, list[0].ID, nil)
		answer(t, lost, 1, nil)
		after(time.Second)
		if len(w.store.reminders) != 0 || len(w.store.dead) != 0 {
			t.Errorf("left %v", w.store.reminders)
		}
	})
}

// TestSubscribersInTurn shares the firings of one subscription, none more than it takes.
func TestSubscribersInTurn(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		cs := []*Subscriber{w.subscribe(s, 2, "jobs"), w.subscribe(s, 10, "jobs"), w.subscribe(s, 10, "jobs")}
		other := w.subscribe(s, 10, "other")
		for i := range 12 {
			w.set(s, fmt.Sprint(i), true, forSubscribers(once(0)))
		}
		after(time.Millisecond)
		for i, want := range []int{2, 5, 5} {
			list, _ := take(cs[i])
			if len(list) != want {
				t.Errorf("subscriber %d has %d, want %d", i, len(list), want)
			}
		}
		for i := range 20 {
			w.set(s, fmt.Sprint("more", i), true, forSubscribers(once(0)))
		}
		after(time.Millisecond)
		if st := s.Stats(); st.WaitingForSubscribers != 10 {
			t.Errorf("%+v", st)
		}
		answer(t, cs[0], 1, nil)
		after(time.Millisecond)
		if list, _ := take(cs[0]); len(list) != 1 {
			t.Errorf("the place that was free was given %d", len(list))
		}
		if list, _ := take(other); len(list) != 0 {
			t.Errorf("of another subscription: %v", list)
		}
	})
}

func TestFailedExecution(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		c := w.subscribe(s, 1, "jobs")
		w.set(s, "bad", true, forSubscribers(func(sp *actor.ReminderSpec) {
			sp.Failure = actor.FailurePolicy{Attempts: 2, Interval: time.Minute}
		}))
		for attempt := uint32(1); attempt <= 2; attempt++ {
			after(time.Millisecond)
			list, _ := take(c)
			if len(list) != 1 || list[0].Firing.Attempt != attempt {
				t.Fatalf("attempt %d: %+v", attempt, list)
			}
			answer(t, c, list[0].ID, &actor.GuestError{Code: "no_card", Message: "none"})
			after(time.Minute * 5 / 4)
		}
		if len(w.store.dead) != 1 || w.store.dead[0].Reason != "no_card: none" {
			t.Errorf("%+v", w.store.dead)
		}
	})
}

// TestDoneWhileStoreIsAway does not ask again for what was done.
func TestDoneWhileStoreIsAway(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		c := w.subscribe(s, 1, "jobs")
		w.set(s, "a", true, forSubscribers(once(0)))
		after(time.Millisecond)
		list, _ := take(c)
		var away atomic.Bool
		away.Store(true)
		w.store.fails(func(op string) error {
			if op == "commit" && away.Load() {
				return actor.ErrUnavailable
			}
			return nil
		})
		answer(t, c, list[0].ID, nil)
		after(5 * time.Minute)
		away.Store(false)
		after(2 * time.Second)
		if list, _ := take(c); len(list) != 0 || w.store.left() != 0 || s.Stats().Fired != 1 {
			t.Errorf("asked again: %v, left %v, %+v", list, w.store.reminders, s.Stats())
		}
	})
}

// TestStopAwaitsSubscribers lets what is under way be answered, and ends the subscribers
// then.
func TestStopAwaitsSubscribers(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		c := w.subscribe(s, 1, "jobs")
		w.set(s, "a", true, forSubscribers(once(0)))
		w.set(s, "b", true, forSubscribers(once(0)))
		after(time.Millisecond)
		list, _ := take(c)
		stopped := make(chan error)
		go func() { stopped <- s.Stop(context.Background()) }()
		after(time.Second)
		select {
		case <-c.Ended():
			t.Fatal("ended with an execution under way")
		default:
		}
		answer(t, c, list[0].ID, nil)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		<-c.Ended()
		if len(w.store.reminders) != 1 || s.subs.executing != 0 {
			t.Errorf("left %v", w.store.reminders)
		}
		if _, err := s.Subscribe("default", []string{"jobs"}, 1); !errors.Is(err, actor.ErrStopping) {
			t.Errorf("subscribed to what has stopped: %v", err)
		}
	})
}

func TestBadSubscriptions(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		for _, bad := range []struct {
			app   string
			names []string
			limit int
		}{{"default", nil, 1}, {"default", []string{"a", "a"}, 1}, {"default", []string{""}, 1}, {"a b", []string{"a"}, 1},
			{"default", []string{"a b"}, 1}, {"default", []string{"a"}, -1}, {"default", []string{"a"}, MaxExecutions + 1}, {"default", make([]string, 65), 1}} {
			var argument *actor.ArgumentError
			if c, err := s.Subscribe(bad.app, bad.names, bad.limit); !errors.As(err, &argument) {
				t.Errorf("%+v: %v, %v", bad, c, err)
			}
		}
		for _, bad := range []func(*actor.ReminderSpec){
			func(sp *actor.ReminderSpec) { sp.Method = "M" },
			func(sp *actor.ReminderSpec) { sp.Key.ID = "a b" },
		} {
			spec := actor.ReminderSpec{Key: actor.SubscriptionKey("default", "jobs"), Name: "n"}
			bad(&spec)
			var argument *actor.ArgumentError
			if _, err := s.Prepare(w.Context(), spec); !errors.As(err, &argument) {
				t.Errorf("%+v: %v", spec, err)
			}
		}
	})
}

// peers connects the services of a test.
type peers struct {
	mu   sync.Mutex
	all  map[actor.HostID]*Service
	lose func() bool // the answer of a release
}

func (p *peers) Release(ctx context.Context, host actor.HostID, r ReleaseRequest) ([]actor.ReminderID, error) {
	p.mu.Lock()
	s := p.all[host]
	p.mu.Unlock()
	if s == nil {
		return nil, actor.ErrUnavailable
	}
	ids, err := s.Release(ctx, r)
	if err == nil && len(ids) > 0 && p.lose != nil && p.lose() {
		return nil, actor.ErrUnavailable
	}
	return ids, err
}

func (p *peers) Notice(_ context.Context, host actor.HostID, heads []store.ReminderHead) error {
	p.mu.Lock()
	s := p.all[host]
	p.mu.Unlock()
	if s == nil || p.lose != nil && p.lose() {
		return actor.ErrUnavailable
	}
	s.Notice(heads)
	return nil
}

// startPair starts two services that share the store.
func (w *world) startPair(change func(*Config)) (a, b *Service, p *peers) {
	w.store.shared = true
	p = &peers{all: map[actor.HostID]*Service{}}
	start := func() *Service {
		cfg := w.config()
		cfg.Peers = p
		if change != nil {
			change(&cfg)
		}
		s := w.start(cfg)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all[cfg.Host] = s
		return s
	}
	a, b = start(), start()
	after(10 * time.Second)
	return a, b, p
}

// TestTakeOver moves a reminder to where its subscriber is: under a new ID, in one commit.
func TestTakeOver(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, _ := w.startPair(nil)
		old := w.set(a, "a", true, forSubscribers(every(time.Hour, 3)))
		c := w.subscribe(b, 1, "jobs")
		after(time.Hour)
		list, _ := take(c)
		if len(list) != 1 || list[0].Firing.Reminder == old.ID || list[0].Firing.Missed != 0 {
			t.Fatalf("%+v", list)
		}
		now := w.store.reminders[actor.ReminderName{Key: old.Key, Name: "a"}]
		if now.ID != list[0].Firing.Reminder || !now.Due.Equal(old.Due) || !b.pending.owns(now.ID.Bucket()) || a.pending.owns(now.ID.Bucket()) {
			t.Fatalf("%+v, was %+v", now, old)
		}
		for i := range 3 {
			answer(t, c, list[0].ID, nil)
			after(time.Hour)
			if list, _ = take(c); i < 2 && (len(list) != 1 || list[0].Firing.Reminder != now.ID) {
				t.Fatalf("firing %d: %+v", i, list)
			}
		}
		if len(w.store.reminders) != 0 || a.Stats().Fired != 0 || b.Stats().Fired != 3 || b.Stats().TakenOver != 1 {
			t.Errorf("left %v, a %+v, b %+v", w.store.reminders, a.Stats(), b.Stats())
		}
		if st := a.Stats(); st.InMemory+st.Running+st.WaitingForSubscribers != 0 {
			t.Errorf("the old instance keeps it: %+v", st)
		}
	})
}

// TestTakeOverRacesFiring has a firing under way at the old instance while the reminder is
// moved: one of the two commits, and the other finds it done.
func TestTakeOverRacesFiring(t *testing.T) {
	for _, first := range []string{"firing", "move"} {
		t.Run(first, func(t *testing.T) {
			inBubble(t, func(w *world) {
				a, b, _ := w.startPair(nil)
				w.set(b, "has a bucket", true, once(100*time.Hour))
				r := w.set(a, "a", true, forSubscribers(every(time.Hour, 2)))
				here := w.subscribe(a, 1, "jobs")
				after(time.Hour)
				list, _ := take(here)
				if len(list) != 1 {
					t.Fatal(list)
				}
				move := func() {
					if err := b.takeovers.takeOver(w.Context(), []actor.Key{r.Key}, []actor.ReminderID{r.ID}); err != nil {
						t.Fatal(err)
					}
				}
				if first == "firing" {
					loaded := w.store.reminders[nameOf(&r)]
					answer(t, here, list[0].ID, nil)
					after(time.Millisecond)
					commit := moved(&loaded, actor.ReminderID{Prefix: 1, Token: 99, Vector: r.ID.Vector}, time.Time{}) // read before, committed after
					if err := w.store.commit(&commit); !errors.Is(err, actor.ErrFiringTaken) {
						t.Fatalf("moved a reminder that had fired: %v", err)
					}
				} else {
					move()
					answer(t, here, list[0].ID, nil)
					after(time.Millisecond)
					if st := a.Stats(); st.Taken != 1 || st.Fired != 0 {
						t.Fatalf("%+v", st)
					}
				}
				// The occurrences that are left take effect once each, wherever.
				there := w.subscribe(b, 1, "jobs")
				here.Close()
				due := map[time.Time]int{}
				for range 20 {
					after(10 * time.Minute)
					list, _ := take(there)
					for _, x := range list {
						answer(t, there, x.ID, nil)
						due[x.Firing.Due]++
					}
				}
				want := 1
				if first == "move" {
					want = 2
				}
				if len(due) != want || len(w.store.reminders) != 1 || a.Stats().Fired+b.Stats().Fired != 2 {
					t.Errorf("%v, left %v, a %+v, b %+v", due, w.store.reminders, a.Stats(), b.Stats())
				}
			})
		})
	}
}

// TestReleaseLost loses the answers of releases, and the instance that asked for some.
func TestReleaseLost(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, p := w.startPair(nil)
		lost := 0
		p.lose = func() bool { lost++; return lost <= 2 }
		c := w.subscribe(b, 1, "jobs")
		w.set(a, "a", true, forSubscribers(once(time.Second)))
		after(time.Minute)
		list, _ := take(c)
		if len(list) != 1 || lost != 3 {
			t.Fatalf("%+v after %d releases", list, lost)
		}
		answer(t, c, list[0].ID, nil)
		after(time.Second)
		if len(w.store.reminders) != 0 {
			t.Errorf("left %v", w.store.reminders)
		}
	})
}

// startBorrower starts two services of which b creates from a bucket that is a's, and has so
// to borrow what it has subscribers for.
func (w *world) startBorrower() (a, b *Service) {
	w.Helper()
	a, b, _ = w.startPair(nil)
	w.store.fails(func(op string) error {
		if op == "assign" {
			return actor.ErrUnavailable // whoever creates from a bucket does not own it
		}
		return nil
	})
	w.set(b, "makes a bucket", false, once(100*time.Hour))
	w.store.fails(nil)
	b.pending.mu.Lock()
	for bucket := range b.pending.owned {
		delete(b.pending.owned, bucket)
	}
	b.pending.mu.Unlock()
	// What b owns by the rows it would adopt at its next look: it gets none meanwhile.
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for bucket, row := range w.store.buckets {
		if row.Creator == b.tenure.self {
			row.Owner = a.tenure.self
			row.Epoch += 2
			w.store.buckets[bucket] = row
			a.pending.mu.Lock()
			a.pending.underWay.buckets[bucket]++ // as if a had something of it under way, and so could not give it up
			a.pending.mu.Unlock()
		}
	}
	return a, b
}

// TestBorrowed executes a firing for an instance that owns no bucket that it could move it
// to: the reminder stays where it is, and its next firing is in time.
func TestBorrowed(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.startBorrower()
		c := w.subscribe(b, 1, "jobs")
		r := w.set(a, "a", true, forSubscribers(every(3*time.Second, 3)))
		if owner := w.store.bucket(r.ID.Bucket()).Owner; owner != a.tenure.self {
			t.Fatal(owner)
		}
		for range 20 {
			after(time.Second)
			list, _ := take(c)
			for _, x := range list {
				if x.Firing.Reminder != r.ID || x.Firing.Missed != 0 {
					t.Errorf("moved, or late: %+v", x)
				}
				answer(t, c, x.ID, nil)
			}
		}
		if w.store.left() != 1 || b.Stats().Fired != 3 || b.Stats().TakenOver != 0 {
			t.Errorf("left %d, b %+v", w.store.left(), b.Stats())
		}
	})
}

// What is borrowed is with no subscriber of its owner's before the time for its execution is
// out. Given back, it is executed again at once.
func TestBorrowedIsExecutedOnce(t *testing.T) {
	for _, what := range []string{"done", "given back"} {
		inBubble(t, func(w *world) {
			a, b := w.startBorrower()
			c := w.subscribe(b, 1, "jobs")
			r := w.set(a, "a", true, forSubscribers(once(time.Second)))
			after(5 * time.Second)
			list, _ := take(c)
			if len(list) != 1 || list[0].Firing.Reminder != r.ID {
				t.Fatalf("%+v", list)
			}
			also := w.subscribe(a, 1, "jobs")
			after(30 * time.Second)
			if list, _ := take(also); len(list) != 0 {
				t.Errorf("%s: while it is executed, %+v", what, list)
			}
			want := 0
			if what == "given back" {
				want = 1
				c.Close()
			} else {
				answer(t, c, list[0].ID, nil)
			}
			after(pollEvery)
			if list, _ := take(also); len(list) != want {
				t.Errorf("%s: %+v", what, list)
			}
			if left := w.store.left(); left != 1+want {
				t.Errorf("%s: %d are left", what, left)
			}
		})
	}
}

// TestNoTokenTwice has reminders fire, move and be created at two instances, whose
// subscribers come and go: each occurrence takes effect once, and no token is seen twice.
func TestNoTokenTwice(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, p := w.startPair(nil)
		n := 0
		p.lose = func() bool { n++; return n%5 == 0 }
		const reminders, times = 40, 5
		seen := map[actor.ReminderID]actor.ReminderName{}
		observe := func() {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			for name, r := range w.store.reminders {
				if other, there := seen[r.ID]; there && other != name {
					t.Fatalf("%s is of %v and of %v", r.ID, name, other)
				}
				seen[r.ID] = name
			}
		}
		at := []*Service{a, b}
		var c *Subscriber
		for round := range 200 {
			if round < reminders {
				w.set(at[round%2], fmt.Sprint(round), round%3 > 0, forSubscribers(every(time.Minute, times)))
			}
			if round%10 == 0 {
				if c != nil {
					c.Close()
				}
				c = w.subscribe(at[round/10%2], 5, "jobs")
			}
			after(3 * time.Second)
			observe()
			list, _ := take(c)
			for i, x := range list {
				if (i+round)%7 != 0 { // some are not answered
					answer(t, c, x.ID, nil)
				}
			}
			if round%50 == 0 {
				after(2 * time.Minute) // those have their time out
			}
		}
		if a.Stats().TakenOver+b.Stats().TakenOver < 20 {
			t.Errorf("few were taken over: %+v %+v", a.Stats(), b.Stats())
		}
		if left := len(w.store.reminders); left != 0 {
			t.Errorf("%d are left", left)
		}
	})
}

// TestTableChanges tells of owners that change.
func TestTableChanges(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, _ := w.startPair(nil)
		_, changed := b.Table("default")
		w.set(a, "a", true, once(time.Hour))
		<-changed
		rows, changed := b.Table("default")
		if len(rows) != 1 || rows[0].Owner != a.tenure.self {
			t.Fatalf("%+v", rows)
		}
		if other, _ := b.Table("other"); len(other) != 0 {
			t.Errorf("of another app: %+v", other)
		}
		if err := a.Stop(w.Context()); err != nil {
			t.Fatal(err)
		}
		for rows[0].Owner != b.tenure.self {
			<-changed
			rows, changed = b.Table("default")
		}
	})
}

// What waits in the store only is remembered without an entry for each name, and read when
// somebody subscribes, whatever name it has.
func TestOverflowOfManyNames(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		s.pending.mu.Lock() // as if so many others were waiting
		for i := range maxWaiting {
			s.pending.waits.subscribers[actor.ReminderID{Prefix: 77, Token: uint32(i)}] = struct{}{}
		}
		s.pending.mu.Unlock()
		const names = 50
		for i := range names {
			w.set(s, "n", true, forSubscribers(func(sp *actor.ReminderSpec) {
				sp.Key, sp.Schedule.After = actor.SubscriptionKey("default", fmt.Sprint("name", i)), time.Second
			}))
		}
		after(time.Minute)
		if n := len(s.subs.byKey); n != 0 || !s.subs.overflowed {
			t.Fatalf("%d subscriptions of which nothing waits in memory", n)
		}
		for i := range names {
			c := w.subscribe(s, 1, fmt.Sprint("name", i))
			after(2 * pollEvery)
			list, _ := take(c)
			if len(list) != 1 {
				t.Fatalf("name%d is given %d", i, len(list))
			}
			answer(t, c, list[0].ID, nil)
			c.Close()
		}
		after(10 * time.Second)
		if n := len(s.subs.byKey); n != 0 || w.store.left() != 0 {
			t.Errorf("%d subscriptions, %d reminders are left", n, w.store.left())
		}
	})
}

// The payloads that are with subscribers are bounded, of an app and in all; what is beyond
// that goes on when others are done.
func TestPayloadsWithSubscribersAreBounded(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		const size = actor.MaxReminderPayload
		const fits = maxExecutingBytes / 2 / size
		const n = fits + 10
		for i := range n {
			w.set(s, fmt.Sprint(i), true, forSubscribers(func(sp *actor.ReminderSpec) {
				sp.Schedule.After, sp.Payload.Data = time.Second, make([]byte, size)
			}))
		}
		c := w.subscribe(s, MaxExecutions, "jobs")
		after(10 * time.Second)
		done := 0
		for rounds := 0; done < n; rounds++ {
			list, _ := take(c)
			if rounds == 0 && len(list) != fits || len(list) == 0 || s.subs.bytes.Used() > maxExecutingBytes/2 {
				t.Fatalf("%d executions at once, of %d bytes", len(list), s.subs.bytes.Used())
			}
			for _, x := range list {
				answer(t, c, x.ID, nil)
				done++
			}
			after(10 * time.Second)
		}
		if s.subs.bytes.Used() != 0 || w.store.left() != 0 {
			t.Errorf("%d bytes, %d left", s.subs.bytes.Used(), w.store.left())
		}
	})
}

// Where something of a name that nobody wants was left in the store, a subscriber of another
// name at another instance, which asks again and again, has it read once and not at each look.
func TestSubscriberElsewhereHasAllReadOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		s.pending.mu.Lock() // as if so many others were waiting
		for i := range maxWaiting {
			s.pending.waits.subscribers[actor.ReminderID{Prefix: 77, Token: uint32(i)}] = struct{}{}
		}
		s.pending.mu.Unlock()
		w.set(s, "n", true, forSubscribers(once(time.Second)))
		after(10 * time.Second)
		if !s.subs.overflowed {
			t.Fatal("nothing was left in the store")
		}
		const soon = 100
		for i := range soon {
			w.set(s, fmt.Sprint(i), true, once(100*time.Second))
		}
		ask := ReleaseRequest{Subscriptions: []actor.Key{actor.SubscriptionKey("default", "other")}, Limit: 1}
		for range 30 {
			if ids, err := s.Release(w.Context(), ask); len(ids) != 0 || err != nil {
				t.Fatal(ids, err)
			}
			after(pollEvery)
			if n := s.Stats().InMemory; n > 3*soon {
				t.Fatalf("%d entries in memory of %d reminders", n, soon)
			}
		}
		after(3 * pollEvery) // the other one has gone
		if n := len(s.subs.byKey); n != 0 || !s.subs.overflowed {
			t.Errorf("%d subscriptions of which nothing waits in memory", n)
		}
	})
}
