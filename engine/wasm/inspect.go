package wasm

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/judge"
)

// Inspect judges a module: it reads its outline, checks imports and exports,
// compiles it, and runs one instance under limits for its manifest. It returns
// every fault that it finds; steps that a fault makes impossible are left out.
// Without a fault the manifest has its defaults filled in, and the program
// stays in memory, so that the first Load is free.
//
// The error is not about the module: ctx ended, no capacity, engine closed, or
// a bug of ours.
func (e *Engine) Inspect(ctx context.Context, code actor.Code) (*abi.Manifest, []actor.Fault, error) {
	return judge.Inspection{
		What: "module", Gate: &e.gate, Compiler: e.compiler, Log: e.log,
		Target: compile.Native, Memory: e.cfg.InspectMemory, Check: checkUpload,
		Module: toCompile, Admit: e.admit,
	}.Run(ctx, code)
}

// checkUpload is a [compile.Checker].
func checkUpload(wasm []byte, memory int64) (cost uint64, found []actor.Fault) {
	m, found := check(wasm, memory)
	if len(found) > 0 {
		return 0, found
	}
	return m.Cost(), nil
}

// admit loads a module that is compiled, tries it out, and keeps its program unless it
// has faults.
func (e *Engine) admit(ctx context.Context, module compile.Module, wasm []byte) (*abi.Manifest, []actor.Fault, error) {
	outline, found := check(wasm, e.cfg.InspectMemory)
	if len(found) > 0 {
		return nil, found, nil
	}
	p, err := e.compile(ctx, module, outline)
	if err != nil {
		found, err := judge.NotCompiled(ctx, err, e.log)
		return nil, found, err
	}
	m, found, err := e.tryOut(ctx, p)
	if err == nil && len(found) == 0 {
		var f faults
		checkCapabilities(outline, m, &f)
		found = f
	}
	if err == nil && len(found) == 0 {
		e.programs.Put(module.Digest, p, p.room)
		return m, nil, nil
	}
	p.discard()
	return nil, found, err
}

// tryOut starts an instance, allocates in it, and reads its manifest.
func (e *Engine) tryOut(ctx context.Context, p *program) (*abi.Manifest, []actor.Fault, error) {
	var f faults
	i, err := p.instantiate(ctx, e.cfg.InspectMemory)
	if err != nil {
		if f.AddStep(ctx, judge.Start, "does not start", e.cfg.InitTimeout, err) {
			return nil, f, nil
		}
		return nil, nil, err
	}
	defer func() { _ = i.close(context.WithoutCancel(ctx)) }() // nothing is left to lose
	var text []byte
	type step struct {
		code, what string
		run        func(context.Context) error
	}
	steps := []step{
		{FaultAlloc, "cannot take a turn", func(ctx context.Context) error { return i.growFrame(ctx, minFrameBytes) }},
		{judge.Manifest, "has no usable manifest", func(ctx context.Context) (err error) {
			text, err = i.manifest(ctx)
			return err
		}},
	}
	if p.hasWarm && i.image == nil { // an image was warmed up, or its failure is to be told
		steps = append(steps, step{FaultWarm, "fails in " + abi.ExportWarm, i.warm})
	}
	for _, s := range steps {
		if err := i.limited(ctx, e.cfg.InspectTimeout, s.run); err != nil {
			if f.AddStep(ctx, s.code, s.what, e.cfg.InspectTimeout, err) {
				return nil, f, nil
			}
			return nil, nil, err
		}
	}
	m := f.ParseManifest(text)
	if len(f) > 0 {
		return nil, f, nil
	}
	return m, nil, nil
}

// limited runs one step under a deadline of its own.
func (i *instance) limited(ctx context.Context, timeout time.Duration, step func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			err = &confine.PanicError{What: "inspecting a module", Value: r, Stack: debug.Stack()}
		}
	}()
	i.out.Begin(nil)
	defer i.out.End()
	i.refuel(ctx, 0)
	return step(&guestContext{ctx, i})
}

// manifest copies what the guest says of itself.
func (i *instance) manifest(ctx context.Context) ([]byte, error) {
	fn := i.mod.ExportedFunction(abi.ExportManifest)
	var stack [1]uint64
	if err := i.failure(ctx, "read the manifest", i.call(ctx, fn, stack[:])); err != nil {
		return nil, err
	}
	ptr, size := uint32(stack[0]>>32), uint32(stack[0])
	if size > abi.MaxManifestBytes {
		return nil, protocol("greenroom_manifest returned %d bytes; at most %d are allowed", size, abi.MaxManifestBytes)
	}
	data, ok := i.mod.Memory().Read(ptr, size)
	if !ok {
		return nil, protocol("greenroom_manifest returned %d bytes at %d, beyond the end of memory at %d", size, ptr, i.mod.Memory().Size())
	}
	return append([]byte(nil), data...), nil
}
