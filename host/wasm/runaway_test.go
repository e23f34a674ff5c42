package wasm

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	. "github.com/greenroom-run/greenroom/host/wasm/wasmtest"
)

// runaways are guests that never end.
func runaways() map[string]Guest {
	fib := func(b *Builder) {
		b.Func("", []byte{I32}, []byte{I32}, 0, Code(
			LocalGet(0), I32Const(2), I32LtU, If(Code(LocalGet(0), Return)...),
			LocalGet(0), I32Const(1), I32Sub, Call(3), LocalGet(0), I32Const(2), I32Sub, Call(3), I32Add)...)
	}
	return map[string]Guest{
		"loop":      {Turn: Code(Forever(), I32Const(0))},
		"recursion": {Turn: Code(I32Const(90), Call(3), Drop, I32Const(0)), More: fib},
		"host calls": {Imports: []Import{Host("state_revision", "", "l")},
			Turn: Code(Loop(Code(Call(0), Drop, Again())...), I32Const(0))},
		"bulk copies": {Pages: 200,
			Turn: Code(Loop(Code(I32Const(0), I32Const(6<<20), I32Const(6<<20), []byte{0xfc, 10, 0, 0}, Again())...), I32Const(0))},
	}
}

// BenchmarkRunaway runs guests that never end, one at a time, beside one whose
// turns take half a processor, and tells by how much they pass their deadline,
// how long a collection takes meanwhile, and what becomes of the neighbour's
// 99th percentile.
func BenchmarkRunaway(b *testing.B) {
	e := newEngine(b, Config{})
	const limit = 50 * time.Millisecond
	neighbour := instantiate(b, e, Guest{Turn: rounds(100_000)}.Bytes())
	// As beside a runaway, collections too, but with Go code in its place.
	without := func(rounds int, instead func()) time.Duration {
		return beside(b, neighbour, func() {
			for range rounds {
				var other sync.WaitGroup
				other.Go(instead)
				time.Sleep(limit / 2)
				runtime.GC()
				other.Wait()
			}
		})
	}
	nothing := func() { time.Sleep(limit) }
	goLoop := func() { // what a processor taken away costs on this machine, whoever takes it
		for began := time.Now(); time.Since(began) < limit; {
			runtime.Gosched()
		}
	}
	for name, g := range runaways() {
		b.Run(name, func(b *testing.B) {
			p := load(b, e, g.Bytes())
			var overruns, collections []time.Duration
			pressed := beside(b, neighbour, func() {
				for b.Loop() {
					i, err := p.NewInstance(context.Background(), testMemory)
					if err != nil {
						b.Fatal(err)
					}
					var collector sync.WaitGroup
					collector.Go(func() {
						time.Sleep(limit / 2)
						began := time.Now()
						runtime.GC()
						collections = append(collections, time.Since(began))
					})
					overruns = append(overruns, overrun(b, i, limit))
					collector.Wait()
					i.Close(context.Background())
				}
			})
			alone, native := without(len(overruns), nothing), without(len(overruns), goLoop)
			ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
			b.ReportMetric(ms(quantile(overruns, 0.5)), "overrun-ms")
			b.ReportMetric(ms(quantile(overruns, 1)), "worst-overrun-ms")
			b.ReportMetric(ms(quantile(collections, 0.5)), "gc-ms")
			b.ReportMetric(ms(pressed)/ms(alone), "p99/alone")
			b.ReportMetric(ms(pressed)/ms(native), "p99/beside-Go")
		})
	}
}

// overrun runs a guest into its deadline and returns how late it stopped.
func overrun(tb testing.TB, i host.Instance, limit time.Duration) time.Duration {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	if err := i.Run(ctx, frame("{}"), newCalls()); !errors.Is(err, actor.ErrDeadline) {
		tb.Fatal(err)
	}
	return time.Since(began) - limit
}

// beside runs turns of an instance on half a processor while body runs, and
// returns their 99th percentile.
func beside(tb testing.TB, i host.Instance, body func()) time.Duration {
	tb.Helper()
	stop := make(chan struct{})
	var took []time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		calls, turn := newCalls(), frame("{}")
		for {
			select {
			case <-stop:
				return
			default:
			}
			began := time.Now()
			if err := i.Run(context.Background(), turn, calls); err != nil {
				tb.Error(err)
				return
			}
			d := time.Since(began)
			took = append(took, d)
			time.Sleep(d)
		}
	})
	body()
	close(stop)
	wg.Wait()
	return quantile(took, 0.99)
}

func quantile(of []time.Duration, q float64) time.Duration {
	slices.Sort(of)
	return of[int(q*float64(len(of)-1))]
}
