package metering

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/engine/meter"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

const (
	kernelsRole = "kernels"
	rewriteRole = "rewrite"
	// places is at how many places the machine code stands in turn, see [moved].
	// kernelRounds is how often each kernel runs in each form at each; neighbouring
	// runs are compared, and the mean of the median ratios counts.
	places, kernelRounds = 6, 5
	// kernelTime is what a run takes at least, in seconds: a kernel that is quicker
	// runs several times.
	kernelTime = 5e-3
)

// work is the exports of the guests in engine/meter/testdata, with how much of
// each is some milliseconds of work.
var work = []struct {
	kernel string
	amount uint64
}{
	{"tight", 60}, {"fib", 40}, {"memsum", 100}, {"sort", 20},
	{"json", 200}, {"sha256", 60}, {"matrix", 15}, {"text", 200},
}

type kernelsSpec struct{ Wasm string }

// kernelTimes is what a kernel took: processor seconds, and the ratios to it, all
// means of what it took at each place.
type kernelTimes struct {
	Kernel                  string
	Plain, Metered, Closing float64
	Quickest, Slowest       float64 // of the places, unmetered
}

// overhead is metering.1.
func overhead(b *bar.B) {
	languages := []string{"go", "rust"}
	modules := []string{kernels(b, languages[0]), kernels(b, languages[1])}
	b.Each(func(run int) {
		sum, worst, n := 0.0, 0.0, 0.0
		for i, language := range languages {
			for _, t := range bar.Call[[]kernelTimes](b, kernelsRole, kernelsSpec{modules[i]}) {
				sum, worst, n = sum+math.Log(t.Metered), max(worst, t.Metered), n+1
				b.Note("run %d, %s %s: %.1f ms, by place %.1f to %.1f; metered %.3f ×; with WithCloseOnContextDone %.2f ×",
					run, language, t.Kernel, t.Plain*1e3, t.Quickest*1e3, t.Slowest*1e3, t.Metered, t.Closing)
			}
		}
		b.Compare("geometric mean", math.Exp(sum/n), 1)
		b.Compare("worst kernel", worst, 1)
	})
}

// runKernels plays [kernelsRole].
func runKernels(ctx context.Context, s kernelsSpec) (all []kernelTimes, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	module := must.Get(os.ReadFile(s.Wasm))
	closing := newForm(ctx, module, true)
	defer closing.close(ctx)
	for _, w := range work {
		all = append(all, kernelTimes{Kernel: w.kernel, Metered: 1, Quickest: math.Inf(1)})
	}
	for place := range places {
		runPlace(ctx, module, place, closing, all)
	}
	return all, nil
}

// runPlace adds to what all kernels took what they take at a place, the form that
// closes at the first one only: it is slower by too much for chance to matter.
func runPlace(ctx context.Context, module []byte, place int, closing *form, all []kernelTimes) {
	module = must.Get(moved(module, place))
	metered, _ := must.Get2(meter.Rewrite(module, meter.Config{}))
	forms := []*form{newForm(ctx, module, false), newForm(ctx, metered, false)}
	for _, f := range forms {
		defer f.close(ctx)
	}
	if place == 0 {
		forms = append(forms, closing)
	}
	for i, w := range work {
		seconds := make([][]float64, len(forms))
		times := 1
		for round := range kernelRounds + 1 {
			for j, f := range forms {
				took := f.run(ctx, w.kernel, w.amount, times)
				if round > 0 { // the first one warms up
					seconds[j] = append(seconds[j], took)
				} else if j == 0 && took < kernelTime {
					times = int(kernelTime/took) + 1
				}
			}
		}
		plain := bar.Median(seconds[0])
		all[i].Plain += plain / places
		all[i].Quickest, all[i].Slowest = min(all[i].Quickest, plain), max(all[i].Slowest, plain)
		all[i].Metered *= math.Pow(medianRatio(seconds[1], seconds[0]), 1.0/places)
		if place == 0 {
			all[i].Closing = medianRatio(seconds[2], seconds[0])
		}
	}
}

func medianRatio(of, to []float64) float64 {
	ratios := make([]float64, len(of))
	for i := range of {
		ratios[i] = of[i] / to[i]
	}
	return bar.Median(ratios)
}

// form is a module compiled by a bare wazero, and an instance of it.
type form struct {
	rt       wazero.Runtime
	compiled wazero.CompiledModule
	mod      api.Module
}

// newForm compiles and instantiates. Refills cost nothing but the call.
func newForm(ctx context.Context, module []byte, closing bool) *form {
	f := &form{rt: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(closing))}
	must.Get(wasi_snapshot_preview1.Instantiate(ctx, f.rt))
	i64s := []api.ValueType{api.ValueTypeI64}
	must.Get(f.rt.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) { stack[0] = meter.MaxFuel }), i64s, i64s).
		Export(meter.ImportRefill).Instantiate(ctx))
	f.compiled = must.Get(f.rt.CompileModule(ctx, module))
	f.mod = must.Get(f.rt.InstantiateModule(ctx, f.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize")))
	return f
}

// close is for defer.
func (f *form) close(ctx context.Context) { _ = f.rt.Close(ctx) } // nothing is left to lose

// run returns the processor seconds that a kernel takes, called so often.
func (f *form) run(ctx context.Context, kernel string, amount uint64, times int) float64 {
	ctx, cancel := context.WithCancel(ctx) // one that can end, for closing
	defer cancel()
	fn := f.mod.ExportedFunction(kernel)
	began := clock()
	for range times {
		if _, err := fn.Call(ctx, amount); err != nil {
			must.Check(fmt.Errorf("kernel %s: %w", kernel, err))
		}
	}
	return clock() - began
}

// instantiate returns the processor seconds that one more instance takes,
// without what initializes it.
func (f *form) instantiate(ctx context.Context) float64 {
	began := clock()
	mod := must.Get(f.rt.InstantiateModule(ctx, f.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions()))
	took := clock() - began
	must.Check(mod.Close(ctx))
	return took
}

// rewriteTimes is what rewriting and instantiating took, in processor seconds.
type rewriteTimes struct {
	Bytes          int
	Rewrite, Plain float64
	Ratio          float64 // of neighbouring instantiations, metered to plain
}

// rewriting is metering.5.
func rewriting(b *bar.B) {
	path := kernels(b, "go")
	b.Each(func(run int) {
		t := bar.Call[rewriteTimes](b, rewriteRole, kernelsSpec{path})
		b.Note("run %d: a guest of standard Go of %.2f MB rewritten in %s", run, float64(t.Bytes)/1e6, seconds(t.Rewrite))
		b.Compare("rewriting 3 MB", t.Rewrite*3e6/float64(t.Bytes), 1)
		b.Compare("instantiation", t.Plain*t.Ratio*1e6, t.Plain*1e6)
	})
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond)
}

// runRewrite plays [rewriteRole].
func runRewrite(ctx context.Context, s kernelsSpec) (rewriteTimes, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	module := must.Get(os.ReadFile(s.Wasm))
	var metered []byte
	var took []float64
	for range 5 {
		began := time.Now() // not processor time: the collector works for it, too
		metered, _ = must.Get2(meter.Rewrite(module, meter.Config{}))
		took = append(took, time.Since(began).Seconds())
	}
	plain, merged := newForm(ctx, module, false), newForm(ctx, metered, false)
	defer plain.close(ctx)
	defer merged.close(ctx)
	var before, after []float64
	for range 200 {
		before, after = append(before, plain.instantiate(ctx)), append(after, merged.instantiate(ctx))
	}
	return rewriteTimes{len(module), bar.Median(took), bar.Median(before), medianRatio(after, before)}, nil
}

// kernels are the guests that bars 1 and 5 run.
func kernels(b *bar.B, language string) (path string) {
	return b.Build("engine/meter/testdata/"+language, map[string]string{"go": guestbuild.Go, "rust": guestbuild.Cargo}[language])
}
