// Package enginetest has what the tests of the engines have in common.
package enginetest

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/compile"
)

// Config returns cfg with a compiler for modules that the tests made themselves, and
// with far more time for guests to start than they need, however busy the machine
// is, unless cfg has its own.
func Config(tb testing.TB, cfg compile.EngineConfig) compile.EngineConfig {
	tb.Helper()
	cfg.InitTimeout = cmp.Or(cfg.InitTimeout, 5*time.Minute)
	cfg.InspectTimeout = cmp.Or(cfg.InspectTimeout, 5*time.Minute)
	if cfg.Compiler == nil {
		cfg.Compiler = InProcess(tb, compile.Config{})
	}
	return cfg
}

// InProcess makes a compiler for modules that the tests made themselves.
func InProcess(tb testing.TB, cfg compile.Config) *compile.Compiler {
	tb.Helper()
	cfg.InProcess = true
	return newCompiler(tb, cfg)
}

// InChildren makes a compiler as hosts have it, for hostile modules, and for those of real
// languages, which take very long under the race detector where children do not have it
// (GREENROOM_TEST_COMPILER).
func InChildren(tb testing.TB, cfg compile.Config) *compile.Compiler {
	tb.Helper()
	cfg.Time, cfg.Processes = 5*time.Minute, 2
	return newCompiler(tb, cfg)
}

func newCompiler(tb testing.TB, cfg compile.Config) *compile.Compiler {
	tb.Helper()
	c, err := compile.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("close compiler: %v", err)
		}
	})
	return c
}

// CloseAtEnd closes an engine when the test ends, after which held says what its
// instances still hold: nothing.
func CloseAtEnd(tb testing.TB, e interface{ Close(context.Context) error }, held func() (instances, bytes int64)) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			tb.Errorf("close engine: %v", err)
		}
		if instances, bytes := held(); instances != 0 || bytes != 0 {
			tb.Errorf("after close %d instances hold %d bytes", instances, bytes)
		}
	})
}

// Load loads a module.
func Load(tb testing.TB, e engine.Engine, wasm []byte) engine.Program {
	tb.Helper()
	p, err := e.Load(context.Background(), actor.DigestOf(wasm), func(context.Context) ([]byte, error) { return wasm, nil })
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// NewInstance makes an instance of up to memory bytes, which is closed when the test
// ends.
func NewInstance(tb testing.TB, p engine.Program, memory int64) engine.Instance {
	tb.Helper()
	i, err := p.NewInstance(context.Background(), memory)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = i.Close(context.Background()) }) // what it held is looked at when the engine is closed
	return i
}

// Deadline is how long a guest of a test may run; what is tested is that it stops at
// all.
func Deadline(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	tb.Cleanup(cancel)
	return ctx
}

// yields is a processor that ends its context when the guest has yielded three times.
type yields struct {
	times int
	fuel  uint64
	end   context.CancelFunc
}

func (y *yields) Yield(fuel uint64) {
	y.fuel += fuel
	if y.times++; y.times == 3 {
		y.end()
	}
}

func (y *yields) Pause() bool { return true }
func (y *yields) Resume()     {}

// CheckYields checks that a guest which loops yields the processor of its context.
func CheckYields(t *testing.T, run func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	y := &yields{end: cancel}
	if err := run(engine.WithProcessor(ctx, y)); !errors.Is(err, actor.ErrCanceled) || y.times != 3 || y.fuel < 300_000 {
		t.Errorf("a guest that loops yielded %d times with %d of fuel, and ended with %v", y.times, y.fuel, err)
	}
}
