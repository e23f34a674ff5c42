package extism

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// Inspect judges a plug-in: it reads its outline, checks imports, compiles it,
// starts one instance under limits, reads its manifest, and checks that it
// exports what that names. It returns every fault that it finds; steps that a
// fault makes impossible are left out. Without a fault the manifest has its
// defaults filled in, and the program stays in memory, so that the first Load is
// free.
//
// The error is not about the plug-in: ctx ended, no capacity, engine closed, or a
// bug of ours.
func (e *Engine) Inspect(ctx context.Context, wasm []byte) (*abi.Manifest, []actor.Fault, error) {
	if !e.gate.Enter() {
		return nil, nil, fmt.Errorf("inspect plug-in: %w", actor.ErrStopping)
	}
	defer e.gate.Leave()
	spec, found, err := e.inspect(ctx, wasm)
	if err != nil {
		return nil, nil, fmt.Errorf("inspect plug-in: %w", err)
	}
	return spec, found, nil
}

func (e *Engine) inspect(ctx context.Context, wasm []byte) (*abi.Manifest, []actor.Fault, error) {
	m, found := e.check(wasm, e.cfg.InspectMemory)
	if len(found) > 0 {
		return nil, found, nil
	}
	text, inSection := manifest.Section(wasm)
	exp, inExport := m.Export(abi.ExportManifest)
	var f faults
	switch {
	case !inSection && !inExport:
		f.add(FaultNoManifest, "has no manifest: export a function %s that outputs it, or give one with \"greenroom deploy --manifest FILE\" (docs/extism.md)", abi.ExportManifest)
	case !inSection && exp.Kind != binary.KindFunc:
		f.add(FaultExportSignature, "exports %s as a %s; it must be a function that outputs the manifest", abi.ExportManifest, exp.Kind)
	case !inSection:
		checkSignature(m, abi.ExportManifest, exp, &f)
	}
	if len(f) > 0 {
		return nil, f, nil
	}

	p, err := e.compile(ctx, actor.DigestOf(wasm), wasm, m)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, confine.Ended(ctx)
		}
		return nil, []actor.Fault{e.compileFault(err)}, nil
	}
	i, err := p.instantiate(ctx, e.cfg.InspectMemory)
	if err != nil {
		if f.addStep(ctx, FaultStart, "does not start", e.cfg.InitTimeout, err) {
			return nil, f, nil
		}
		return nil, nil, err
	}
	defer func() { _ = i.Close(ctx) }() // nothing is left to lose
	if !inSection {
		if text, err = i.describe(ctx); err != nil {
			if f.addStep(ctx, FaultManifest, "has no usable manifest", e.cfg.InspectTimeout, err) {
				return nil, f, nil
			}
			return nil, nil, err
		}
	}
	spec, wrong := manifest.Parse(text)
	for _, w := range wrong {
		f.add(w.Code, "the manifest: %s", w.Message)
	}
	if len(f) == 0 {
		checkMethods(m, spec, &f)
		checkCapabilities(m, spec, &f)
	}
	if len(f) > 0 {
		return nil, f, nil
	}
	e.keep(p)
	return spec, nil, nil
}

func (e *Engine) compileFault(err error) actor.Fault {
	var bug *panicError
	if errors.As(err, &bug) {
		e.log.Error("the Wasm compiler panicked", "error", err, "stack", string(bug.stack))
		return actor.Fault{Code: FaultCompile, Message: "the compiler cannot handle this module; please report it with the module attached"}
	}
	return actor.Fault{Code: FaultCompile, Message: fmt.Sprintf("does not compile: %v", err)}
}

// describe copies what the plug-in says of itself.
func (i *instance) describe(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, i.program.engine.cfg.InspectTimeout)
	defer cancel()
	i.out.begin(nil)
	defer i.out.end()
	err := i.call(context.WithValue(ctx, instanceKey{}, i), abi.ExportManifest, nil, 0)
	if err := i.failure(ctx, "read the manifest", err); err != nil {
		return nil, err
	}
	if i.failed != nil {
		return nil, i.failed
	}
	if i.output.length > abi.MaxManifestBytes {
		return nil, &actor.TrapError{Kind: actor.TrapProtocol, Message: fmt.Sprintf(
			"it output %d bytes; at most %d are allowed", i.output.length, abi.MaxManifestBytes)}
	}
	data, ok := readMemory(i.plugin.Memory(), i.output.offset, i.output.length)
	if !ok {
		return nil, &actor.TrapError{Kind: actor.TrapProtocol, Message: (&memoryFault{"output_set", i.output.offset, i.output.length}).Error()}
	}
	return append([]byte(nil), data...), nil
}

// addStep adds what stopped a step, and reports false if it was not the plug-in.
func (f *faults) addStep(ctx context.Context, code, what string, timeout fmt.Stringer, err error) bool {
	var trap *actor.TrapError
	var onPurpose *actor.GuestError
	switch {
	case ctx.Err() != nil:
		return false
	case errors.As(err, &trap):
		message := trap.Message
		if trap.Stack != "" && trap.Kind != actor.TrapStack {
			lines := strings.Split(trap.Stack, "\n")
			message += "; at " + strings.Join(lines[:min(3, len(lines))], " < ")
		}
		f.add(code, "%s: %s", what, message)
	case errors.As(err, &onPurpose):
		f.add(code, "%s: it failed: %s", what, onPurpose.Error())
	case errors.Is(err, actor.ErrDeadline):
		f.add(code, "%s: it did not return within %s; do no work while starting", what, timeout)
	default:
		return false
	}
	return true
}
