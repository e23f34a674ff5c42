package meter_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/modules/meter"
)

// kernels are the exports of the guests in testdata, with how much of each is
// some milliseconds of work.
var kernels = []struct {
	name string
	work uint64
}{
	{"tight", 60}, {"fib", 40}, {"memsum", 100}, {"sort", 20},
	{"json", 200}, {"sha256", 60}, {"matrix", 15}, {"text", 200},
}

// BenchmarkOverhead compares guests in standard Go and Rust, metered and not,
// and also with the only other interruption that wazero has. It reports ratios
// of neighbouring runs, "metered/plain" and "closing/plain", as medians, and the
// geometric mean of all kernels, so that it tells the same on any machine. Time
// is that of the processor where the system says it; see clock.
func BenchmarkOverhead(b *testing.B) {
	var all []float64
	for _, dir := range []string{"go", "rust"} {
		wasm := buildGuest(b, dir)
		plain := newGuest(b, wasm, false)
		closing := newGuest(b, wasm, true)
		metered := newGuest(b, rewritten(b, wasm), false)
		for _, k := range kernels {
			b.Run(dir+"/"+k.name, func(b *testing.B) {
				runtime.LockOSThread() // a benchmark has a goroutine of its own
				defer runtime.UnlockOSThread()
				var ofMetered, ofClosing []float64
				for b.Loop() {
					base := plain.run(b, k.name, k.work)
					ofMetered = append(ofMetered, metered.run(b, k.name, k.work)/base)
					ofClosing = append(ofClosing, closing.run(b, k.name, k.work)/base)
				}
				b.ReportMetric(median(ofMetered), "metered/plain")
				b.ReportMetric(median(ofClosing), "closing/plain")
				all = append(all, median(ofMetered))
			})
		}
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
		}
		if len(all) == 0 {
			b.Skip("no kernel ran")
		}
		mean := 0.0
		for _, r := range all {
			mean += math.Log(r) / float64(len(all))
		}
		b.ReportMetric(math.Exp(mean), "metered/plain-mean")
		b.ReportMetric(slices.Max(all), "metered/plain-most")
	})
}

// BenchmarkInstantiation compares a guest of standard Go as it is with its
// metered form, whose data segments are merged.
func BenchmarkInstantiation(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wasm := buildGuest(b, "go")
	plain, metered := newGuest(b, wasm, false), newGuest(b, rewritten(b, wasm), false)
	var ratios []float64
	for b.Loop() {
		base := plain.instantiate(b)
		ratios = append(ratios, metered.instantiate(b)/base)
	}
	b.ReportMetric(median(ratios), "metered/plain")
}

// BenchmarkRewrite rewrites a guest of some three megabytes.
func BenchmarkRewrite(b *testing.B) {
	wasm := buildGuest(b, "go")
	b.SetBytes(int64(len(wasm)))
	for b.Loop() {
		rewritten(b, wasm)
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func rewritten(b *testing.B, wasm []byte) []byte {
	b.Helper()
	out, _, err := meter.Rewrite(wasm, meter.Config{})
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// buildGuest compiles a folder of testdata, and skips where there is no compiler.
func buildGuest(b *testing.B, dir string) []byte {
	b.Helper()
	toolchain := map[string]string{"go": guestbuild.Go, "rust": guestbuild.Cargo}[dir]
	result, err := guestbuild.Build(b.Context(), guestbuild.Request{
		Dir: filepath.Join("testdata", dir), Out: filepath.Join(b.TempDir(), "kernels.wasm"), Toolchain: toolchain,
	})
	var missing *guestbuild.ToolchainError
	if errors.As(err, &missing) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	wasm, err := os.ReadFile(result.Path)
	if err != nil {
		b.Fatal(err)
	}
	return wasm
}

// guest is a compiled module and an instance of it.
type guest struct {
	rt       wazero.Runtime
	compiled wazero.CompiledModule
	mod      api.Module
}

func newGuest(b *testing.B, wasm []byte, closing bool) *guest {
	b.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(closing))
	b.Cleanup(func() { rt.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	i64s := []api.ValueType{api.ValueTypeI64}
	_, err := rt.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) { stack[0] = meter.MaxFuel }), i64s, i64s).
		Export(meter.ImportRefill).Instantiate(ctx)
	if err != nil {
		b.Fatal(err)
	}
	compiled, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		b.Fatal(err)
	}
	g := &guest{rt: rt, compiled: compiled}
	g.mod, err = rt.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// run returns the seconds that a kernel takes.
func (g *guest) run(b *testing.B, name string, work uint64) float64 {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background()) // one that can end, for closing
	defer cancel()
	start := clock()
	if _, err := g.mod.ExportedFunction(name).Call(ctx, work); err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		b.Fatal(name, text)
	}
	return clock() - start
}

func (g *guest) instantiate(b *testing.B) float64 {
	b.Helper()
	start := clock()
	mod, err := g.rt.InstantiateModule(b.Context(), g.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		b.Fatal(err)
	}
	took := clock() - start
	if err := mod.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	return took
}
