package wasm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
)

const (
	maxPages         = 65_536
	exportInitialize = abi.ExportInitialize
	// minFrameBytes is the smallest frame buffer asked of a guest.
	minFrameBytes = 4 << 10
)

// instance is one guest with its memory. One goroutine at a time uses it.
type instance struct {
	program *program
	mem     *guestMemory
	mod     api.Module
	// turn is looked up once: a look-up costs more than a turn, and 10 KB of
	// call stack, which is why the allocator, needed rarely, is not kept.
	turn  api.Function
	stack [2]uint64

	framePtr, frameCap uint32 // the guest's frame buffer

	// Of the turn that runs; calls is nil outside turns.
	calls    host.Calls
	guestErr *actor.GuestError
	slept    int64 // nanoseconds

	out    output
	seeded *rand.ChaCha8 // outside turns
	broken bool
	closed bool
}

var _ host.Instance = (*instance)(nil)

type instanceKey struct{}

// guestContext carries the instance to its host functions without a search
// through the chain of contexts.
type guestContext struct {
	context.Context
	instance *instance
}

func (c *guestContext) Value(key any) any {
	if _, ok := key.(instanceKey); ok {
		return c.instance
	}
	return c.Context.Value(key)
}

// NewInstance implements [host.Program]. Besides the errors of Run it returns
// [actor.ErrOverloaded] where the host has no room for one more.
func (p *program) NewInstance(ctx context.Context, memoryLimit int64) (host.Instance, error) {
	if !p.engine.gate.enter() {
		return nil, fmt.Errorf("instantiate module %s: %w", p.digest.Short(), actor.ErrStopping)
	}
	defer p.engine.gate.leave()
	i, err := p.instantiate(ctx, memoryLimit)
	if err != nil {
		return nil, fmt.Errorf("instantiate module %s: %w", p.digest.Short(), err)
	}
	return i, nil
}

func (p *program) instantiate(ctx context.Context, memoryLimit int64) (*instance, error) {
	limit := min(uint64(max(memoryLimit, 0))/pageSize, p.maxPages)
	if p.minPages > limit {
		return nil, &actor.TrapError{Kind: actor.TrapMemory, Message: fmt.Sprintf(
			"the guest needs %d bytes of memory to start; its limit is %d", p.minPages*pageSize, memoryLimit)}
	}
	mem, err := p.engine.pool.reserve(limit * pageSize)
	if err != nil {
		return nil, err
	}
	i := &instance{program: p, mem: mem}
	i.out.init()
	if err := i.start(ctx); err != nil {
		_ = i.close(ctx) // err says more
		return nil, err
	}
	return i, nil
}

func (i *instance) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, i.program.engine.cfg.InitTimeout)
	defer cancel()
	ctx = &guestContext{ctx, i}
	i.mod, err = i.guardedInstantiate(experimental.WithMemoryAllocator(ctx, i.mem))
	if err != nil {
		return i.startFailure(ctx, "start the guest", err)
	}
	i.turn = i.mod.ExportedFunction(abi.ExportTurn)
	if i.program.hasInit {
		if err := i.failure(ctx, "initialize the guest", i.call(ctx, i.mod.ExportedFunction(exportInitialize), nil)); err != nil {
			return err
		}
	}
	i.out.end()
	return nil
}

// startFailure tells the faults of a start function from those of the module's
// segments, which wazero reports as plain errors.
func (i *instance) startFailure(ctx context.Context, what string, err error) error {
	if ctx.Err() == nil && !isStartTrap(err) {
		return &actor.TrapError{Kind: actor.TrapUnreachable, Message: err.Error()}
	}
	return i.failure(ctx, what, err)
}

// guardedInstantiate instantiates. A panic on the way is an error of this
// instance.
func (i *instance) guardedInstantiate(ctx context.Context) (mod api.Module, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{what: "instantiating", value: r, stack: debug.Stack()}
		}
	}()
	cfg := wazero.NewModuleConfig().
		WithName("").         // anonymous: any number of one module
		WithStartFunctions(). // _initialize is called apart, to tell its faults
		WithStdout(&i.out.stdout).
		WithStderr(&i.out.stderr).
		WithRandSource(randomReader{i}).
		WithWalltime(func() (int64, int32) {
			t := i.nowUnixNano()
			return t / 1e9, int32(t % 1e9)
		}, 1).
		WithNanotime(func() int64 { return i.nowUnixNano() + i.slept }, 1).
		WithNanosleep(i.sleep)
	return i.program.runtime.InstantiateModule(ctx, i.program.compiled, cfg)
}

// call calls into the guest. A panic that wazero lets through is an error.
func (i *instance) call(ctx context.Context, fn api.Function, stack []uint64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{what: "running a guest", value: r, stack: debug.Stack()}
		}
	}()
	return fn.CallWithStack(ctx, stack)
}

// Run implements [host.Instance].
func (i *instance) Run(ctx context.Context, frame *abi.Turn, calls host.Calls) error {
	if i.broken || i.closed {
		return fmt.Errorf("run %s: the guest instance is broken or closed", frame.Method)
	}
	if !i.program.engine.gate.enter() {
		return fmt.Errorf("run %s: %w", frame.Method, actor.ErrStopping)
	}
	defer i.program.engine.gate.leave()
	err := i.run(&guestContext{ctx, i}, frame, calls)
	if err != nil {
		var onPurpose *actor.GuestError
		i.broken = !errors.As(err, &onPurpose)
	}
	return err
}

func (i *instance) run(ctx context.Context, frame *abi.Turn, calls host.Calls) error {
	i.mem.refused = 0
	i.out.begin(calls.Log)
	defer i.out.end()
	size, err := i.putFrame(ctx, frame)
	if err != nil {
		return err
	}
	i.calls, i.guestErr, i.slept = calls, nil, 0
	defer func() { i.calls, i.guestErr = nil, nil }()
	i.stack[0], i.stack[1] = uint64(i.framePtr), uint64(size)
	if err := i.failure(ctx, "run the turn", i.call(ctx, i.turn, i.stack[:])); err != nil {
		return err
	}
	switch result := int32(uint32(i.stack[0])); {
	case result == abi.TurnDone:
		return nil
	case result != abi.TurnFailed:
		return protocol("greenroom_turn returned %d; only 0 (done) and 1 (failed) are allowed", result)
	case i.guestErr == nil:
		return &actor.GuestError{Status: actor.Status(abi.StatusUnknown), Message: "the guest failed without saying why"}
	default:
		return i.guestErr
	}
}

// putFrame encodes the frame in the guest's own buffer, and asks for a larger
// one when it does not fit. It returns the frame's size.
func (i *instance) putFrame(ctx context.Context, frame *abi.Turn) (uint32, error) {
	buf, err := i.frameBuffer()
	if err != nil {
		return 0, err
	}
	data := abi.AppendTurn(buf[:0:len(buf)], frame)
	if len(data) <= len(buf) {
		return uint32(len(data)), nil
	}
	if err := i.growFrame(ctx, len(data)); err != nil {
		return 0, err
	}
	if buf, err = i.frameBuffer(); err != nil {
		return 0, err
	}
	copy(buf, data)
	return uint32(len(data)), nil
}

// frameBuffer is the guest's frame buffer, aliasing its memory.
func (i *instance) frameBuffer() ([]byte, error) {
	buf, ok := i.mod.Memory().Read(i.framePtr, i.frameCap)
	if !ok {
		return nil, protocol("greenroom_alloc returned memory that is not there: %d bytes at %d", i.frameCap, i.framePtr)
	}
	return buf, nil
}

// growFrame asks the guest for a frame buffer of at least size bytes. Sizes are
// powers of two, so that the buffers left behind add up to less than the last.
func (i *instance) growFrame(ctx context.Context, size int) error {
	want := uint64(minFrameBytes)
	for want < uint64(size) {
		want *= 2
	}
	if want > i.mem.limit {
		return &actor.TrapError{Kind: actor.TrapMemory, Message: fmt.Sprintf(
			"the turn's frame of %d bytes does not fit in the guest's memory limit of %d", size, i.mem.limit)}
	}
	i.stack[0] = want
	if err := i.failure(ctx, "allocate the frame", i.call(ctx, i.mod.ExportedFunction(abi.ExportAlloc), i.stack[:])); err != nil {
		return err
	}
	ptr := uint32(i.stack[0])
	switch {
	case ptr == 0:
		return &actor.TrapError{Kind: actor.TrapMemory, Message: fmt.Sprintf(
			"greenroom_alloc has no %d bytes for the turn's frame; the memory limit is %d", want, i.mem.limit)}
	case ptr%8 != 0:
		return protocol("greenroom_alloc returned the address %d, which is not aligned to 8", ptr)
	case uint64(ptr)+want > uint64(i.mod.Memory().Size()):
		return protocol("greenroom_alloc returned %d bytes at %d, beyond the end of memory at %d", want, ptr, i.mod.Memory().Size())
	}
	i.framePtr, i.frameCap = ptr, uint32(want)
	return nil
}

// MemoryBytes implements [host.Instance].
func (i *instance) MemoryBytes() int64 { return int64(i.mem.size) }

// Close implements [host.Instance].
func (i *instance) Close(ctx context.Context) error { return i.close(ctx) }

func (i *instance) close(ctx context.Context) (err error) {
	if i.closed {
		return nil
	}
	i.closed = true
	if i.mod != nil {
		err = i.mod.Close(ctx)
	}
	i.mem.Free() // also where wazero gave the instance up half-way
	return err
}

// nowUnixNano is the guest's clock.
func (i *instance) nowUnixNano() int64 {
	if i.calls == nil {
		return abi.InitTimeUnixNano
	}
	return i.calls.Now().UnixNano()
}

// sleep returns at once, and moves the monotonic clock of the turn by as much:
// a guest that waits for a moment would otherwise ask again without end.
func (i *instance) sleep(ns int64) {
	if ns > 0 {
		i.slept += ns
	}
}

// random fills p from the turn's stream, or outside turns from that of the
// zero seed.
func (i *instance) random(p []byte) {
	if i.calls != nil {
		i.calls.Random(p)
		return
	}
	if i.seeded == nil {
		i.seeded = rand.NewChaCha8([32]byte{})
	}
	_, _ = i.seeded.Read(p) // never fails: see math/rand/v2
}

// randomReader is the source of WASI's random_get.
type randomReader struct{ i *instance }

func (r randomReader) Read(p []byte) (int, error) {
	r.i.random(p)
	return len(p), nil
}
