package inhost

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/usage"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/server/spans"
)

// TracesRole runs turns without a pause, and changes the way in which their traces are recorded.
const TracesRole = "in-host-traces"

// TracesSpec says how to load the host. The plan's Duration is how long each way is measured, all its
// slices together.
type TracesSpec struct {
	Spec
	Collector string // URL to which the spans of sampled turns go
}

// TracesUse is the processor time that the process has used for a turn.
type TracesUse struct {
	None    time.Duration // calls have no trace, and no recorder is asked
	Off     time.Duration // a recorder decides for each call that it is not sampled
	Sampled time.Duration // one call of a hundred is sampled, and its spans are exported
}

const (
	// slice is how long one way is measured before the next one: less than what a flush or a
	// compaction of the store takes, so that these meet all ways alike.
	slice = 200 * time.Millisecond
	// pause passes before a slice is measured: calls end that were begun in the one before, and their
	// spans are exported.
	pause = 75 * time.Millisecond
	// exportEvery is how long spans wait, in milliseconds.
	exportEvery = "50"
)

// orders are those of the ways in a round. In the rounds, each way follows each other one equally often.
var orders = [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2}}

// Traces plays [TracesRole].
func Traces(ctx context.Context, s TracesSpec) (use TracesUse, err error) {
	recorders := []*spans.Recorder{nil, s.recorder(ctx, "always_off", ""), s.recorder(ctx, "parentbased_traceidratio", "0.01")}
	for _, r := range recorders {
		defer must.Close(func() error { return r.Stop(ctx) })
	}
	// Recorders differ in what they sample, and observe turns alike.
	s.observers = []host.Events{metrics.New().HostEvents(), recorders[2].Observer()}
	var totals [3]struct {
		calls int64
		used  time.Duration
	}
	s.during(ctx, func(h *host.Host, _ *reminderParts) {
		var of atomic.Pointer[spans.Recorder]
		var ended atomic.Int64
		rounds := max(len(orders), int(s.Plan.Duration/slice))
		plan := s.Plan
		plan.Duration = time.Duration(rounds*len(totals)) * (slice + pause)
		driven := make(chan error, 1)
		go func() {
			_, err := load.DriveBegun(ctx, plan, s.beginTraced(h, &of, &ended))
			driven <- err
		}()
		must.Check(load.Pause(ctx, plan.Warmup))
		for n := range rounds {
			for _, way := range orders[n%len(orders)] {
				of.Store(recorders[way])
				must.Check(load.Pause(ctx, pause))
				calls, used := ended.Load(), usage.Self()
				must.Check(load.Pause(ctx, slice))
				totals[way].calls += ended.Load() - calls
				totals[way].used += usage.Self() - used
			}
		}
		must.Check(<-driven)
	})
	for way, to := range []*time.Duration{&use.None, &use.Off, &use.Sampled} {
		if totals[way].calls == 0 {
			return use, fmt.Errorf("no turn has ended in %v", s.Plan.Duration)
		}
		*to = totals[way].used / time.Duration(totals[way].calls)
	}
	return use, nil
}

// recorder returns the recorder that a server makes of these variables.
func (s TracesSpec) recorder(ctx context.Context, sampler, ratio string) *spans.Recorder {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": s.Collector, "OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": ratio, "OTEL_BSP_SCHEDULE_DELAY": exportEvery,
	} {
		must.Check(os.Setenv(name, value))
	}
	r := must.Get(spans.FromEnvironment(ctx, "bench", quiet))
	if r == nil {
		must.Check(fmt.Errorf("no spans are exported to %q", s.Collector))
	}
	return r
}

// beginTraced is begin for calls that get their traces from the recorder in of, as calls that come to a
// server do; without a recorder they have none. It counts the calls that have ended.
func (s TracesSpec) beginTraced(h *host.Host, of *atomic.Pointer[spans.Recorder], ended *atomic.Int64) load.Begin {
	invocation := s.invocations()
	return func(ctx context.Context, worker, target, n int, done func(error)) {
		inv := invocation(worker, target, n)
		r := of.Load()
		if r != nil {
			inv.Trace = r.Arrived(nil)
		}
		if !inv.Trace.IsSampled() {
			h.Begin(ctx, inv, receiver(func(err error) {
				ended.Add(1)
				done(err)
			}))
			return
		}
		began := time.Now()
		h.Begin(ctx, inv, receiver(func(err error) {
			r.Record(spans.Span{Trace: inv.Trace, Name: "invoke " + inv.Key.Type + "." + inv.Method, Began: began, Ended: time.Now()})
			ended.Add(1)
			done(err)
		}))
	}
}
