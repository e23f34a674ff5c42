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
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/guest"
	"github.com/greenroom-run/greenroom/engine/meter"
)

const (
	maxPages         = 65_536
	exportInitialize = abi.ExportInitialize
	// minFrameBytes is the smallest frame buffer asked of a guest.
	minFrameBytes = 2 << 10
)

// instance is one guest with its memory. One goroutine at a time uses it.
type instance struct {
	program *program
	mem     *guestMemory
	image   *image // what it is put back to; nil: it is built anew
	mod     api.Module

	fuel    api.MutableGlobal
	depth   api.MutableGlobal
	globals []api.MutableGlobal // that an image keeps

	entry   *entry
	running bool // a turn
	run          // of the turn that runs

	// owner is the actor whose bytes may be in the instance; used says that they
	// must not outlive the last turn.
	owner owner
	used  bool

	out    guest.Output
	seeded *rand.ChaCha8 // outside turns
	broken bool
	closed bool
}

// run is what belongs to one turn; calls is nil outside turns.
type run struct {
	calls    engine.Calls
	guestErr *actor.GuestError
	slept    int64 // nanoseconds
	tank     confine.Tank
	response []byte // the frame of the last HTTP request, nil before one
	result   []byte // the frame of the last call, nil before one
	// malformed is what was wrong with the frame of the last function of reminders or timers.
	malformed string
	work      uint64 // fuel that the host function which runs is to charge
}

type owner struct{ app, typ, id string }

var (
	_ engine.Instance = (*instance)(nil)
	_ engine.Trimmer  = (*instance)(nil)
)

type instanceKey struct{}

// guestContext carries the instance to its host functions. Of the caller's
// context it has the end and the processor alone: the runtime asks for values at every
// call, and what else a caller put there is no business of a guest's.
type guestContext struct {
	context.Context
	instance *instance
}

func (c *guestContext) Value(key any) any {
	switch key.(type) {
	case instanceKey:
		return c.instance
	case engine.ProcessorKey:
		return c.Context.Value(key)
	}
	return nil
}

// warmUp runs as much of the guest as can run without a turn, so that the guest's first
// steps are part of the image and not of every turn after a change of actor. warmUp asks
// for the manifest because this runs the first steps of the allocator and the JSON encoder
// also in guests that do not export greenroom_warm.
func (i *instance) warmUp(ctx context.Context) error {
	i.out.Begin(nil)
	defer i.out.End()
	if _, err := i.manifest(ctx); err != nil {
		return err
	}
	if i.program.hasWarm {
		if err := i.warm(ctx); err != nil {
			return err
		}
	}
	return i.growFrame(ctx, minFrameBytes)
}

// warm has the guest do what its first turns would have to do otherwise.
func (i *instance) warm(ctx context.Context) error {
	i.refuel(ctx, trialFuel)
	return i.failure(ctx, "warm the guest up", i.call(ctx, i.mod.ExportedFunction(abi.ExportWarm), nil))
}

// startInTime starts an instance, which has a limited time for that.
func startInTime(ctx context.Context, i *instance) error {
	if i.image != nil {
		return i.start(ctx) // no guest runs, and a watch over ctx costs a goroutine
	}
	return confine.Start(ctx, i.program.engine.cfg.InitTimeout, i.start)
}

// start makes the module's instance in an empty memory, from the image or by
// running what initializes it.
func (i *instance) start(ctx context.Context) (err error) {
	ctx = &guestContext{ctx, i}
	i.run, i.seeded = run{}, nil // an instance that starts again starts as it did
	i.fuel = nil
	i.tank.Fill(ctx, 0, &i.program.engine.halted)
	i.tank.Empty() // what a start function finds
	i.mod, err = i.guardedInstantiate(experimental.WithMemoryAllocator(ctx, i.mem))
	if err != nil {
		return i.startFailure(ctx, "start the guest", err)
	}
	i.entry = &entry{} // a Function is of one module instance
	i.fuel = i.mod.ExportedGlobal(meter.ExportFuel).(api.MutableGlobal)
	i.depth = i.mod.ExportedGlobal(meter.ExportDepth).(api.MutableGlobal)
	i.globals = i.globals[:0]
	for n := range i.program.globals {
		i.globals = append(i.globals, i.mod.ExportedGlobal(binary.ExportGlobal(n)).(api.MutableGlobal))
	}
	if i.image != nil {
		return i.startFromImage()
	}
	i.refuel(ctx, 0)
	if i.program.detached {
		if err := i.layOut(); err != nil {
			return err
		}
	}
	if i.program.start {
		if err := i.failure(ctx, "start the guest", i.call(ctx, i.mod.ExportedFunction(binary.ExportStart), nil)); err != nil {
			return err
		}
	}
	if i.program.hasInit {
		if err := i.failure(ctx, "initialize the guest", i.call(ctx, i.mod.ExportedFunction(exportInitialize), nil)); err != nil {
			return err
		}
	}
	i.out.End()
	return nil
}

func (i *instance) startFromImage() error {
	if missing := (i.image.size - i.mem.size) / confine.PageSize; missing > 0 {
		if _, ok := i.mod.Memory().Grow(uint32(missing)); !ok {
			return fmt.Errorf("start the guest: its memory cannot have %d bytes", i.image.size) // checked before: a bug
		}
	}
	i.mem.load(i.image)
	i.afterImage()
	return nil
}

// afterImage brings what is not memory to where the image has it.
func (i *instance) afterImage() {
	i.image.setGlobals(i.globals)
	i.entry.framePtr, i.entry.frameCap = i.image.framePtr, i.image.frameCap
	i.used = false
}

// layOut does what instantiating would have done with the segments.
func (i *instance) layOut() error {
	memory := i.mem.data[:i.mem.size]
	for n, s := range i.program.segments {
		if uint64(s.Offset)+uint64(len(s.Data)) > i.mem.size {
			return &actor.TrapError{Kind: actor.TrapUnreachable, Message: fmt.Sprintf(
				"data segment %d puts %d bytes at %d, beyond the end of memory at %d", n, len(s.Data), s.Offset, i.mem.size)}
		}
		copy(memory[s.Offset:], s.Data)
	}
	return nil
}

// reset takes everything out of the instance that turns left there.
func (i *instance) reset(ctx context.Context) error {
	if i.image != nil && i.mem.size == i.image.size {
		i.mem.restore(i.image)
		i.afterImage()
		return nil
	}
	// Memory does not shrink, and tables cannot be set from outside.
	i.entry.fn.Store(nil)
	i.mem.pinned = true
	err := i.mod.Close(ctx)
	i.mem.pinned = false
	i.mod = nil
	if err != nil {
		return fmt.Errorf("reset the guest: %w", err)
	}
	i.mem.wipe()
	i.used = false
	return startInTime(ctx, i)
}

// refuel begins a run under a fuel limit, 0 for none.
func (i *instance) refuel(ctx context.Context, limit uint64) {
	i.fuel.Set(i.tank.Fill(ctx, limit, &i.program.engine.halted))
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
			err = &confine.PanicError{What: "instantiating", Value: r, Stack: debug.Stack()}
		}
	}()
	cfg := wazero.NewModuleConfig().
		WithName("").        // anonymous: any number of one module
		WithStartFunctions() // _initialize is called apart, to tell its faults
	return i.program.engine.runtime.InstantiateModule(ctx, i.program.compiled, cfg)
}

// call calls into the guest. A panic that wazero lets through is an error.
func (i *instance) call(ctx context.Context, fn api.Function, stack []uint64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &confine.PanicError{What: "running a guest", Value: r, Stack: debug.Stack()}
		}
	}()
	return fn.CallWithStack(ctx, stack)
}

// Run implements [engine.Instance]. An instance whose turn runs is not entered
// again: a turn within it takes another instance.
//
// A turn finds nothing in the instance that another actor's turn, a read-only
// turn or a failed turn left there.
func (i *instance) Run(ctx context.Context, frame *abi.Turn, calls engine.Calls) error {
	switch {
	case i.broken || i.closed:
		return fmt.Errorf("run %s: the guest instance is broken or closed", frame.Method)
	case i.running:
		return fmt.Errorf("run %s: the guest instance runs a turn", frame.Method)
	}
	if !i.program.engine.gate.Enter() {
		return fmt.Errorf("run %s: %w", frame.Method, actor.ErrStopping)
	}
	defer i.program.engine.gate.Leave()
	if err := i.mem.begin(); err != nil {
		i.broken = true
		return fmt.Errorf("run %s: %w", frame.Method, err)
	}
	defer i.mem.end()
	i.mem.refused, i.mem.short = 0, false
	if err := i.prepare(ctx, frame); err != nil {
		return err
	}
	i.running = true
	i.out.Begin(calls)
	i.depth.Set(confine.MaxDepth)
	i.run = run{calls: calls}
	account := calls.Fuel()
	i.refuel(ctx, account.Remaining())

	i.entry.ctx = guestContext{ctx, i}
	err := i.turn(&i.entry.ctx, frame)
	account.Used += i.tank.Spent(int64(i.fuel.Get()))
	account.Running = 0

	i.out.End()
	i.entry.ctx = guestContext{}
	i.run = run{}
	i.running = false
	i.used = i.used || frame.Flags&abi.FlagReadOnly != 0
	if err != nil {
		i.afterError(err, account)
	}
	return err
}

// afterError says what an error leaves of the instance.
func (i *instance) afterError(err error, account *engine.Fuel) {
	var outOfFuel *actor.FuelError
	if errors.As(err, &outOfFuel) { // of the turn, not of this run
		outOfFuel.Used, outOfFuel.Limit = account.Used, account.Limit
	}
	var onPurpose *actor.GuestError
	failed := errors.As(err, &onPurpose)
	i.broken = i.broken || !failed
	i.used = i.used || failed
}

// prepare readies the instance for a turn of the frame's actor.
func (i *instance) prepare(ctx context.Context, frame *abi.Turn) error {
	next := owner{frame.App, frame.Type, frame.ID}
	if i.used || i.owner != next && i.owner != (owner{}) {
		if err := i.reset(ctx); err != nil {
			i.broken = true
			return err
		}
	}
	i.owner = next
	return nil
}

func (i *instance) turn(ctx context.Context, frame *abi.Turn) error {
	size, err := i.putFrame(ctx, frame)
	if err != nil {
		return err
	}
	en := i.entry
	en.stack[0], en.stack[1] = uint64(en.framePtr), uint64(size)
	functions := &i.program.engine.functions
	fn := functions.take(en, i.mod)
	if err := i.failure(ctx, "run the turn", i.call(ctx, *fn, en.stack[:])); err != nil {
		return err // and nothing is kept: the instance is broken
	}
	functions.keep(en, fn)
	switch result := int32(uint32(en.stack[0])); {
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
	buf, ok := i.mod.Memory().Read(i.entry.framePtr, i.entry.frameCap)
	if !ok {
		return nil, protocol("greenroom_alloc returned memory that is not there: %d bytes at %d", i.entry.frameCap, i.entry.framePtr)
	}
	return buf, nil
}

// growFrame asks the guest for a frame buffer of at least size bytes. Sizes are
// powers of two, so that the buffers left behind add up to less than the last.
func (i *instance) growFrame(ctx context.Context, size int) error {
	en := i.entry
	want := uint64(minFrameBytes)
	for want < uint64(size) {
		want *= 2
	}
	if want > i.mem.limit {
		return &actor.TrapError{Kind: actor.TrapMemory, Message: fmt.Sprintf(
			"the turn's frame of %d bytes does not fit in the guest's memory limit of %d", size, i.mem.limit)}
	}
	en.stack[0] = want
	if err := i.failure(ctx, "allocate the frame", i.call(ctx, i.mod.ExportedFunction(abi.ExportAlloc), en.stack[:])); err != nil {
		return err
	}
	ptr := uint32(en.stack[0])
	switch {
	case ptr == 0 && i.mem.short:
		return i.mem.errShort()
	case ptr == 0:
		return &actor.TrapError{Kind: actor.TrapMemory, Message: fmt.Sprintf(
			"greenroom_alloc has no %d bytes for the turn's frame; the memory limit is %d", want, i.mem.limit)}
	case ptr%8 != 0:
		return protocol("greenroom_alloc returned the address %d, which is not aligned to 8", ptr)
	case uint64(ptr)+want > uint64(i.mod.Memory().Size()):
		return protocol("greenroom_alloc returned %d bytes at %d, beyond the end of memory at %d", want, ptr, i.mod.Memory().Size())
	}
	en.framePtr, en.frameCap = ptr, uint32(want)
	return nil
}

func (i *instance) MemoryBytes() int64 { return int64(i.mem.counted.Load()) }

func (i *instance) Trim() bool {
	if !i.program.engine.gate.Enter() {
		return false
	}
	defer i.program.engine.gate.Leave()
	return i.mem.settle()
}

// wait runs what may take the host long, and ends the guest if others have taken its
// memory meanwhile.
func (i *instance) wait(do func()) {
	if err := i.mem.idle(do); err != nil {
		panic(&confine.Stop{Err: err})
	}
}

func (i *instance) Close(ctx context.Context) error { return i.close(ctx) }

func (i *instance) close(ctx context.Context) (err error) {
	if i.closed {
		return nil
	}
	i.closed = true
	i.program.instances.Add(-1)
	i.entry.fn.Store(nil)
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

// randomChunk is how much randomness is made at a time, in bytes: a guest that
// wants much is stopped between two of them.
const randomChunk = 64 << 10

// random fills p and charges for it.
func (i *instance) random(p []byte) {
	for len(p) > 0 {
		part := p[:min(len(p), randomChunk)]
		i.spend(fuelCall + uint64(len(part)))
		i.fillRandom(part)
		p = p[len(part):]
	}
}

// fillRandom fills p from the turn's stream, or outside turns from that of the
// zero seed.
func (i *instance) fillRandom(p []byte) {
	if i.calls != nil {
		i.calls.Random(p)
		return
	}
	if i.seeded == nil {
		i.seeded = rand.NewChaCha8([32]byte{})
	}
	_, _ = i.seeded.Read(p) // never fails: see math/rand/v2
}
