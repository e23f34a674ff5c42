package reminder

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// counting is a store whose index by time keeps what is deleted, and which counts what a
// look at what is due reads of it.
type counting struct {
	*memory
	mu      sync.Mutex
	entries []store.ReminderHead // all that ever were in the index, in the order of time
	looks   int
	most    int // entries that one look has read
	all     int // entries that all have read
}

func newCounting(m *memory) *counting {
	c := &counting{memory: m}
	m.applied = func(_ *actor.Commit, ops []store.ReminderOp) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, op := range ops {
			switch {
			case op.Set != nil && !op.Set.Paused:
				c.add(op.Set.ID, op.Set.FireAt)
			case op.Then != nil && !op.Then.Paused:
				c.add(op.Step.ID, op.Then.FireAt)
			}
		}
	}
	return c
}

func (c *counting) add(id actor.ReminderID, at time.Time) {
	c.entries = append(c.entries, store.ReminderHead{ID: id, FireAt: at})
	for i := len(c.entries) - 1; i > 0 && c.entries[i].FireAt.Before(c.entries[i-1].FireAt); i-- {
		c.entries[i], c.entries[i-1] = c.entries[i-1], c.entries[i]
	}
}

func (c *counting) DueReminders(ctx context.Context, q store.DueQuery) ([]store.ReminderHead, error) {
	heads, err := c.memory.DueReminders(ctx, q)
	end, through := q.Before, false // it ends there, or with the last of a full page
	if len(heads) == q.Limit {
		end, through = heads[len(heads)-1].FireAt, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	read := 0
	for _, e := range c.entries {
		past := e.FireAt.Before(q.AfterTime) || q.AfterToken != nil && e.FireAt.Equal(q.AfterTime) && e.ID.Token <= *q.AfterToken
		if e.ID.Bucket() == q.Bucket && !past && (e.FireAt.Before(end) || through && e.FireAt.Equal(end)) {
			read++
		}
	}
	c.looks, c.most, c.all = c.looks+1, max(c.most, read), c.all+read
	return heads, err
}

// TestWaitingReminderMakesNoLookLonger has one reminder wait for a subscriber for hours,
// while another one of its bucket fires 10,000 times: what is deleted by that is crossed a
// few times, and never much of it at once. The one that waits holds back how far the bucket
// is said to be delivered, and only until it is executed.
func TestWaitingReminderMakesNoLookLonger(t *testing.T) {
	inBubble(t, func(w *world) {
		c := newCounting(w.store)
		cfg := w.config()
		cfg.Store = c
		s := w.start(cfg)
		waits := w.set(s, "waits", true, forSubscribers(once(time.Minute)))
		const firings, period = 10_000, 2 * time.Second
		w.set(s, "fires", true, every(period, firings))
		after(firings*period + time.Minute)
		if n := len(w.host.list()); n != firings {
			t.Fatalf("%d firings, want %d", n, firings)
		}
		delivered := func() time.Time { return w.store.buckets[waits.ID.Bucket()].DeliveredTill }
		if !delivered().Equal(waits.FireAt) {
			t.Errorf("delivered till %v, and %v waits", delivered(), waits.FireAt)
		}
		perSweep := int(readAtOnce/period) + 10
		if sweeps := int(firings * period / sweepEvery); c.most > perSweep || c.all > firings*20 || c.looks > 5*sweeps {
			t.Errorf("%d looks have read %d entries, one of them %d", c.looks, c.all, c.most)
		}

		// Once it is gone, what was behind it is crossed, in parts.
		sub := w.subscribe(s, 0, "jobs")
		after(3 * pollEvery)
		list, _ := take(sub)
		if len(list) != 1 {
			t.Fatalf("%d to be executed", len(list))
		}
		answer(t, sub, list[0].ID, nil)
		c.mu.Lock()
		c.all = 0
		c.mu.Unlock()
		after(2*sweepEvery + 2*pollEvery)
		if behind := time.Since(delivered()); behind > startMargin+s.cfg.ExecutionTimeout+2*sweepEvery {
			t.Errorf("delivered till %v ago, and nothing waits", behind)
		}
		if c.most > perSweep || c.all > 2*firings {
			t.Errorf("to find the next of what waits, %d entries were read, %d at once", c.all, c.most)
		}
	})
}

// TestStartReadsInParts has an owner begin with a bucket that says nothing of how far it is
// delivered, or that it was long ago, and of which much was delivered since.
func TestStartReadsInParts(t *testing.T) {
	for name, forget := range map[string]bool{"nothing is said": true, "it is long ago": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				c := newCounting(w.store)
				cfg := w.config()
				cfg.Store = c
				s := w.start(cfg)
				w.set(s, "waits", true, forSubscribers(once(5*time.Minute)))
				const period = 10 * time.Second
				last := w.set(s, "fires", true, every(period, 0))
				after(5 * time.Hour)
				if err := s.Stop(w.Context()); err != nil {
					t.Fatal(err)
				}
				row := w.store.buckets[last.ID.Bucket()]
				if row.DeliveredTill.IsZero() {
					t.Fatal("nothing was saved")
				}
				if forget {
					row.DeliveredTill = time.Time{}
					w.store.buckets[row.Bucket] = row
				}
				c.most = 0
				fired := len(w.host.list())
				cfg = w.config()
				cfg.Store = c
				s = w.start(cfg)
				after(time.Minute)
				if n := len(w.host.list()) - fired; n < 5 {
					t.Errorf("fired %d times in a minute", n)
				}
				if st := s.Stats(); st.WaitingForSubscribers != 1 {
					t.Errorf("%d wait for subscribers", st.WaitingForSubscribers)
				}
				if c.most > int(readAtOnce/period)+5 {
					t.Errorf("a look has read %d entries", c.most)
				}
			})
		})
	}
}

// TestTakeOverFindsALateCommit has a bucket get another owner that knows how far it is
// delivered, after a commit landed that was prepared before that time: no notice came of it,
// and the owner that would have found it is gone.
func TestTakeOverFindsALateCommit(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		what := actor.ReminderSpec{Key: actor.Key{App: "default", Type: "T", ID: "a"}, Name: "late", Method: "M", Schedule: actor.Schedule{After: 5 * time.Second}}
		after(10 * time.Minute)
		late, err := s.Prepare(w.Context(), what)
		if err != nil {
			t.Fatal(err)
		}
		bucket := late.ID.Bucket()
		for i := 0; !w.store.buckets[bucket].DeliveredTill.After(late.FireAt); i++ { // until it is said that all of then is delivered
			if i == 40 {
				t.Fatalf("delivered till %v, and it was to be for %v", w.store.buckets[bucket].DeliveredTill, late.FireAt)
			}
			w.set(s, fmt.Sprint("other", i), true, once(time.Second))
			after(15 * time.Second)
		}
		c := actor.CommitOf()
		c.Reminders.Set = []actor.Reminder{late}
		if err := w.store.commit(&c); err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(w.Context()); err != nil {
			t.Fatal(err)
		}
		if till := w.store.buckets[bucket].DeliveredTill; !till.After(late.FireAt) {
			t.Fatalf("delivered till %v: there is nothing to be missed", till)
		}
		w.start(w.config())
		after(2 * pollEvery) // before it sweeps
		if n := w.store.left(); n != 0 {
			t.Errorf("%d reminders are left", n)
		}
	})
}

// TestBucketsAtRestAreSmall: the owner of a bucket that was closed a minute ago keeps no set of the
// tokens that it saw of the bucket, nor makes one when it takes such a bucket over.
func TestBucketsAtRestAreSmall(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		r := w.set(s, "a", true, once(time.Hour))
		after(time.Minute)
		seen := func() *bitmap {
			s.pending.mu.Lock()
			defer s.pending.mu.Unlock()
			return s.pending.owned[r.ID.Bucket()].seen
		}
		if seen() == nil {
			t.Error("an open bucket does not know what was seen of it")
		}
		if err := w.store.CloseBucket(w.Context(), r.ID.Bucket()); err != nil {
			t.Fatal(err)
		}
		after(recentFor - pollEvery)
		if seen() == nil {
			t.Error("it was forgotten before the last that may come has come")
		}
		after(3 * pollEvery)
		if seen() != nil {
			t.Error("what was seen of a bucket that is closed is kept")
		}
		s.pending.mu.Lock()
		row := s.pending.owned[r.ID.Bucket()].row
		delete(s.pending.owned, row.Bucket)
		s.pending.adopt(row)
		again := s.pending.owned[row.Bucket].seen
		s.pending.mu.Unlock()
		if again != nil {
			t.Error("a bucket at rest that is taken over has room for what is seen of it")
		}
		after(time.Hour)
		if n := w.store.left(); n != 0 {
			t.Errorf("%d reminders of it are left", n)
		}
	})
}

// TestOpenBucketOfEachOfManyApps: 1,000 apps have one reminder each, so an open bucket each. What is
// known of a bucket with one token takes less than 1 KiB, and the reminders fire in time.
func TestOpenBucketOfEachOfManyApps(t *testing.T) {
	inBubble(t, func(w *world) {
		const apps, most = 1000, 1 << 10
		s := w.start(w.config())
		for i := range apps {
			app := fmt.Sprint("app", i)
			w.set(s, app, true, of(app, once(5*time.Minute)))
		}
		after(3 * time.Minute)
		s.pending.mu.Lock()
		owned, largest := len(s.pending.owned), uintptr(0)
		for _, b := range s.pending.owned {
			size := unsafe.Sizeof(*b.seen)
			for _, part := range b.seen {
				if part != nil {
					size += unsafe.Sizeof(*part)
				}
			}
			largest = max(largest, size)
		}
		s.pending.mu.Unlock()
		if owned < apps || largest > most {
			t.Errorf("%d buckets are owned, and the tokens seen of one take %d bytes", owned, largest)
		}
		after(3 * time.Minute)
		got := w.host.list()
		if len(got) != apps {
			t.Errorf("%d fired of %d", len(got), apps)
		}
		for _, c := range got {
			if late := c.at.Sub(c.due); late > time.Second {
				t.Fatalf("%s fired %v late", c.name, late)
			}
		}
	})
}

// TestNoticeWhileReadingInParts: a reminder that there is notice of while an earlier part is
// read is in memory once, and one that is due beyond the window is not.
func TestNoticeWhileReadingInParts(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		rs := []actor.Reminder{w.set(s, "soon", true, once(time.Minute)), w.set(s, "late", true, once(time.Hour))}
		bucket := rs[0].ID.Bucket()
		if err := s.Stop(w.Context()); err != nil {
			t.Fatal(err)
		}
		w.store.mu.Lock()
		row := w.store.buckets[bucket]
		row.DeliveredTill = time.Now().Add(-5 * time.Hour)
		w.store.buckets[bucket] = row
		w.store.mu.Unlock()
		next, err := New(w.config())
		if err != nil {
			t.Fatal(err)
		}
		var reads atomic.Int32
		w.store.fails(func(op string) error {
			if op == "due" {
				if reads.Add(1) == 2 {
					next.Committed(&actor.ReminderEffects{Set: rs})
				}
			}
			return nil
		})
		if err := next.Start(w.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = next.Stop(context.Background()) }()
		after(5 * time.Second)
		if n := next.Stats().InMemory; n != 1 || reads.Load() < 10 {
			t.Errorf("%d are in memory of 1 that is due within the window, after %d reads", n, reads.Load())
		}
		after(time.Hour)
		if n := len(w.host.list()); n != 2 || w.store.left() != 0 {
			t.Errorf("%d firings of 2, %d are left", n, w.store.left())
		}
	})
}

// Buckets that are closed and empty cost their owner a statement each when it takes them over, and
// one every other minute. What lands in one all the same fires.
func TestEmptyBucketsCostLittle(t *testing.T) {
	inBubble(t, func(w *world) {
		const buckets = 100
		for range buckets {
			row, err := w.store.AllocateBucket(t.Context(), "flood", "gone", anID.Vector)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.store.CloseBucket(t.Context(), row.Bucket); err != nil {
				t.Fatal(err)
			}
		}
		after(2 * recentFor)
		var asked atomic.Int64
		w.store.fails(func(op string) error {
			if op == "due" || op == "recent" {
				asked.Add(1)
			}
			return nil
		})
		w.start(w.config())
		after(sweepEvery / 2)
		if n := asked.Swap(0); n > buckets {
			t.Errorf("%d statements for %d buckets that were taken over", n, buckets)
		}
		after(20 * time.Minute)
		if n := asked.Load(); n > 12*buckets {
			t.Errorf("%d statements for %d buckets in 20 minutes", n, buckets)
		}
		var late actor.Bucket
		w.store.mu.Lock()
		for late = range w.store.buckets {
			break
		}
		w.store.mu.Unlock()
		c := actor.CommitOf()
		r, err := NewPlanner().Prepare(spec(actor.Schedule{}), late.Token(1), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		c.Reminders.Set = []actor.Reminder{r}
		if err := w.store.commit(&c); err != nil {
			t.Fatal(err)
		}
		after(longestIdle + sweepEvery)
		if got := w.host.list(); len(got) != 1 {
			t.Errorf("what landed late in an empty bucket: %+v", got)
		}
	})
}
