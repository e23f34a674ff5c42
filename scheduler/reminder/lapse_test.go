package reminder

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
)

// lostOwner has a bucket in the store whose owner is not there, with the reminders that it
// has set.
func (w *world) lostOwner(specs ...actor.ReminderSpec) actor.Bucket {
	w.Helper()
	synctest.Wait() // no look is under way, which would give it to another
	row, err := w.store.AllocateBucket(w.Context(), "default", "lost", randomVector())
	if err != nil {
		w.Fatal(err)
	}
	if _, _, err := w.store.AssignBucket(w.Context(), row.Bucket, row.Epoch, "lost"); err != nil {
		w.Fatal(err)
	}
	planner := NewPlanner()
	for i, spec := range specs {
		r, err := planner.Prepare(spec, row.Bucket.Token(uint32(i)), time.Now())
		if err != nil {
			w.Fatal(err)
		}
		c := actor.CommitOf()
		c.Reminders.Set = []actor.Reminder{r}
		if err := w.store.commit(&c); err != nil {
			w.Fatal(err)
		}
	}
	return row.Bucket
}

// What a lost owner had is fired by another within a few looks at the store, whatever time
// executions have: those of the lost one have ended with its lease.
func TestLostOwnersRemindersFireSoon(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		m := &members{self: "one", live: []actor.HostID{"one", "lost"}}
		cfg := w.config()
		cfg.Host, cfg.Members, cfg.ExecutionTimeout = "", m, time.Hour
		w.start(cfg)
		w.lostOwner(asked("n", once(time.Second)))
		after(10 * time.Second)
		if got := w.host.list(); len(got) != 0 {
			t.Fatalf("while its owner is there, another fires %+v", got)
		}
		m.set("one")
		after(3*pollEvery + time.Second)
		if got := w.host.list(); len(got) != 1 {
			t.Errorf("its owner is lost, and %d fired", len(got))
		}
	})
}

// A delivery ends with the lease of who made it, whatever time it has, and is made again.
func TestDeliveriesEndWithTheLease(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		m := &members{self: "one", live: []actor.HostID{"one"}}
		cfg := w.config()
		cfg.Host, cfg.Members, cfg.ExecutionTimeout = "", m, time.Hour
		var begun, ended time.Time
		slow := true
		cfg.Deliverer = remindertest.DeliverFunc(func(ctx context.Context, f actor.Firing) error {
			begun = time.Now()
			if slow {
				<-ctx.Done()
				ended = time.Now()
				return ctx.Err()
			}
			return w.host.deliver(ctx, f)
		})
		s := w.start(cfg)
		w.set(s, "a", true, once(time.Second))
		after(20 * time.Second)
		if begun.IsZero() || !ended.IsZero() {
			t.Fatalf("begun %v, ended %v", begun, ended)
		}
		slow = false
		m.expire(true)
		at := time.Now()
		after(ownerTimeout)
		if ended.IsZero() || ended.Sub(at) > mayDeliverEvery {
			t.Fatalf("the lease ran out at %v, the delivery ended at %v", at, ended)
		}
		after(time.Minute)
		if got := w.host.list(); len(got) != 0 {
			t.Fatalf("without a lease %+v", got)
		}
		m.expire(false)
		after(2*pollEvery + longestWait)
		if got := w.host.list(); len(got) != 1 || s.Stats().Failed != 0 {
			t.Errorf("with a lease again %+v, %+v", got, s.Stats())
		}
	})
}

// A subscriber of a lost owner may still be at what it was given: nobody else is given that
// before the time for it is out. What is due later is executed when it is due, and all is
// where the owner before has given the bucket up.
func TestSubscribersOfLostOwnersAreWaitedFor(t *testing.T) {
	jobs := func(name string, at time.Duration) actor.ReminderSpec {
		return actor.ReminderSpec{Key: actor.SubscriptionKey("default", "jobs"), Name: name, Schedule: actor.Schedule{After: at}}
	}
	for _, lost := range []bool{true, false} {
		inBubble(t, func(w *world) {
			w.store.shared = true
			m := &members{self: "one", live: []actor.HostID{"one", "lost"}}
			cfg := w.config()
			cfg.Host, cfg.Members = "", m
			s := w.start(cfg)
			c := w.subscribe(s, 10, "jobs")
			b := w.lostOwner(jobs("before", time.Second), jobs("after", 30*time.Second))
			after(5 * time.Second)
			if lost {
				m.set("one")
			} else if _, done, err := w.store.AssignBucket(w.Context(), b, 2, ""); !done || err != nil {
				t.Fatal(done, err)
			}
			got := map[string]time.Duration{}
			began := time.Now()
			for range 3 * 60 {
				after(time.Second)
				list, names := take(c)
				for i, x := range list {
					got[names[i]] = time.Since(began)
					answer(t, c, x.ID, nil)
				}
			}
			first, last := time.Duration(0), 10*time.Second
			if lost {
				first, last = time.Minute, time.Minute+10*time.Second
			}
			if d := got["before"]; d < first || d > last {
				t.Errorf("lost %t: what was due before was executed after %v", lost, d)
			}
			if d := got["after"]; d < 24*time.Second || d > 27*time.Second {
				t.Errorf("lost %t: what was due later was executed after %v", lost, d)
			}
		})
	}
}

// A look at what is due goes on where the last one ended: more than it reads at once wait for
// nobody, and stay, and what is behind them is found none the less.
func TestLookAtWhatIsDueGoesOn(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		for i := range pageSize + 10 {
			w.set(s, fmt.Sprint(i), true, forSubscribers(once(time.Second)))
		}
		last := w.set(s, "last", false, once(2*time.Second))
		w.store.mu.Lock()
		r := w.store.reminders[nameOf(&last)]
		r.Paused = true
		w.store.reminders[nameOf(&last)] = r
		w.store.mu.Unlock()
		after(time.Minute)
		if st := s.Stats(); st.WaitingForSubscribers != pageSize+10 || st.Fired != 0 {
			t.Fatalf("%+v", st)
		}
		w.store.mu.Lock()
		r.Paused = false // and nobody hears of it
		w.store.reminders[nameOf(&last)] = r
		w.store.mu.Unlock()
		after(3 * sweepEvery)
		if st := s.Stats(); st.Fired != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// A reminder that is resumed at another instance than its bucket's owner fires at once if it is
// due, and at the owner's next look at what is due if that was not told.
func TestResumedElsewhere(t *testing.T) {
	for _, lost := range []bool{false, true} {
		inBubble(t, func(w *world) {
			a, b, p := w.startPair(nil)
			r := w.set(a, "n", true, once(time.Minute))
			if !a.pending.owns(r.ID.Bucket()) || b.pending.owns(r.ID.Bucket()) {
				t.Fatal("another instance owns the bucket")
			}
			p.lose = func() bool { return lost }
			admin := NewAdmin(b, &adminStore{memory: w.store})
			pause := func(paused bool) {
				if found, changed, err := admin.SetPaused(w.Context(), []actor.ReminderName{nameOf(&r)}, paused); found != 1 || changed != 1 || err != nil {
					t.Fatal(found, changed, err)
				}
			}
			pause(true)
			after(5 * time.Minute)
			if got := w.host.list(); len(got) != 0 {
				t.Fatalf("paused, %+v", got)
			}
			pause(false)
			after(time.Millisecond)
			if got := w.host.list(); len(got) != 1 && !lost {
				t.Errorf("its owner was told, and %d fired at once", len(got))
			}
			after(sweepEvery + pollEvery)
			if got := w.host.list(); len(got) != 1 {
				t.Errorf("%d fired", len(got))
			}
		})
	}
}

// Of reminders that are resumed together, those whose commits succeed fire at once, whatever
// becomes of the others' commits, and all those are counted.
func TestResumedElsewhereInPart(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, _ := w.startPair(nil)
		var names []actor.ReminderName
		for _, n := range []string{"first", "second"} {
			r := w.set(a, n, true, once(time.Minute))
			if !a.pending.owns(r.ID.Bucket()) || b.pending.owns(r.ID.Bucket()) {
				t.Fatal("another instance owns the bucket")
			}
			names = append(names, nameOf(&r))
		}
		admin := NewAdmin(b, &adminStore{memory: w.store})
		if found, changed, err := admin.SetPaused(w.Context(), names, true); found != 2 || changed != 2 || err != nil {
			t.Fatal(found, changed, err)
		}
		after(5 * time.Minute)
		full := errors.New("the disk is full")
		var failed atomic.Bool
		w.store.fails(func(op string) error {
			if op == "commit" && !failed.Swap(true) {
				return full
			}
			return nil
		})
		if found, changed, err := admin.SetPaused(w.Context(), names, false); found != 1 || changed != 1 || !errors.Is(err, full) {
			t.Errorf("%d found, %d changed, %v", found, changed, err)
		}
		after(time.Millisecond)
		if got := w.host.list(); len(got) != 1 || got[0].name != "second" {
			t.Errorf("its owner was told of one, and at once fired %+v", got)
		}
	})
}

// A process that may have been taken for gone a second time, while it gives its buckets new
// epochs for the first, does so again before it delivers.
func TestLapseWhileBucketsAreReclaimed(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		m := &members{self: "one", live: []actor.HostID{"one"}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		s := w.start(cfg)
		lapsed := func() bool {
			s.tenure.mu.Lock()
			defer s.tenure.mu.Unlock()
			return s.tenure.lapsed
		}
		r := w.set(s, "n", true, once(5*pollEvery))
		after(4*pollEvery + pollEvery/2) // behind the bucket's assignment, and between two looks
		m.expire(true)
		after(mayDeliverEvery)
		m.expire(false)
		if !lapsed() {
			t.Fatal("it delivers on")
		}
		epoch := w.store.bucket(r.ID.Bucket()).Epoch
		var again atomic.Bool
		w.store.fails(func(op string) error {
			if op == "assign" && !again.Swap(true) {
				m.expire(true)
				<-time.After(pollEvery / 2)
				m.expire(false)
			}
			return nil
		})
		after(pollEvery + pollEvery/4) // that look is over, the reminder due, and the next look is not there
		if got := w.host.list(); !again.Load() || !lapsed() || len(got) != 0 {
			t.Errorf("reclaimed %t; lapsed %t; delivered %+v", again.Load(), lapsed(), got)
		}
		after(pollEvery)
		if got := w.host.list(); lapsed() || len(got) != 1 || w.store.bucket(r.ID.Bucket()).Epoch != epoch+2 {
			t.Errorf("lapsed %t; delivered %+v; epoch %d, was %d", lapsed(), got, w.store.bucket(r.ID.Bucket()).Epoch, epoch)
		}
	})
}

// A process that may be taken for gone by now asks no subscriber for anything, though it had
// begun to read what is due before.
func TestNoSubscriberIsAskedOnceTheLeaseHasRunOut(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		m := &members{self: "one", live: []actor.HostID{"one"}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		s := w.start(cfg)
		w.set(s, "job", true, forSubscribers(once(5*time.Second)))
		c := w.subscribe(s, 1, "jobs")
		var read atomic.Bool
		w.store.fails(func(op string) error {
			if op == "load" && !read.Swap(true) {
				m.expire(true)
			}
			return nil
		})
		after(5*time.Second + pollEvery)
		if list, _ := take(c); !read.Load() || len(list) != 0 {
			t.Errorf("read %t; without a lease it asks for %+v", read.Load(), list)
		}
		m.expire(false)
		after(2*pollEvery + longestWait)
		if list, _ := take(c); len(list) != 1 {
			t.Errorf("with a lease again it asks for %+v", list)
		}
	})
}

// standsStill are members of a process that once stands still as it asks for its lease, which
// is there afterwards.
type standsStill struct {
	members
	still atomic.Int64
}

func (m *standsStill) Current() bool {
	if d := m.still.Swap(0); d > 0 {
		<-time.After(time.Duration(d))
	}
	return m.members.Current()
}

// A process that stood still for longer than others wait for it gives its buckets new epochs
// before it delivers again: its lease may have ended meanwhile, and been renewed.
func TestReclaimsAfterItStoodStill(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		m := &standsStill{members: members{self: "one", live: []actor.HostID{"one"}}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		s := w.start(cfg)
		after(mayDeliverEvery / 2)
		b := w.set(s, "n", true, once(time.Hour)).ID.Bucket()
		after(mayDeliverEvery / 4)
		epoch := w.store.bucket(b).Epoch
		m.still.Store(int64(ownerTimeout + mayDeliverEvery/2)) // until before the next look
		after(3 * pollEvery)
		if got := w.store.bucket(b); got.Epoch != epoch+1 || got.Owner != "one" {
			t.Errorf("it stood still; its bucket was of epoch %d, and is %q's of %d", epoch, got.Owner, got.Epoch)
		}
		after(time.Hour)
		if got := w.host.list(); len(got) != 1 {
			t.Errorf("%d fired", len(got))
		}
	})
}
