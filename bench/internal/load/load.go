// Package load drives calls in a closed loop, a fixed number of them
// outstanding, and measures them: rate, latency, processor time. It knows
// nothing of what it calls.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

func observe(ctx context.Context) (end func()) {
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
	// Watch are other processes, by name, whose use is measured with their
	// descendants'.
	Watch map[string]int
}

// Call makes one call on the actor of that number. n counts the calls of the
// worker, so that worker and n together name the call.
type Call func(ctx context.Context, worker, actor, n int) error

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
	if p.Outstanding < 1 || p.Actors < 1 {
		return Result{}, fmt.Errorf("a plan of %d calls on %d actors; give one at least of both", p.Outstanding, p.Actors)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := &driver{plan: p, call: call, workers: make([]worker, p.Outstanding)}

	before := d.snap() // every call of Once comes after it
	var wg sync.WaitGroup
	for i := range d.workers {
		wg.Go(func() {
			if err := d.work(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	var after snapshot
	if p.Once {
		wg.Wait()
		after = d.snap()
	} else {
		wait(ctx, p.Warmup)
		d.measuring.Store(true)
		end := observe(ctx)
		before = d.snap()
		wait(ctx, p.Duration)
		after = d.snap()
		end()
		d.done.Store(true)
		wg.Wait()
	}
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	return d.result(before, after), nil
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// driver is one run of a plan.
type driver struct {
	plan      Plan
	call      Call
	workers   []worker
	next      atomic.Int64 // of Once
	measuring atomic.Bool
	done      atomic.Bool
}

// worker has one call outstanding. The padding keeps the counters of two
// workers out of one cache line.
type worker struct {
	calls   atomic.Int64
	latency *histogram
	_       [48]byte
}

func (d *driver) work(ctx context.Context, i int) error {
	w := &d.workers[i]
	w.latency = new(histogram)
	random := rand.New(rand.NewPCG(uint64(i), 1))
	for n := 0; ctx.Err() == nil && !d.done.Load(); n++ {
		target := random.IntN(d.plan.Actors)
		if d.plan.Once {
			if target = int(d.next.Add(1) - 1); target >= d.plan.Actors {
				return nil
			}
		}
		began := time.Now()
		if err := d.call(ctx, i, d.plan.First+target, n); err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil
			}
			return fmt.Errorf("call of actor %d: %w", target, err)
		}
		w.calls.Add(1)
		if d.plan.Once || d.measuring.Load() {
			w.latency.add(time.Since(began))
		}
	}
	return nil
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
	var all histogram
	for i := range d.workers {
		if h := d.workers[i].latency; h != nil {
			all.merge(h)
		}
	}
	r := Result{
		Calls: after.calls - before.calls, Seconds: after.at.Sub(before.at).Seconds(),
		P50: all.quantile(0.50), P99: all.quantile(0.99),
		CPU: make(map[string]time.Duration, len(after.cpu)),
	}
	for name, used := range after.cpu {
		r.CPU[name] = used - before.cpu[name]
	}
	return r
}
