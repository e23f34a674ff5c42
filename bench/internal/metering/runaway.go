package metering

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	loading "github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/wasm"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

const (
	runawayRole = "runaways"
	// runawayLimit is the deadline of a guest that never ends, runawayRounds how
	// many of one kind run, one after the other.
	runawayLimit  = 50 * time.Millisecond
	runawayRounds = 40
	// neighbours make a call each every neighbourPeriod, which takes them
	// neighbourShare of it: half a core for all together.
	neighbours      = 4
	neighbourPeriod = 8 * time.Millisecond
	neighbourShare  = 0.5 / neighbours
)

// kinds are the guests that never end, in order.
var kinds = []string{"loop", "recursion", "host calls", "bulk copies"}

func endless(kind string) wasmtest.Guest {
	switch kind {
	case "loop":
		return wasmtest.Guest{Turn: wasmtest.Code(wasmtest.Forever(), wasmtest.I32Const(0))}
	case "recursion":
		// Fibonacci's numbers by the book, which is bounded in depth alone.
		const fib = 3
		return wasmtest.Guest{
			Turn: wasmtest.Code(wasmtest.I32Const(90), wasmtest.Call(fib), wasmtest.Drop, wasmtest.I32Const(0)),
			More: func(b *wasmtest.Builder) {
				b.Func("", []byte{wasmtest.I32}, []byte{wasmtest.I32}, 0, wasmtest.Code(
					wasmtest.LocalGet(0), wasmtest.I32Const(2), wasmtest.I32LtU,
					wasmtest.If(wasmtest.Code(wasmtest.LocalGet(0), wasmtest.Return)...),
					wasmtest.LocalGet(0), wasmtest.I32Const(1), wasmtest.I32Sub, wasmtest.Call(fib),
					wasmtest.LocalGet(0), wasmtest.I32Const(2), wasmtest.I32Sub, wasmtest.Call(fib), wasmtest.I32Add)...)
			},
		}
	case "host calls":
		return wasmtest.Guest{
			Imports: []wasmtest.Import{wasmtest.Host("state_revision", "", "l")},
			Turn:    wasmtest.Code(wasmtest.Loop(wasmtest.Code(wasmtest.Call(0), wasmtest.Drop, wasmtest.Again())...), wasmtest.I32Const(0)),
		}
	default:
		const half = 24 << 20
		memoryCopy := []byte{0xfc, 10, 0, 0}
		return wasmtest.Guest{Pages: 800, Turn: wasmtest.Code(wasmtest.Loop(wasmtest.Code(
			wasmtest.I32Const(0), wasmtest.I32Const(half), wasmtest.I32Const(half), memoryCopy, wasmtest.Again())...), wasmtest.I32Const(0))}
	}
}

func runawayChecks() []bar.Check {
	var checks []bar.Check
	for _, kind := range kinds {
		checks = append(checks,
			bar.Check{Name: kind + ", median overrun against 20 ms", Unit: "ms", Want: bar.AtMost, Target: 1},
			bar.Check{Name: kind + ", neighbours' p99 against beside a loop in Go", Unit: "ms", Want: bar.AtMost, Target: 1.5},
			bar.Check{Name: kind + ", forced collection against 20 ms", Unit: "ms", Want: bar.AtMost, Target: 1})
	}
	return checks
}

type runawaySpec struct{ Kind string }

// runawayResult is in milliseconds.
type runawayResult struct {
	Overrun, WorstOverrun float64 // median and maximum
	GC, WorstGC           float64
	// P99 of the neighbours beside the runaway, without it, and beside a Go
	// routine that uses a processor as it does: what the machine makes of that.
	Beside, Without, BesideGo float64
	Busy                      float64 // cores that the neighbours used
}

// runaways is metering.2.
func runaways(b *bar.B) {
	b.Each(func(run int) {
		checks := runawayChecks()
		for i, kind := range kinds {
			res := bar.Call[runawayResult](b, runawayRole, runawaySpec{kind})
			b.Compare(checks[3*i].Name, res.Overrun, 20)
			b.Compare(checks[3*i+1].Name, res.Beside, res.BesideGo)
			b.Compare(checks[3*i+2].Name, res.GC, 20)
			b.Note("run %d, %s: worst overrun %.1f ms, worst collection %.1f ms; neighbours' p99 %.2f ms, %.2f without, %.2f beside a loop in Go; they used %.2f cores",
				run, kind, res.WorstOverrun, res.WorstGC, res.Beside, res.Without, res.BesideGo, res.Busy)
		}
	})
}

// runRunaways plays [runawayRole].
func runRunaways(ctx context.Context, s runawaySpec) (runawayResult, error) {
	e := must.Get(wasm.New(ctx, wasm.Config{}))
	defer must.Close(func() error { return e.Close(context.WithoutCancel(ctx)) }) // with its instances
	runaway := must.Get(load(ctx, e, endless(s.Kind).Bytes()))
	beside := newNeighbours(ctx, e)

	var overruns, collections []time.Duration
	bodies := [phases]func(){
		without: func() { <-time.After(runawayLimit) },
		besideGo: func() {
			for began := time.Now(); time.Since(began) < runawayLimit; {
				runtime.Gosched()
			}
		},
		besideGuest: func() { overruns = append(overruns, overrun(ctx, runaway)) },
	}
	latencies := must.Get(beside.during(ctx, func(begin func(phase) (end func())) {
		for range runawayRounds {
			for p, body := range bodies {
				end := begin(phase(p))
				took := collected(body)
				end()
				if phase(p) == besideGuest {
					collections = append(collections, took)
				}
			}
		}
	}))
	ms := func(of []time.Duration, q float64) float64 { return bar.Millis(loading.Quantile(of, q)) }
	return runawayResult{
		Overrun: ms(overruns, 0.5), WorstOverrun: ms(overruns, 1), GC: ms(collections, 0.5), WorstGC: ms(collections, 1),
		Beside: ms(latencies[besideGuest], 0.99), Without: ms(latencies[without], 0.99), BesideGo: ms(latencies[besideGo], 0.99),
		Busy: beside.busy(),
	}, nil
}

// phase is what runs beside the neighbours. The phases take turns, so that a
// machine that gets busier meets all of them.
type phase int32

const (
	without phase = iota
	besideGo
	besideGuest
	phases
	between phase = -1
)

// collected runs body and forces a collection half-way, and returns how long that
// took.
func collected(body func()) (took time.Duration) {
	var collector sync.WaitGroup
	collector.Go(func() {
		<-time.After(runawayLimit / 2)
		began := time.Now()
		runtime.GC()
		took = time.Since(began)
	})
	body()
	collector.Wait()
	return took
}

// overrun runs a guest into its deadline, on an instance of its own, and returns
// how late it was stopped.
func overrun(ctx context.Context, p engine.Program) time.Duration {
	i := must.Get(p.NewInstance(ctx, memoryLimit))
	defer must.Close(func() error { return i.Close(ctx) })
	limited, cancel := context.WithTimeout(ctx, runawayLimit)
	defer cancel()
	began := time.Now()
	if err := i.Run(limited, turn("runaway", "Do", ""), new(calls)); !errors.Is(err, actor.ErrDeadline) {
		must.Check(fmt.Errorf("a guest that never ends ended with: %w", err))
	}
	return time.Since(began) - runawayLimit
}

// neighbourhood is guests that make calls at fixed times, whatever their
// outcomes: latency counts from when a call was due.
type neighbourhood struct {
	instances []engine.Instance
	took      time.Duration // of a turn alone
}

func newNeighbours(ctx context.Context, e *wasm.Engine) *neighbourhood {
	const small = 100_000
	trial := spinner(ctx, e, small)
	defer must.Close(func() error { return trial.Close(ctx) })
	quickest := time.Hour
	for range 50 {
		began := time.Now()
		must.Check(trial.Run(ctx, turn("neighbour", "Do", ""), new(calls)))
		quickest = min(quickest, time.Since(began))
	}
	rounds := float64(small) * neighbourShare * float64(neighbourPeriod) / float64(quickest)
	n := &neighbourhood{took: time.Duration(neighbourShare * float64(neighbourPeriod))}
	for range neighbours {
		n.instances = append(n.instances, spinner(ctx, e, int32(rounds)))
	}
	return n
}

// spinner makes an instance whose turns run a loop so often.
func spinner(ctx context.Context, e *wasm.Engine, rounds int32) engine.Instance {
	branchIf := []byte{0x0d, 0}
	p := must.Get(load(ctx, e, wasmtest.Guest{Turn: wasmtest.Code(
		wasmtest.I32Const(rounds), wasmtest.LocalSet(2),
		wasmtest.Loop(wasmtest.Code(wasmtest.LocalGet(2), wasmtest.I32Const(1), wasmtest.I32Sub, wasmtest.LocalSet(2), wasmtest.LocalGet(2), branchIf)...),
		wasmtest.I32Const(0))}.Bytes()))
	return must.Get(p.NewInstance(ctx, memoryLimit))
}

// busy is how many cores the neighbours use when nobody is in their way.
func (n *neighbourhood) busy() float64 {
	return float64(n.took) / float64(neighbourPeriod) * neighbours
}

// during lets the neighbours call while body runs and returns their latencies by
// the phase in which a call was due. body begins and ends phases.
func (n *neighbourhood) during(ctx context.Context, body func(begin func(phase) (end func()))) ([phases][]time.Duration, error) {
	var wg sync.WaitGroup
	var now atomic.Int32
	now.Store(int32(between))
	stop := make(chan struct{})
	latencies := make([][phases][]time.Duration, len(n.instances))
	failures := make([]error, len(n.instances))
	for i, in := range n.instances {
		wg.Go(func() {
			due := time.Now().Add(neighbourPeriod * time.Duration(i) / neighbours)
			for failures[i] == nil {
				select {
				case <-stop:
					return
				case <-time.After(time.Until(due)):
				}
				p := phase(now.Load())
				failures[i] = in.Run(ctx, turn("neighbour", "Do", ""), new(calls))
				if p != between {
					latencies[i][p] = append(latencies[i][p], time.Since(due))
				}
				// What is overdue by now was due in another phase, perhaps.
				for due = due.Add(neighbourPeriod); time.Since(due) > runawayLimit; {
					due = due.Add(neighbourPeriod)
				}
			}
		})
	}
	err := must.Catch(func() {
		body(func(p phase) (end func()) {
			now.Store(int32(p))
			return func() {
				now.Store(int32(between))
				<-time.After(2 * neighbourPeriod) // what is left of the phase ends
			}
		})
	})
	close(stop)
	wg.Wait()
	var all [phases][]time.Duration
	for i := range latencies {
		for p := range all {
			all[p] = append(all[p], latencies[i][p]...)
		}
		err = errors.Join(err, failures[i])
	}
	return all, err
}
