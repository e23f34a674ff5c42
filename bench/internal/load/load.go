// Package load drives calls and measures them: rate, latency, processor time. It
// does so in a closed loop, a fixed number of calls outstanding, or in an open one,
// a fixed number of calls due in a second. It knows nothing of what it calls.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/usage"
)

// observerKey is the key of a context's observer.
type observerKey struct{}

// Observed returns a context under which [Drive] calls begin where the measured
// part of a plan begins, and what that returns where it ends.
func Observed(ctx context.Context, begin func() (end func())) context.Context {
	return context.WithValue(ctx, observerKey{}, begin)
}

// Observe calls what observes a measured part that begins, and returns what ends it.
func Observe(ctx context.Context) (end func()) {
	if begin, ok := ctx.Value(observerKey{}).(func() func()); ok {
		return begin()
	}
	return func() {}
}

// Plan says how to load something.
type Plan struct {
	// Outstanding is how many calls are under way at any time.
	Outstanding int
	// Actors is how many actors the calls go to, chosen evenly at random, First
	// the number of the first of them.
	Actors, First int
	// Warmup runs before anything is measured, Duration is what is measured.
	Warmup, Duration time.Duration
	// Once calls every actor once, in order, instead of for Duration.
	Once bool
	// Rate is how many calls are due in a second, evenly spaced and whatever
	// their outcomes: each is made by the first of Outstanding callers who is
	// free, and its latency counts from when it was due if none was. 0: each
	// caller calls again at once.
	Rate float64
	// Watch are other processes, by name, whose use is measured with their
	// descendants'.
	Watch map[string]int
}

// Call makes one call on the actor of that number. n counts the calls of the
// worker, so that worker and n together name the call.
type Call func(ctx context.Context, worker, actor, n int) error

// Begin begins a call as [Call] makes one, and has done called once when it has
// ended: on any goroutine, and perhaps before Begin returns.
type Begin func(ctx context.Context, worker, actor, n int, done func(error))

// Result is what one run measured. Rates and processor times are those of the
// measured part alone.
type Result struct {
	Calls   int64         `json:"calls"`
	Seconds float64       `json:"seconds"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	// CPU is the processor time of each process, "self" being the one that
	// makes the calls.
	CPU map[string]time.Duration `json:"cpu_ns"`
}

// Self is the key in [Result.CPU] of the process that makes the calls.
const Self = "self"

// Rate returns calls per second.
func (r Result) Rate() float64 { return float64(r.Calls) / r.Seconds }

// CPUPerCall returns the processor time that all processes used for a call.
func (r Result) CPUPerCall() time.Duration {
	if r.Calls == 0 {
		return 0
	}
	var sum time.Duration
	for _, d := range r.CPU {
		sum += d
	}
	return sum / time.Duration(r.Calls)
}

// Drive runs a plan. The first call that fails ends it with that error: a
// figure that contains refused calls says nothing.
func Drive(ctx context.Context, p Plan, call Call) (Result, error) {
	return drive(ctx, p, func(ctx context.Context, d *driver, fail func(error)) (wait func()) {
		var wg sync.WaitGroup
		for i := range d.workers {
			wg.Go(func() {
				if err := d.work(ctx, i, call); err != nil {
					fail(err)
				}
			})
		}
		return wg.Wait
	})
}

// DriveBegun is [Drive] for calls that nobody waits for: as many goroutines begin
// them as there are processors, instead of one for each call outstanding.
func DriveBegun(ctx context.Context, p Plan, begin Begin) (Result, error) {
	return drive(ctx, p, func(ctx context.Context, d *driver, fail func(error)) (wait func()) {
		free := make(chan int, len(d.workers)) // workers without a call
		for i := range d.workers {
			free <- i
		}
		var wg sync.WaitGroup
		var ended atomic.Int64
		for range runtime.GOMAXPROCS(0) {
			wg.Go(func() {
				for i := range free {
					if d.begin(ctx, i, begin, free, fail) {
						continue
					}
					if ended.Add(1) == int64(len(d.workers)) {
						close(free)
					}
				}
			})
		}
		return wg.Wait
	})
}

// drive runs a plan with workers that start begins, and whose last one wait
// awaits.
func drive(ctx context.Context, p Plan, start func(ctx context.Context, d *driver, fail func(error)) (wait func())) (Result, error) {
	if p.Once && p.Rate > 0 {
		return Result{}, errors.New("a plan of every actor once has no rate; leave out one of both")
	}
	if p.Outstanding < 1 || p.Actors < 1 {
		return Result{}, fmt.Errorf("a plan of %d calls on %d actors; give one at least of both", p.Outstanding, p.Actors)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := &driver{plan: p, workers: make([]worker, p.Outstanding), started: time.Now()}
	for i := range d.workers {
		d.workers[i].random = rand.New(rand.NewPCG(uint64(i), 1))
	}

	before := d.snap() // every call of Once comes after it
	await := start(ctx, d, func(err error) { cancel(err) })
	var after snapshot
	if p.Once {
		await()
		after = d.snap()
	} else {
		_ = Pause(ctx, p.Warmup) // its end is that of the run
		d.measuring.Store(true)
		end := Observe(ctx)
		before = d.snap()
		_ = Pause(ctx, p.Duration)
		after = d.snap()
		end()
		d.done.Store(true)
		await()
	}
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	return d.result(before, after), nil
}

// Pause waits, or returns why ctx has ended.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Quantile returns the duration below which the share q of durations lies, which it sorts; 0
// if there are none.
func Quantile(of []time.Duration, q float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[int(q*float64(len(of)-1))]
}

// driver is one run of a plan.
type driver struct {
	plan      Plan
	workers   []worker
	called    atomic.Int64 // of Once, or of Rate
	started   time.Time
	measuring atomic.Bool
	done      atomic.Bool
}

// worker has one call outstanding. It is larger than a cache line, so that the counters of two
// workers share none.
type worker struct {
	calls   atomic.Int64
	latency []time.Duration
	random  *rand.Rand
	n       int // calls begun
	began   time.Time
}

// next says which actor the worker calls, false if it is to end.
func (d *driver) next(ctx context.Context, w *worker) (target int, ok bool) {
	if ctx.Err() != nil || d.done.Load() {
		return 0, false
	}
	target = w.random.IntN(d.plan.Actors)
	if d.plan.Once {
		target = int(d.called.Add(1) - 1)
	}
	w.n++
	w.began = d.due(ctx)
	return target, target < d.plan.Actors
}

// due waits until the next call is due and returns when its latency begins. A
// caller who had to wait begins when it wakes up, as how late a timer fires says
// nothing about the server; one who comes too late has been late since the call was
// due.
func (d *driver) due(ctx context.Context) time.Time {
	if d.plan.Rate == 0 {
		return time.Now()
	}
	n := d.called.Add(1) - 1
	due := d.started.Add(time.Duration(float64(n) / d.plan.Rate * float64(time.Second)))
	if early := time.Until(due); early > 0 {
		_ = Pause(ctx, early)
		return time.Now()
	}
	return due
}

// end notes the outcome of a worker's call. An error that is not the end of the
// run ends it.
func (d *driver) end(ctx context.Context, w *worker, target int, err error) error {
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		return fmt.Errorf("call of actor %d: %w", target, err)
	}
	w.calls.Add(1)
	if d.plan.Once || d.measuring.Load() {
		w.latency = append(w.latency, time.Since(w.began))
	}
	return nil
}

func (d *driver) work(ctx context.Context, i int, call Call) error {
	w := &d.workers[i]
	for {
		target, ok := d.next(ctx, w)
		if !ok {
			return nil
		}
		if err := d.end(ctx, w, target, call(ctx, i, d.plan.First+target, w.n-1)); err != nil {
			return err
		}
	}
}

// begin begins a worker's next call, after which it is free again, and reports
// false if it is to end.
func (d *driver) begin(ctx context.Context, i int, begin Begin, free chan<- int, fail func(error)) bool {
	w := &d.workers[i]
	target, ok := d.next(ctx, w)
	if !ok {
		return false
	}
	begin(ctx, i, d.plan.First+target, w.n-1, func(err error) {
		if err := d.end(ctx, w, target, err); err != nil {
			fail(err)
		}
		free <- i
	})
	return true
}

// snapshot is what had been done and used at one moment.
type snapshot struct {
	at    time.Time
	calls int64
	cpu   map[string]time.Duration
}

func (d *driver) snap() snapshot {
	s := snapshot{at: time.Now(), cpu: map[string]time.Duration{Self: usage.Self()}}
	for name, pid := range d.plan.Watch {
		s.cpu[name] = usage.Tree(pid)
	}
	for i := range d.workers {
		s.calls += d.workers[i].calls.Load()
	}
	return s
}

func (d *driver) result(before, after snapshot) Result {
	var all []time.Duration
	for i := range d.workers {
		all = append(all, d.workers[i].latency...)
	}
	r := Result{
		Calls: after.calls - before.calls, Seconds: after.at.Sub(before.at).Seconds(),
		P50: Quantile(all, 0.50), P99: Quantile(all, 0.99),
		CPU: make(map[string]time.Duration, len(after.cpu)),
	}
	for name, used := range after.cpu {
		r.CPU[name] = used - before.cpu[name]
	}
	return r
}
