package wasm

import (
	"context"

	"github.com/tetratelabs/wazero/api"

	"github.com/greenroom-run/greenroom/engine/meter"
)

// trialFuel bounds the guest when an image is made: its manifest and its
// allocator, and by itself what it does to warm up (abi/SPEC.md section 1).
const trialFuel = 1_000_000_000

// spend charges the guest for work of the host.
func (i *instance) spend(n uint64) {
	if i.fuel == nil { // a start function that wazero runs: the global is out of reach
		i.tank.Charge(n)
		return
	}
	remaining := int64(i.fuel.Get()) - int64(n)
	if remaining < 0 {
		remaining = i.tank.Refill(remaining)
	}
	i.fuel.Set(uint64(remaining))
}

// instantiateMeter makes the module that metered guests import.
func instantiateMeter(ctx context.Context, rt *wasmRuntime) error {
	refill := func(ctx context.Context, _ api.Module, stack []uint64) {
		i, _ := ctx.Value(instanceKey{}).(*instance)
		stack[0] = uint64(i.tank.Refill(int64(stack[0])))
	}
	_, err := rt.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refill), []api.ValueType{i64}, []api.ValueType{i64}).
		Export(meter.ImportRefill).Instantiate(ctx)
	return err
}
