package extism

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/guest"
)

// instance is one plug-in with its kernel. One goroutine at a time uses it.
type instance struct {
	program *program
	memory  engine.Memory
	limit   uint64 // bytes of memory, kernel and plug-in together

	// The plug-in that runs now; nil when the next turn needs a new one.
	plugin *sdk.Plugin
	mem    *memories
	owner  owner // whose turns it has run

	// Of the call that runs.
	turn   *turn // nil outside turns
	output region
	failed *actor.GuestError // by error_set
	slept  int64             // nanoseconds
	tank   confine.Tank

	out    guest.Output
	seeded *rand.ChaCha8 // outside turns
	broken bool
	closed bool
}

var _ engine.Instance = (*instance)(nil)

// turn is the turn that an instance runs.
type turn struct {
	calls     engine.Calls
	frame     *abi.Turn
	replyType string
	answer    abi.HTTPResponse  // to the last HTTP request
	failed    *actor.GuestError // by greenroom_fail
}

// owner is the actor whose bytes a plug-in may hold.
type owner struct{ app, typ, id string }

// region is a part of the kernel's memory that the plug-in named.
type region struct {
	offset, length uint64
	set            bool
}

type instanceKey struct{}

// start makes the plug-in and runs what its language needs before the first
// call. Without an error the instance has a plug-in that nobody has used.
func (i *instance) start(ctx context.Context) error {
	mem, err := reserve(&i.program.engine.pool, i.memory, i.limit)
	if err != nil {
		return err
	}
	i.mem, i.owner = mem, owner{}
	i.slept, i.seeded = 0, nil // a plug-in that starts again starts as it did
	err = confine.Start(ctx, i.program.engine.cfg.InitTimeout, i.begin)
	if err != nil {
		i.startOver(ctx)
	}
	return err
}

// begin is start once the memory is reserved.
func (i *instance) begin(ctx context.Context) error {
	ctx = context.WithValue(ctx, instanceKey{}, i)
	// A start function runs before the SDK names the plug-in to host functions,
	// and it is metered too.
	startCtx := context.WithValue(ctx, sdk.PluginCtxKey("plugin"), (*sdk.Plugin)(nil))
	startCtx = experimental.WithMemoryAllocator(startCtx, i.mem)
	i.tank.Fill(ctx, 0, nil)
	i.out.Begin(nil)
	defer i.out.End()
	err := i.guarded(func() (err error) {
		i.plugin, err = i.program.compiled.plugin.Instance(startCtx, sdk.PluginInstanceConfig{ModuleConfig: wazero.NewModuleConfig()})
		return err
	})
	switch {
	case err != nil && i.mem.short:
		err = errShort("start the plug-in")
	case err != nil && i.mem.refused > 0:
		err = &actor.TrapError{Kind: actor.TrapMemory, Message: fmt.Sprintf(
			"the plug-in and Extism's kernel need %d bytes of memory to start; the limit is %d", i.mem.refused, i.limit)}
	case err != nil:
		err = i.startFailure(ctx, err)
	case i.program.init != "":
		err = i.failure(ctx, "initialize the plug-in", i.call(ctx, i.program.init, nil, 0))
	}
	return err
}

// startFailure tells the faults of a start function from those of the module's
// segments, which wazero reports as plain errors.
func (i *instance) startFailure(ctx context.Context, err error) error {
	var bug *confine.PanicError
	var stopped *confine.Stop
	if _, known := classify(err); known || ctx.Err() != nil || errors.As(err, &bug) || errors.As(err, &stopped) {
		return i.failure(ctx, "start the plug-in", err)
	}
	return &actor.TrapError{Kind: actor.TrapUnreachable, Message: err.Error()}
}

// call calls an export. A result other than 0 without a reason given is one.
func (i *instance) call(ctx context.Context, export string, input []byte, fuelLimit uint64) error {
	i.tank.Fill(ctx, fuelLimit, nil)
	i.mem.refused, i.mem.short = 0, false
	i.output, i.failed, i.slept = region{}, nil, 0
	var result uint32
	err := i.guarded(func() (err error) {
		result, _, err = i.plugin.CallWithContext(ctx, export, input)
		return err
	})
	if err == nil && result != 0 && i.failed == nil {
		i.failed = &actor.GuestError{Status: statusUnknown, Message: fmt.Sprintf("%s returned %d without saying why", export, int32(result))}
	}
	return err
}

// guarded runs what a plug-in may make the SDK panic with.
func (i *instance) guarded(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &confine.PanicError{What: "running a plug-in", Value: r, Stack: debug.Stack()}
		}
	}()
	return do()
}

func (i *instance) Run(ctx context.Context, frame *abi.Turn, calls engine.Calls) error {
	if i.broken || i.closed {
		return fmt.Errorf("run %s: the plug-in instance is broken or closed", frame.Method)
	}
	if !i.program.engine.gate.Enter() {
		return fmt.Errorf("run %s: %w", frame.Method, actor.ErrStopping)
	}
	defer i.program.engine.gate.Leave()
	if frame.What != abi.WhatMethod {
		return &actor.TrapError{Kind: actor.TrapProtocol, Message: "an Extism plug-in cannot migrate state"} // refused at upload
	}
	err := i.run(ctx, frame, calls)
	var onPurpose *actor.GuestError
	i.broken = err != nil && !errors.As(err, &onPurpose)
	return err
}

func (i *instance) run(ctx context.Context, frame *abi.Turn, calls engine.Calls) error {
	who := owner{frame.App, frame.Type, frame.ID}
	if i.plugin != nil && i.owner != (owner{}) && i.owner != who {
		i.startOver(ctx) // the memory has bytes of another actor
	}
	if i.plugin == nil {
		if err := i.start(ctx); err != nil {
			return err
		}
	}
	i.owner = who
	if err := i.checkInput(frame.Payload); err != nil {
		return err
	}

	t := &turn{calls: calls, frame: frame}
	i.turn = t
	i.out.Begin(calls)
	defer func() {
		i.out.End()
		i.turn = nil
	}()
	fuel := calls.Fuel()
	err := i.call(context.WithValue(ctx, instanceKey{}, i), frame.Method, frame.Payload, fuel.Remaining())
	fuel.Used += i.tank.Used()
	fuel.Running = 0
	err = i.failure(ctx, "run the turn", err)
	if err != nil {
		var refusedCall *actor.GuestError
		if errors.As(err, &refusedCall) {
			i.startOver(ctx) // it was left in the middle of a call
			return i.fail(refusedCall)
		}
		return err
	}
	switch {
	case t.failed != nil:
		return i.fail(t.failed)
	case i.failed != nil:
		return i.fail(i.failed)
	}
	return i.reply()
}

// fail gives the host the error of a turn.
func (i *instance) fail(e *actor.GuestError) error {
	if code := i.turn.calls.Fail(e); code != 0 {
		return &actor.TrapError{Kind: actor.TrapProtocol, Message: fmt.Sprintf("the host refused the plug-in's error with code %d", code)}
	}
	return e
}

// reply gives the host the output of a turn.
func (i *instance) reply() error {
	var data []byte
	if i.output.set {
		var ok bool
		if data, ok = readMemory(i.plugin.Memory(), i.output.offset, i.output.length); !ok {
			return &actor.TrapError{Kind: actor.TrapProtocol, Message: (&memoryFault{"output_set", i.output.offset, i.output.length}).Error()}
		}
	}
	if code := i.turn.calls.Reply(i.turn.replyType, data); code != 0 {
		return i.fail(refused("the reply", code))
	}
	return nil
}

// readMemory returns length bytes at offset, aliasing the memory. Both are what a
// plug-in says.
func readMemory(mem api.Memory, offset, length uint64) ([]byte, bool) {
	if mem == nil || offset >= maxMemory || length >= maxMemory {
		return nil, false
	}
	return mem.Read(uint32(offset), uint32(length))
}

// kernelBytes is what the kernel needs beside the blocks: its own data, and the
// rounding to pages.
const kernelBytes = 17 * confine.PageSize

// checkInput refuses an input that the kernel has no memory for, since the SDK would
// write it over the kernel's own data if it cannot.
func (i *instance) checkInput(input []byte) error {
	kernel := &i.mem.parts[0]
	need := max(kernel.size, uint64(len(input))+kernelBytes)
	if total := i.mem.size - kernel.size + need; total > i.limit {
		return &actor.TrapError{Kind: actor.TrapMemory, Message: fmt.Sprintf(
			"the payload of %d bytes does not fit in the plug-in's memory limit of %d", len(input), i.limit)}
	}
	return nil
}

func (i *instance) MemoryBytes() int64 {
	if i.mem == nil {
		return 0
	}
	return int64(i.mem.size)
}

func (i *instance) Close(ctx context.Context) error {
	if i.closed {
		return nil
	}
	i.closed = true
	i.program.instances.Add(-1)
	return i.drop(ctx)
}

// drop ends the plug-in and its kernel, and frees their memory.
func (i *instance) drop(ctx context.Context) (err error) {
	if i.plugin != nil {
		err = i.plugin.CloseWithContext(context.WithoutCancel(ctx))
	}
	if i.mem != nil {
		i.mem.release()
	}
	i.plugin, i.mem = nil, nil
	return err
}

// startOver drops the plug-in; the next turn makes another one.
func (i *instance) startOver(ctx context.Context) {
	if err := i.drop(ctx); err != nil {
		i.program.engine.log.Warn("cannot close a plug-in", "module", i.program.digest.Short(), "error", err)
	}
}

// nowUnixNano is the plug-in's clock.
func (i *instance) nowUnixNano() int64 {
	if i.turn == nil {
		return abi.InitTimeUnixNano
	}
	return i.turn.calls.Now().UnixNano()
}

// random fills p from the turn's stream, or outside turns from that of the zero
// seed.
func (i *instance) random(p []byte) {
	if i.turn != nil {
		i.turn.calls.Random(p)
		return
	}
	if i.seeded == nil {
		i.seeded = rand.NewChaCha8([32]byte{})
	}
	_, _ = i.seeded.Read(p) // never fails: see math/rand/v2
}
