package reminder

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
)

// members are those that a test says.
type members struct {
	self actor.HostID

	mu      sync.Mutex
	live    []actor.HostID
	expired bool
	// stranger is not connected.
	stranger actor.HostID
}

func (m *members) Self() actor.HostID { return m.self }

// expire ends the lease of this process, or has it last again.
func (m *members) expire(expired bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expired = expired
}

func (m *members) Live(context.Context) ([]actor.HostID, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live, m.self == m.live[0], nil
}
func (m *members) Leave(context.Context) error { return nil }
func (m *members) Connected(live []actor.HostID) []actor.HostID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(live), func(id actor.HostID) bool { return id == m.stranger })
}
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

// A bucket that is being given up asks no subscriber for anything new, while what is under way
// of it keeps it.
func TestBucketThatLeavesAsksNoSubscriber(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		w.host.turn = func(actor.Firing) error { <-time.After(50 * time.Second); return nil }
		m := &members{self: "one", live: []actor.HostID{"one"}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		s := w.start(cfg)
		w.set(s, "stays", true, func(sp *actor.ReminderSpec) { sp.Key.App, sp.Schedule.After = "first", time.Hour })
		w.set(s, "slow", true, once(time.Second))
		w.set(s, "job", true, forSubscribers(once(10*time.Second)))
		c := w.subscribe(s, 1, "jobs")
		after(5 * time.Second)
		m.set("one", "two")
		after(20 * time.Second)
		if list, _ := take(c); len(list) != 0 {
			t.Errorf("of a bucket that leaves it is asked for %+v", list)
		}
		m.set("one")
		after(2 * pollEvery)
		if list, _ := take(c); len(list) != 1 {
			t.Errorf("of one that stays it is asked for %+v", list)
		}
	})
}

// A process that stops, and takes its time for it since a delivery does, then gives up all
// its buckets: the next owner need not wait as for one that is lost.
func TestSlowStopGivesBucketsUp(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		w.host.turn = func(f actor.Firing) error {
			if f.Name == "slow" {
				<-time.After(50 * time.Second)
			}
			return nil
		}
		cfg := w.config()
		cfg.Host, cfg.Members, cfg.Deliverer = "", &members{self: "one", live: []actor.HostID{"one"}}, remindertest.DeliverFunc(lasting{w.host}.deliver)
		s := w.start(cfg)
		w.set(s, "slow", true, once(time.Second))
		w.set(s, "other", true, func(sp *actor.ReminderSpec) { sp.Key.App, sp.Schedule.After = "other", time.Hour })
		after(5 * time.Second)
		ctx, cancel := context.WithTimeout(w.Context(), 4*pollEvery)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		w.store.mu.Lock()
		if len(w.store.buckets) != 2 {
			t.Errorf("there are %d buckets", len(w.store.buckets))
		}
		for _, b := range w.store.buckets {
			if b.Owner != "" {
				t.Errorf("it has stopped, and owns %+v", b)
			}
		}
		w.store.mu.Unlock()
		after(time.Minute) // the turn ends as well
	})
}

// A firing that waits for others of its actor is not delivered when the database's clock was
// set back meanwhile, before its time by that clock.
func TestClockSetBackWhileAFiringWaits(t *testing.T) {
	inBubble(t, func(w *world) {
		w.host.turn = func(f actor.Firing) error {
			if f.Name == "slow" {
				<-time.After(30 * time.Second)
			}
			return nil
		}
		cfg := w.config()
		cfg.MaxOfActor = 1
		s := w.start(cfg)
		for i, name := range []string{"slow", "other"} {
			w.set(s, name, true, func(sp *actor.ReminderSpec) { sp.Key.ID, sp.Schedule.After = "it", time.Duration(i+1)*time.Second })
		}
		after(5 * time.Second)
		w.store.mu.Lock()
		w.store.ahead = -10 * time.Minute
		w.store.mu.Unlock()
		after(5 * time.Minute)
		if got := w.host.list(); len(got) != 1 || got[0].name != "slow" {
			t.Errorf("before their time by the database, %+v have fired", got)
		}
		after(6 * time.Minute)
		if got := w.host.list(); len(got) != 2 {
			t.Errorf("%+v have fired", got)
		}
	})
}

// lasting delivers, and goes on with a turn of which nobody waits for the end any more.
type lasting struct{ *host }

func (l lasting) deliver(ctx context.Context, f actor.Firing) error {
	ended := make(chan error, 1)
	go func() { ended <- l.host.deliver(context.WithoutCancel(ctx), f) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
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
		m.expire(true)
		after(time.Minute)
		if got := w.host.list(); len(got) != 0 {
			t.Errorf("delivered: %+v", got)
		}
		m.expire(false)
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
		m := &members{self: "one", live: []actor.HostID{"one", "two"}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		w.start(cfg)
		synctest.Wait() // no look is under way, which would give it to another
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
		after(time.Second)
		m.set("one")
		after(pollEvery)    // a look sees that it is gone
		m.set("two", "one") // it is there, and leads
		after(time.Minute - pollEvery)
		m.set("one")
		w.store.mu.Lock()
		w.store.ahead = time.Hour
		w.store.mu.Unlock()
		after(pollEvery)
		if got := owner(); got != "two" {
			t.Errorf("the bucket is %q's at the first look since its owner was lost", got)
		}
		after(pollEvery)
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

// A reminder that was being read when its bucket was given to another process is that one's:
// it is not delivered here.
func TestBucketGoesWhileItsRemindersAreRead(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		cfg := w.config()
		cfg.Host, cfg.Members = "", &members{self: "one", live: []actor.HostID{"one", "two"}}
		s := w.start(cfg)
		b := w.set(s, "a", true, once(5*time.Second)).ID.Bucket()
		reading, goOn := make(chan struct{}), make(chan struct{})
		var first sync.Once
		w.store.fails(func(op string) error {
			if op == "load" {
				first.Do(func() {
					close(reading)
					<-goOn
				})
			}
			return nil
		})
		<-reading
		owned := w.store.bucket(b)
		if _, done, err := w.store.AssignBucket(w.Context(), b, owned.Epoch, "two"); !done || err != nil {
			t.Fatal(done, err)
		}
		after(2 * pollEvery) // it has seen that
		close(goOn)
		after(time.Minute)
		if got := w.host.list(); len(got) != 0 {
			t.Errorf("another process has the bucket, and this one fires %+v", got)
		}
	})
}

// Who has a row among the processes, and no session with the leader, is given no buckets, and
// the others share them as if it were not there.
func TestNoBucketsForStrangers(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		m := &members{self: "one", live: []actor.HostID{"one", "stranger"}, stranger: "stranger"}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		s := w.start(cfg)
		for i := range 4 {
			w.set(s, fmt.Sprint(i), true, func(sp *actor.ReminderSpec) { sp.Key.App, sp.Schedule.After = fmt.Sprint("app", i), time.Hour })
		}
		synctest.Wait() // no look is under way, which would give it to another
		row, err := w.store.AllocateBucket(w.Context(), "other", "stranger", randomVector())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.store.AssignBucket(w.Context(), row.Bucket, row.Epoch, "stranger"); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		owned := map[actor.HostID]int{}
		w.store.mu.Lock()
		for _, b := range w.store.buckets {
			owned[b.Owner]++
		}
		w.store.mu.Unlock()
		if owned["one"] != 4 || owned["stranger"] != 1 {
			t.Errorf("%v", owned)
		}
	})
}
