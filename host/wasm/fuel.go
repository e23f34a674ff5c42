package wasm

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/modules/meter"
)

const (
	// chunk is the fuel that a guest gets at a time, less than a millisecond's
	// work: what a guest may run beyond its deadline, and keep Go's scheduler
	// and garbage collector waiting.
	chunk = 500_000
	// maxDepth bounds a guest's calls in each other. It is enough for a
	// recursive walk over any document a turn could be given, and some
	// megabytes of native stack.
	maxDepth = 10_000
	// trialFuel bounds the guest when an image is made: its manifest and its
	// allocator.
	trialFuel = 1_000_000_000
)

// tank is the fuel of one run of a guest.
type tank struct {
	ctx      context.Context
	deadline time.Time // zero: none
	limit    uint64    // 0: none
	granted  uint64
	used     uint64 // once the guest was stopped
	stopped  bool
}

// fill begins a run and returns its first grant.
func (t *tank) fill(ctx context.Context, limit uint64) uint64 {
	*t = tank{ctx: ctx, limit: limit}
	t.deadline, _ = ctx.Deadline()
	t.granted = chunk
	if limit > 0 {
		t.granted = min(chunk, limit)
	}
	return t.granted
}

// spent is what was used when left is in the guest's global.
func (t *tank) spent(left int64) uint64 {
	if t.stopped {
		return t.used
	}
	return uint64(int64(t.granted) - left)
}

// stop is thrown through a guest to end it.
type stop struct{ err error }

func (s *stop) Error() string { return s.err.Error() }

func (s *stop) Unwrap() error { return s.err }

// refill is what a metered guest calls when its fuel is below zero: it returns
// the new fuel, or ends the guest. Going through Go lets the scheduler and the
// garbage collector in; Gosched gives way to the turns that wait.
func (i *instance) refill(left int64) int64 {
	t := &i.tank
	if left == meter.DepthExceeded {
		panic(&stop{&actor.TrapError{Kind: actor.TrapStack, Message: fmt.Sprintf("call stack exhausted: the guest's calls are more than %d deep", maxDepth)}})
	}
	used := uint64(int64(t.granted) - left)
	if t.limit > 0 && used > t.limit {
		t.stop(used, &actor.FuelError{Used: used, Limit: t.limit})
	}
	runtime.Gosched()
	// The clock is asked besides the context, whose timer waits for a processor
	// when all of them are busy.
	switch {
	case i.program.engine.halted.Load():
		t.stop(used, actor.ErrStopping)
	case t.ctx.Err() != nil:
		t.stop(used, ended(t.ctx))
	case !t.deadline.IsZero() && time.Until(t.deadline) <= 0:
		t.stop(used, actor.ErrDeadline)
	}
	grant := uint64(-left) + chunk
	if t.limit > 0 {
		grant = min(grant, t.limit-t.granted)
	}
	t.granted += grant
	return left + int64(grant)
}

func (t *tank) stop(used uint64, err error) {
	t.used, t.stopped = used, true
	panic(&stop{err})
}

// spend charges the guest for work of the host.
func (i *instance) spend(n uint64) {
	if i.fuel == nil {
		return // a start function that wazero runs; its calls charge it
	}
	left := int64(i.fuel.Get()) - int64(n)
	if left < 0 {
		left = i.refill(left)
	}
	i.fuel.Set(uint64(left))
}

// instantiateMeter makes the module that metered guests import.
func instantiateMeter(ctx context.Context, rt *wasmRuntime) error {
	refill := func(ctx context.Context, _ api.Module, stack []uint64) {
		i, _ := ctx.Value(instanceKey{}).(*instance)
		stack[0] = uint64(i.refill(int64(stack[0])))
	}
	_, err := rt.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refill), []api.ValueType{i64}, []api.ValueType{i64}).
		Export(meter.ImportRefill).Instantiate(ctx)
	return err
}
