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
	"github.com/greenroom-run/greenroom/modules/meter"
)

const (
	kernelsRole = "kernels"
	rewriteRole = "rewrite"
	// kernelRounds is how often each kernel runs in each form; neighbouring runs
	// are compared, and the median of their ratios counts.
	kernelRounds = 15
	// kernelTime is what a run takes at least, in seconds: a kernel that is quicker
	// runs several times.
	kernelTime = 5e-3
)

// work is the exports of the guests in modules/meter/testdata, with how much of
// each is some milliseconds of work.
var work = []struct {
	kernel string
	amount uint64
}{
	{"tight", 60}, {"fib", 40}, {"memsum", 100}, {"sort", 20},
	{"json", 200}, {"sha256", 60}, {"matrix", 15}, {"text", 200},
}

type kernelsSpec struct{ Wasm string }

// kernelTimes is what a kernel took: processor seconds, and the ratios to it.
type kernelTimes struct {
	Kernel                  string
	Plain, Metered, Closing float64
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
				rec.Note("run %d, %s %s: %.1f ms; metered %.3f ×; with WithCloseOnContextDone %.2f ×",
					run+1, language, t.Kernel, t.Plain*1e3, t.Metered, t.Closing)
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
	metered, _, err := meter.Rewrite(module, meter.Config{})
	if err != nil {
		return nil, err
	}
	var forms [3]*form // plain, metered, closing
	for i, f := range []struct {
		module  []byte
		closing bool
	}{{module, false}, {metered, false}, {module, true}} {
		if forms[i], err = newForm(ctx, f.module, f.closing); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, forms[i].rt.Close(ctx)) }()
	}
	for _, w := range work {
		var seconds [3][]float64
		times := 1
		for round := range kernelRounds {
			for i, f := range forms {
				took, err := f.run(ctx, w.kernel, w.amount, times)
				if err != nil {
					return nil, fmt.Errorf("kernel %s: %w", w.kernel, err)
				}
				seconds[i] = append(seconds[i], took)
			}
			if round == 0 && seconds[0][0] < kernelTime { // the first one warms up
				times = int(kernelTime/seconds[0][0]) + 1
				seconds = [3][]float64{}
			}
		}
		all = append(all, kernelTimes{Kernel: w.kernel, Plain: median(seconds[0]),
			Metered: medianRatio(seconds[1], seconds[0]), Closing: medianRatio(seconds[2], seconds[0])})
	}
	return all, nil
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
