package inhost

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/usage"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/store"
)

// The names of the roles with reminders.
const (
	// SteadyRole measures calls at a steady rate, part by part.
	SteadyRole = "in-host-steady"
	// FireRole has reminders fire.
	FireRole = "in-host-fire"
)

// SteadySpec is a plan that is measured several times, one after the other.
type SteadySpec struct {
	Spec
	Parts int
}

// Steady plays [SteadyRole]. The parts after the first have no warmup.
func Steady(ctx context.Context, s SteadySpec) (parts []load.Result, err error) {
	s.during(ctx, func(h *host.Host, r *reminderParts) {
		r.begin(ctx)
		spec := s.Spec
		for range s.Parts {
			parts = append(parts, spec.drive(ctx, h))
			spec.Plan.Warmup = 0
		}
	})
	return parts, nil
}

// FireSpec says which reminders fire, all of them the spec's method: first Burst that are
// due at one moment, and then, for Steady, as many in a second as Share of those that fired
// in a second of the burst.
type FireSpec struct {
	Spec
	Burst  int
	Share  float64
	Steady time.Duration
}

// FireResult is what was measured of them.
type FireResult struct {
	// Turns are calls of the same method by [host.Host.Begin], by the spec's plan; none
	// if that has no duration.
	Turns load.Result
	// Fired are the firings of the burst without the first and the last tenth. A latency
	// is that of a delivery.
	Fired load.Result
	// Rate is that of the steady ones, in a second; Began and Committed say how long
	// after their times these began, and were committed.
	Rate             float64
	Began, Committed Lateness
	// Early is how many of all began before their time.
	Early int
}

// Lateness is by how much firings were late.
type Lateness struct{ P50, P99, Max time.Duration }

// Fire plays [FireRole].
func Fire(ctx context.Context, s FireSpec) (res FireResult, err error) {
	s.Reminders = true
	s.during(ctx, func(h *host.Host, r *reminderParts) {
		if s.Plan.Duration > 0 {
			// What is observed are the firings.
			res.Turns = s.drive(load.Observed(ctx, func() (end func()) { return func() {} }), h)
		}
		began := time.Now()
		burst := s.fire(ctx, r, s.Burst, func(int) time.Time { return began })
		res.Fired, res.Early = burst.middle(), burst.early()
		if s.Steady == 0 {
			return
		}
		res.Rate = res.Fired.Rate() * s.Share
		n := int(res.Rate * s.Steady.Seconds())
		// The first is due some time after all are set, and after the service has started.
		first := time.Now().Add(time.Duration(float64(burst.setting)*float64(n)/float64(s.Burst)*2) + settle)
		steady := s.fire(ctx, r, n, func(i int) time.Time {
			return first.Add(time.Duration(float64(i) / res.Rate * float64(time.Second)))
		})
		if steady.set.After(first) {
			must.Check(fmt.Errorf("%d reminders were set only %v after the first was due", n, steady.set.Sub(first)))
		}
		res.Began = steady.late(func(f fired) time.Time { return f.began })
		res.Committed = steady.late(func(f fired) time.Time { return f.ended })
		res.Early += steady.early()
	})
	return res, nil
}

// settle is for what is left to do when reminders have been set: flushes, a first look at
// the store.
const settle = 5 * time.Second

// fired is a firing whose turn was committed.
type fired struct{ due, began, ended time.Time }

// firings are those of one call of fire.
type firings struct {
	list    []fired       // in the order of their ends
	setting time.Duration // how long it took to set the reminders
	set     time.Time     // when that was done
	// cpu is what was used between the first tenth of them and the last one.
	cpu map[string]time.Duration
}

// fire sets n reminders, starts to deliver, and waits until each has fired once.
func (s FireSpec) fire(ctx context.Context, r *reminderParts, n int, due func(i int) time.Time) (res firings) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	w := Writer{Store: r.store, Type: "Counter", Method: s.Method, Payload: s.Payload, Actors: s.Plan.Actors}
	w.Write(ctx, n, due)
	res.set = time.Now()
	res.setting = res.set.Sub(began)
	r.renew(0)
	var mu sync.Mutex
	var before map[string]time.Duration
	all := make(chan struct{})
	r.delivered = func(f actor.Firing, began time.Time, err error) {
		ended := time.Now()
		if err != nil {
			cancel(fmt.Errorf("a firing of %s: %w", f.Key, err))
			return
		}
		mu.Lock()
		defer mu.Unlock()
		switch res.list = append(res.list, fired{f.Due, began, ended}); len(res.list) {
		case n/10 + 1:
			before = s.used()
		case n - n/10:
			res.cpu = s.used()
			for name := range res.cpu {
				res.cpu[name] -= before[name]
			}
		}
		if len(res.list) == n {
			close(all)
		}
	}
	defer load.Observe(ctx)()
	must.Check(r.Start(ctx))
	defer must.Close(func() error { return r.Stop(context.WithoutCancel(ctx)) })
	select {
	case <-all:
	case <-ctx.Done():
		must.Check(context.Cause(ctx))
	}
	return res
}

// used is the processor time of this process and of those that the plan watches.
func (s FireSpec) used() map[string]time.Duration {
	used := map[string]time.Duration{load.Self: usage.Self()}
	for name, pid := range s.Plan.Watch {
		used[name] = usage.Tree(pid)
	}
	return used
}

// middle is what was measured between the first tenth and the last.
func (f *firings) middle() load.Result {
	n := len(f.list)
	part := f.list[n/10 : n-n/10]
	took := make([]time.Duration, len(part))
	for i, x := range part {
		took[i] = x.ended.Sub(x.began)
	}
	return load.Result{
		Calls: int64(len(part) - 1), Seconds: part[len(part)-1].ended.Sub(part[0].ended).Seconds(),
		P50: load.Quantile(took, 0.5), P99: load.Quantile(took, 0.99), CPU: f.cpu,
	}
}

func (f *firings) early() (n int) {
	for _, x := range f.list {
		if x.began.Before(x.due) {
			n++
		}
	}
	return n
}

func (f *firings) late(at func(fired) time.Time) Lateness {
	late := make([]time.Duration, len(f.list))
	for i, x := range f.list {
		late[i] = at(x).Sub(x.due)
	}
	return Lateness{P50: load.Quantile(late, 0.5), P99: load.Quantile(late, 0.99), Max: load.Quantile(late, 1)}
}

// Writer writes reminders that fire once into a store, from buckets that nobody owns, as
// those of a process that has ended are.
type Writer struct {
	Store                 store.Store
	Type, Method, Payload string
	Actors                int // the reminders are spread over so many
}

const (
	// setGroup is how many reminders are set by one commit, and setCommits how many
	// commits are given to the store at once.
	setGroup   = 500
	setCommits = 4
)

// Write writes n of them.
func (w Writer) Write(ctx context.Context, n int, due func(i int) time.Time) {
	planner, now := reminder.NewPlanner(), time.Now()
	var bucket actor.Bucket
	var commits []actor.Commit
	run := strconv.FormatInt(now.UnixNano(), 36)
	for i := range n {
		if i%actor.BucketSize == 0 {
			bucket = w.bucket(ctx)
		}
		made := must.Get(planner.Prepare(actor.ReminderSpec{
			Key:  actor.Key{App: actor.DefaultApp, Type: w.Type, ID: "c" + strconv.Itoa(i%w.Actors)},
			Name: run + "-" + strconv.Itoa(i), Method: w.Method, Payload: actor.Payload{Data: []byte(w.Payload)}, Schedule: actor.Schedule{At: due(i)},
		}, bucket.Token(uint32(i%actor.BucketSize)), now))
		if i%setGroup == 0 {
			commits = append(commits, actor.CommitOf())
		}
		e := &commits[len(commits)-1].Reminders
		e.Set = append(e.Set, made)
		if len(commits) == setCommits && len(e.Set) == setGroup || i == n-1 {
			must.Check(errors.Join(w.Store.Commit(ctx, commits)...))
			commits = nil
		}
	}
}

// bucket allocates a bucket that is closed at once.
func (w Writer) bucket(ctx context.Context) actor.Bucket {
	row := must.Get(w.Store.AllocateBucket(ctx, actor.DefaultApp, "bench", actor.Vector([]byte("benchmrk"))))
	must.Check(w.Store.CloseBucket(ctx, row.Bucket))
	return row.Bucket
}
