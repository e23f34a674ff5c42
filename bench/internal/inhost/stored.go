package inhost

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/usage"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/store"
)

// The names of the roles with very many reminders that are stored.
const (
	// StoreRole stores reminders, or makes the buckets for them.
	StoreRole = "in-host-store"
	// WindowRole reads a window of what is stored, and watches its own memory.
	WindowRole = "in-host-window"
	// TakeOverRole takes buckets over that are full of reminders.
	TakeOverRole = "in-host-take-over"
)

// StoreSpec says which reminders to store, the first due at First, the others spread over
// Span from then on; of those of so many as Overdue one is due long before, unless it is 0.
type StoreSpec struct {
	Spec
	Count   int
	First   time.Time
	Span    time.Duration
	Overdue int
}

// Overdue is how long before the first the overdue ones were due.
const Overdue = time.Hour

// due is when the i-th is due. Neighbours in a bucket are not due one after the other.
func (s StoreSpec) due(i int) time.Time {
	if s.Overdue > 0 && i%s.Overdue == 0 {
		return s.First.Add(-Overdue)
	}
	return s.First.Add(time.Duration(float64(s.Span) * float64(uint64(i)*2654435761%(1<<32)) / (1 << 32)))
}

// Store plays [StoreRole]. On the embedded store it writes the reminders; in a database it
// allocates the buckets alone, and others write into them.
func Store(ctx context.Context, s StoreSpec) (buckets []actor.Bucket, err error) {
	st := s.open(ctx)
	defer must.Close(st.Close)
	w := Writer{Store: st, Type: "Counter", Method: s.Method, Payload: s.Payload, Actors: s.Plan.Actors}
	if s.StoreURL == "" {
		w.Write(ctx, s.Count, s.due)
		return nil, nil
	}
	for n := 0; n < s.Count; n += actor.BucketSize {
		buckets = append(buckets, w.bucket(ctx))
	}
	return buckets, nil
}

// WindowSpec says how far to read ahead.
type WindowSpec struct {
	Spec
	Window time.Duration
	// Expect is how many reminders are in it, about.
	Expect int
}

// WindowResult is what the process came to.
type WindowResult struct {
	InMemory, Buckets int
	// Bare is what was resident before reminders started, and Resident the most from then
	// on, in bytes.
	Bare, Resident int64
	Took           time.Duration // until the window was read
}

// windowSettle is for how long the memory is watched once the window was read: some looks
// at the store.
const windowSettle = 10 * time.Second

// Window plays [WindowRole].
func Window(ctx context.Context, s WindowSpec) (res WindowResult, err error) {
	s.Reminders = true
	s.during(ctx, func(_ *host.Host, r *reminderParts) {
		r.renew(s.Window)
		res.Bare = usage.Resident(os.Getpid())
		began := time.Now()
		must.Check(r.Start(ctx))
		var until time.Time
		for {
			must.Check(load.Pause(ctx, 20*time.Millisecond))
			stats := r.Stats()
			res.InMemory, res.Buckets = max(res.InMemory, stats.InMemory), max(res.Buckets, stats.Buckets)
			res.Resident = max(res.Resident, usage.Resident(os.Getpid()))
			switch now := time.Now(); {
			case until.IsZero() && res.InMemory >= s.Expect*95/100:
				res.Took, until = now.Sub(began), now.Add(windowSettle)
			case until.IsZero() && now.Sub(began) > windowTimeout:
				must.Check(fmt.Errorf("%d reminders were in memory after %v, and %d are in the window", res.InMemory, windowTimeout, s.Expect))
			case !until.IsZero() && now.After(until):
				return
			}
		}
	})
	return res, nil
}

const windowTimeout = 2 * time.Minute

// TakeOverSpec says how many of what is stored are due.
type TakeOverSpec struct {
	Spec
	Window time.Duration
	Due    int
}

// TakeOverResult is how long after the first bucket was assigned the first of those that
// are due was committed, and the last.
type TakeOverResult struct {
	First, Last       time.Duration
	Buckets, InMemory int
	Assigned          time.Duration // from the first bucket to the last
}

// TakeOver plays [TakeOverRole].
func TakeOver(ctx context.Context, s TakeOverSpec) (res TakeOverResult, err error) {
	s.Reminders = true
	s.during(ctx, func(_ *host.Host, r *reminderParts) {
		watch := &assignments{Store: r.store}
		r.store = watch
		r.renew(s.Window)
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var n atomic.Int64
		var first, last time.Time
		all := make(chan struct{})
		taken := time.Now()
		r.delivered = func(f actor.Firing, _ time.Time, err error) {
			if err != nil {
				cancel(fmt.Errorf("a firing of %s: %w", f.Key, err))
				return
			}
			if f.Due.After(taken) {
				return
			}
			switch n.Add(1) {
			case 1:
				first = time.Now()
			case int64(s.Due):
				last = time.Now()
				close(all)
			}
		}
		must.Check(r.Start(ctx))
		select {
		case <-all:
		case <-ctx.Done():
			must.Check(context.Cause(ctx))
		case <-time.After(windowTimeout):
			must.Check(fmt.Errorf("%d of %d reminders that are due had fired after %v", n.Load(), s.Due, windowTimeout))
		}
		stats := r.Stats()
		from, to, buckets := watch.times()
		res = TakeOverResult{First: first.Sub(from), Last: last.Sub(from), Buckets: buckets, InMemory: stats.InMemory, Assigned: to.Sub(from)}
	})
	return res, nil
}

// assignments notes when buckets are assigned.
type assignments struct {
	store.Store

	mu          sync.Mutex
	first, last time.Time
	n           int
}

// AssignBucket implements [store.Reminders].
func (a *assignments) AssignBucket(ctx context.Context, b actor.Bucket, epoch uint64, owner actor.HostID) (actor.BucketRow, bool, error) {
	row, done, err := a.Store.AssignBucket(ctx, b, epoch, owner)
	a.mu.Lock()
	defer a.mu.Unlock()
	if done && owner != "" {
		if a.last = time.Now(); a.n == 0 {
			a.first = a.last
		}
		a.n++
	}
	return row, done, err
}

func (a *assignments) times() (first, last time.Time, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first, a.last, a.n
}

var _ reminder.Store = (*assignments)(nil)
