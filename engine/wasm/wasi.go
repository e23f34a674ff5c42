package wasm

import (
	"context"
	"fmt"
	"math"

	"github.com/tetratelabs/wazero/api"

	"github.com/greenroom-run/greenroom/engine/wasi"
)

// instantiateWASI makes the module of WASI that guests import.
func instantiateWASI(ctx context.Context, rt *wasmRuntime) error {
	builder := rt.NewHostModuleBuilder(wasi.Module)
	for _, f := range wasi.Functions() {
		call := f.Call
		builder.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(
			func(ctx context.Context, _ api.Module, stack []uint64) {
				i, _ := ctx.Value(instanceKey{}).(*instance)
				call((*system)(i), stack)
			}), f.Params, f.Results).Export(f.Name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

// system is an instance as WASI sees it.
type system instance

var _ wasi.Guest = (*system)(nil)

func (s *system) i() *instance { return (*instance)(s) }

func (s *system) Memory() []byte { return s.mem.data[:s.mem.size] }

func (s *system) Spend(fuel uint64) { s.i().spend(fuel) }

func (s *system) Now() int64 { return s.i().nowUnixNano() }

func (s *system) Monotonic() int64 { return s.Now() + s.slept }

// Sleep moves the monotonic clock on: a guest that waits for a moment would
// otherwise ask again without end. The clock stands still at its end.
func (s *system) Sleep(nanoseconds int64) {
	s.slept += min(nanoseconds, math.MaxInt64-s.Monotonic())
}

func (s *system) Random(p []byte) { s.i().fillRandom(p) }

func (s *system) Print(descriptor uint32, p []byte) { s.out.Print(descriptor, p) }

func (s *system) Exit(code uint32) { panic(&guestExit{code}) }

// guestExit is thrown through a guest that called proc_exit.
type guestExit struct{ code uint32 }

func (e *guestExit) Error() string { return fmt.Sprintf("exit with code %d", e.code) }
