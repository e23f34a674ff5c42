package metering

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
	"github.com/greenroom-run/greenroom/engine/meter"
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
func overhead(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	var modules [2]string
	for i, language := range []string{"go", "rust"} {
		path, err := kernels(ctx, r, language)
		if err != nil {
			return err
		}
		modules[i] = path
	}
	for run := range r.Runs {
		sum, worst, n := 0.0, 0.0, 0.0
		for i, language := range []string{"go", "rust"} {
			times, err := role.Call[[]kernelTimes](ctx, kernelsRole, kernelsSpec{modules[i]})
			if err != nil {
				return err
			}
			for _, t := range times {
				sum, worst, n = sum+math.Log(t.Metered), max(worst, t.Metered), n+1
				rec.Note("run %d, %s %s: %.1f ms, by place %.1f to %.1f; metered %.3f ×; with WithCloseOnContextDone %.2f ×",
					run+1, language, t.Kernel, t.Plain*1e3, t.Quickest*1e3, t.Slowest*1e3, t.Metered, t.Closing)
			}
		}
		rec.Compare("geometric mean", math.Exp(sum/n), 1)
		rec.Compare("worst kernel", worst, 1)
	}
	return nil
}

// runKernels plays [kernelsRole].
func runKernels(ctx context.Context, s kernelsSpec) (all []kernelTimes, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	module, err := os.ReadFile(s.Wasm)
	if err != nil {
		return nil, err
	}
	closing, err := newForm(ctx, module, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing.rt.Close(ctx)) }()
	for _, w := range work {
		all = append(all, kernelTimes{Kernel: w.kernel, Metered: 1, Quickest: math.Inf(1)})
	}
	for place := range places {
		if err := runPlace(ctx, module, place, closing, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// runPlace adds to what all kernels took what they take at a place, the form that
// closes at the first one only: it is slower by too much for chance to matter.
func runPlace(ctx context.Context, module []byte, place int, closing *form, all []kernelTimes) (err error) {
	module, err = moved(module, place)
	if err != nil {
		return err
	}
	metered, _, err := meter.Rewrite(module, meter.Config{})
	if err != nil {
		return err
	}
	var forms []*form
	for _, wasm := range [][]byte{module, metered} {
		f, err := newForm(ctx, wasm, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.rt.Close(ctx)) }()
		forms = append(forms, f)
	}
	if place == 0 {
		forms = append(forms, closing)
	}
	for i, w := range work {
		seconds := make([][]float64, len(forms))
		times := 1
		for round := range kernelRounds + 1 {
			for j, f := range forms {
				took, err := f.run(ctx, w.kernel, w.amount, times)
				if err != nil {
					return fmt.Errorf("kernel %s: %w", w.kernel, err)
				}
				if round > 0 { // the first one warms up
					seconds[j] = append(seconds[j], took)
				} else if j == 0 && took < kernelTime {
					times = int(kernelTime/took) + 1
				}
			}
		}
		plain := median(seconds[0])
		all[i].Plain += plain / places
		all[i].Quickest, all[i].Slowest = min(all[i].Quickest, plain), max(all[i].Slowest, plain)
		all[i].Metered *= math.Pow(medianRatio(seconds[1], seconds[0]), 1.0/places)
		if place == 0 {
			all[i].Closing = medianRatio(seconds[2], seconds[0])
		}
	}
	return nil
}

func medianRatio(of, to []float64) float64 {
	ratios := make([]float64, len(of))
	for i := range of {
		ratios[i] = of[i] / to[i]
	}
	return median(ratios)
}

// form is a module compiled by a bare wazero, and an instance of it.
type form struct {
	rt       wazero.Runtime
	compiled wazero.CompiledModule
	mod      api.Module
}

// newForm compiles and instantiates. Refills cost nothing but the call.
func newForm(ctx context.Context, module []byte, closing bool) (*form, error) {
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(closing))
	f := &form{rt: rt}
	_, err := wasi_snapshot_preview1.Instantiate(ctx, rt)
	if err == nil {
		i64s := []api.ValueType{api.ValueTypeI64}
		_, err = rt.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
			WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) { stack[0] = meter.MaxFuel }), i64s, i64s).
			Export(meter.ImportRefill).Instantiate(ctx)
	}
	if err == nil {
		f.compiled, err = rt.CompileModule(ctx, module)
	}
	if err == nil {
		f.mod, err = rt.InstantiateModule(ctx, f.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
	}
	if err != nil {
		return nil, errors.Join(err, rt.Close(ctx))
	}
	return f, nil
}

// run returns the processor seconds that a kernel takes, called so often.
func (f *form) run(ctx context.Context, kernel string, amount uint64, times int) (float64, error) {
	ctx, cancel := context.WithCancel(ctx) // one that can end, for closing
	defer cancel()
	fn := f.mod.ExportedFunction(kernel)
	began := clock()
	for range times {
		if _, err := fn.Call(ctx, amount); err != nil {
			return 0, err
		}
	}
	return clock() - began, nil
}

// instantiate returns the processor seconds that one more instance takes,
// without what initializes it.
func (f *form) instantiate(ctx context.Context) (float64, error) {
	began := clock()
	mod, err := f.rt.InstantiateModule(ctx, f.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	took := clock() - began
	if err != nil {
		return 0, err
	}
	return took, mod.Close(ctx)
}

// rewriteTimes is what rewriting and instantiating took, in processor seconds.
type rewriteTimes struct {
	Bytes                   int
	Rewrite, Plain, Metered float64
	Ratio                   float64 // of neighbouring instantiations
}

// rewriting is metering.5.
func rewriting(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	path, err := kernels(ctx, r, "go")
	if err != nil {
		return err
	}
	for run := range r.Runs {
		t, err := role.Call[rewriteTimes](ctx, rewriteRole, kernelsSpec{path})
		if err != nil {
			return err
		}
		rec.Note("run %d: a guest of standard Go of %.2f MB rewritten in %s", run+1, float64(t.Bytes)/1e6, seconds(t.Rewrite))
		rec.Compare("rewriting 3 MB", t.Rewrite*3e6/float64(t.Bytes), 1)
		rec.Compare("instantiation", t.Plain*t.Ratio*1e6, t.Plain*1e6)
	}
	return nil
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond)
}

// runRewrite plays [rewriteRole].
func runRewrite(ctx context.Context, s kernelsSpec) (t rewriteTimes, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	module, err := os.ReadFile(s.Wasm)
	if err != nil {
		return t, err
	}
	t.Bytes = len(module)
	var metered []byte
	var took []float64
	for range 5 {
		began := time.Now() // not processor time: the collector works for it, too
		if metered, _, err = meter.Rewrite(module, meter.Config{}); err != nil {
			return t, err
		}
		took = append(took, time.Since(began).Seconds())
	}
	t.Rewrite = median(took)
	plain, err := newForm(ctx, module, false)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, plain.rt.Close(ctx)) }()
	merged, err := newForm(ctx, metered, false)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, merged.rt.Close(ctx)) }()
	var before, after []float64
	for range 200 {
		b, err := plain.instantiate(ctx)
		if err != nil {
			return t, err
		}
		a, err := merged.instantiate(ctx)
		if err != nil {
			return t, err
		}
		before, after = append(before, b), append(after, a)
	}
	t.Plain, t.Metered, t.Ratio = median(before), median(after), medianRatio(after, before)
	return t, nil
}
