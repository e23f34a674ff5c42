package reminder

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
)

// A firing is fresh when nobody can have delivered it before: not one that was delivered, nor
// one that another owner of its bucket may have.
func TestFresh(t *testing.T) {
	inBubble(t, func(w *world) {
		var mu sync.Mutex
		var fresh []bool
		fails := 0
		cfg := w.config()
		deliver := remindertest.DeliverFunc(func(ctx context.Context, f actor.Firing) error {
			mu.Lock()
			defer mu.Unlock()
			fresh = append(fresh, f.Fresh)
			if fails--; fails >= 0 {
				return actor.ErrAmbiguous
			}
			return w.host.deliver(ctx, f)
		})
		want := func(list ...bool) {
			w.Helper()
			mu.Lock()
			defer mu.Unlock()
			if len(fresh) != len(list) {
				w.Fatalf("deliveries that are fresh: %v, want %v", fresh, list)
			}
			for i := range list {
				if fresh[i] != list[i] {
					w.Fatalf("deliveries that are fresh: %v, want %v", fresh, list)
				}
			}
			fresh = nil
		}
		cfg.Deliverer = deliver
		first := w.start(cfg)
		w.set(first, "first", true, once(time.Second))
		w.set(first, "every", true, func(sp *actor.ReminderSpec) {
			sp.Schedule.After, sp.Schedule.Every, sp.Schedule.Times = 10*time.Second, time.Second, 2
		})
		after(20 * time.Second)
		want(true, true, true)

		fails = 1
		w.set(first, "again", true, once(time.Second))
		after(20 * time.Second)
		want(true, false)

		w.set(first, "overdue", true, once(time.Minute))
		w.set(first, "later", true, once(10*time.Minute))
		if err := first.Stop(context.Background()); err != nil {
			w.Fatal(err)
		}
		after(2 * time.Minute)
		cfg = w.config()
		cfg.Deliverer = deliver
		w.start(cfg)
		after(20 * time.Minute)
		want(false, true)
	})
}

// A firing is not fresh that this process has tried to deliver before its bucket was about to
// be given up, and then was not.
func TestFreshAfterABucketStays(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		m := &members{self: "one", live: []actor.HostID{"one"}}
		var mu sync.Mutex
		var fresh []bool
		commits := false
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		cfg.Deliverer = remindertest.DeliverFunc(func(ctx context.Context, f actor.Firing) error {
			if f.Name == "slow" { // so that the bucket cannot be given up
				<-time.After(50 * time.Second)
				return w.host.deliver(ctx, f)
			}
			mu.Lock()
			defer mu.Unlock()
			if fresh = append(fresh, f.Fresh); commits {
				return w.host.deliver(ctx, f)
			}
			return actor.ErrAmbiguous
		})
		s := w.start(cfg)
		other := func(d time.Duration) func(*actor.ReminderSpec) {
			return func(sp *actor.ReminderSpec) { sp.Key.App, sp.Schedule.After = "other", d }
		}
		w.set(s, "first", true, once(time.Hour)) // of a bucket that stays
		b := w.set(s, "slow", true, other(time.Second)).ID.Bucket()
		w.set(s, "again", true, other(3*time.Second))
		after(5 * time.Second)
		leaving := func() bool {
			s.pending.mu.Lock()
			defer s.pending.mu.Unlock()
			return s.pending.owned[b].leaving
		}
		m.set("one", "two")
		after(longestWait + pollEvery)
		if !leaving() {
			t.Fatal("the bucket stays")
		}
		mu.Lock()
		tried := len(fresh)
		commits = true
		mu.Unlock()
		m.set("one")
		after(2 * pollEvery)
		mu.Lock()
		defer mu.Unlock()
		if leaving() || tried < 2 || len(fresh) != tried+1 || !fresh[0] || fresh[tried] {
			t.Errorf("leaving %t; %d deliveries before; fresh were %v", leaving(), tried, fresh)
		}
	})
}

// A firing is not fresh that an owner before may have delivered whose clock is ahead of this
// one's: answers of the database take their time.
func TestFreshWhereClocksAreApart(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		synctest.Wait() // its first look at the store would let go of a bucket that is not there
		b := actor.Bucket{Prefix: 7, Vector: anID.Vector}
		s.clock.set(time.Now().Add(-clocksApart / 2)) // that is how long the answer took
		s.pending.mu.Lock()
		s.pending.adopt(actor.BucketRow{Bucket: b, App: "default", Epoch: epochOfFirstOwner + 2})
		s.pending.mu.Unlock()
		for after, want := range map[time.Duration]bool{-time.Minute: false, 0: false, clocksApart: true} {
			r := actor.Reminder{ID: b.Token(1), ReminderProgress: actor.ReminderProgress{FireAt: time.Now().Add(after)}}
			if got := s.deliveries.outcomes.fresh(&r); got != want {
				t.Errorf("a firing that is due %v after the bucket was taken over: fresh %t", after, got)
			}
		}
	})
}

// A firing is not fresh of a bucket that another owner had between two looks at the store.
func TestFreshAfterAnotherOwnerBetweenLooks(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		cfg := w.config()
		cfg.Host, cfg.Members = "", &members{self: "one", live: []actor.HostID{"one"}}
		s := w.start(cfg)
		r := w.set(s, "n", true, once(time.Hour))
		after(pollEvery / 2)
		if r.FireAt = time.Now(); !s.deliveries.outcomes.fresh(&r) {
			t.Error("nobody else had the bucket")
		}
		for i, owner := range []actor.HostID{"two", "one"} {
			if _, done, err := w.store.AssignBucket(w.Context(), r.ID.Bucket(), uint64(i)+epochOfFirstOwner, owner); err != nil || !done {
				w.Fatal(done, err)
			}
		}
		after(pollEvery)
		if r.FireAt = time.Now(); s.deliveries.outcomes.fresh(&r) {
			t.Error("another owner may have delivered it")
		}
	})
}
