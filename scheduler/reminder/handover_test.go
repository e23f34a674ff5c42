package reminder

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// members are those that a test says.
type members struct {
	self actor.HostID

	mu      sync.Mutex
	live    []actor.HostID
	expired bool
}

func (m *members) Self() actor.HostID { return m.self }
func (m *members) Live(context.Context) ([]actor.HostID, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live, m.self == m.live[0], nil
}
func (m *members) Leave(context.Context) error { return nil }
func (m *members) Current() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.expired
}

func (m *members) set(live ...actor.HostID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live = live
}

// A bucket that is to be given up, then not, and then after all is given up only when what
// was under way since before all that has ended.
func TestGivenUpAfterAll(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		w.host.turn = func(f actor.Firing) error {
			if f.Name == "slow" {
				<-time.After(50 * time.Second)
			}
			return nil
		}
		m := &members{self: "one", live: []actor.HostID{"one"}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		s := w.start(cfg)
		w.set(s, "slow", true, once(time.Second))
		// Another app, so that one of two buckets is surplus when there is another process.
		w.set(s, "other", true, func(sp *actor.ReminderSpec) { sp.Key.App, sp.Schedule.After = "other", time.Hour })
		after(5 * time.Second)
		owners := func() (own int) {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			for _, b := range w.store.buckets {
				if b.Owner == "one" {
					own++
				}
			}
			return own
		}
		slow := func() actor.HostID {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			for _, b := range w.store.buckets {
				if b.App == "default" {
					return b.Owner
				}
			}
			return ""
		}
		for range 3 { // the share of each is one bucket, and then two again
			m.set("one", "two", "three")
			after(5 * time.Second)
			m.set("one")
			after(5 * time.Second)
		}
		if got := slow(); got != "one" {
			t.Errorf("the bucket is %q's while a firing of it is under way", got)
		}
		m.set("one", "two")
		after(time.Minute)
		if owners() != 1 || w.host.overlaps != 0 {
			t.Errorf("owns %d, %d overlaps", owners(), w.host.overlaps)
		}
	})
}

// A process that may be taken for gone by now begins no delivery: another one may have its
// buckets.
func TestNoDeliveryOnceTheLeaseHasRunOut(t *testing.T) {
	inBubble(t, func(w *world) {
		m := &members{self: "one", live: []actor.HostID{"one"}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		s := w.start(cfg)
		w.set(s, "a", true, once(10*time.Second))
		after(5 * time.Second)
		m.mu.Lock()
		m.expired = true
		m.mu.Unlock()
		after(time.Minute)
		if got := w.host.list(); len(got) != 0 {
			t.Errorf("delivered: %+v", got)
		}
		m.mu.Lock()
		m.expired = false
		m.mu.Unlock()
		after(pollEvery + time.Second)
		if got := w.host.list(); len(got) != 1 {
			t.Errorf("not delivered afterwards: %+v", got)
		}
	})
}

// Who led before, and leads again, waits anew for an owner that was gone in between and is
// gone again; and the database's clock has no part in how long.
func TestGoneIsCountedAnew(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		m := &members{self: "one", live: []actor.HostID{"one"}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		w.start(cfg)
		b, err := w.store.AllocateBucket(w.Context(), "default", "two", randomVector())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.store.AssignBucket(w.Context(), b.Bucket, b.Epoch, "two"); err != nil {
			t.Fatal(err)
		}
		owner := func() actor.HostID {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			return w.store.buckets[b.Bucket].Owner
		}
		after(30 * time.Second) // it is gone
		m.set("two", "one")     // it is there, and leads
		after(time.Minute)
		m.set("one")
		after(30 * time.Second)
		w.store.mu.Lock()
		w.store.ahead = time.Hour
		w.store.mu.Unlock()
		after(20 * time.Second)
		if got := owner(); got != "two" {
			t.Errorf("the bucket is %q's 50 s after its owner was lost; executions take a minute", got)
		}
		after(20 * time.Second)
		if got := owner(); got != "one" {
			t.Errorf("the bucket is still %q's", got)
		}
	})
}

// Buckets are looked after while the store is slow to give another one.
func TestAllocationHoldsNothingUp(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		w.set(s, "a", true, once(20*time.Second))
		after(3 * time.Second)
		release := make(chan struct{})
		w.store.fail = func(op string) error {
			if op == "allocate" {
				<-release
			}
			return nil
		}
		prepare := func(ctx context.Context) error {
			_, err := s.Prepare(ctx, actor.ReminderSpec{Key: actor.Key{App: "other", Type: "T", ID: "1"}, Name: "n", Method: "M"})
			return err
		}
		first := make(chan error, 1)
		go func() { first <- prepare(context.Background()) }()
		after(time.Second)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if err := prepare(ctx); err == nil {
			t.Error("a second reminder of the app was prepared without a bucket")
		}
		r := w.set(s, "lost notice", false, once(0))
		after(2*pollEvery + time.Second)
		if got := w.host.list(); len(got) != 1 || got[0].name != r.Name {
			t.Errorf("while a bucket is waited for, %+v fired", got)
		}
		close(release)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}
