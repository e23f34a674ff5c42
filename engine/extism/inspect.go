package extism

import (
	"context"
	"fmt"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/judge"
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
func (e *Engine) Inspect(ctx context.Context, code actor.Code) (*abi.Manifest, []actor.Fault, error) {
	return judge.Inspection{
		What: "plug-in", Gate: &e.gate, Compiler: e.compiler, Log: e.log,
		Target: compile.Plugin, Memory: e.cfg.InspectMemory, Check: checkUpload,
		Module: toCompile, Admit: e.admit,
	}.Run(ctx, code)
}

// checkUpload is a [compile.Checker].
func checkUpload(wasm []byte, memory int64) (cost uint64, found []actor.Fault) {
	m, _, found := checkWithManifest(wasm, memory)
	if len(found) > 0 {
		return 0, found
	}
	return m.Cost(), nil
}

// checkWithManifest is check, and also looks for the manifest: text is nil if the plug-in
// outputs it.
func checkWithManifest(wasm []byte, memory int64) (m *binary.Module, text []byte, found []actor.Fault) {
	m, found = check(wasm, memory)
	if len(found) > 0 {
		return nil, nil, found
	}
	text, inSection := manifest.Section(wasm)
	exp, inExport := m.Export(abi.ExportManifest)
	var f faults
	switch {
	case inSection:
		return m, text, nil
	case !inExport:
		f.Add(FaultNoManifest, "has no manifest: export a function %s that outputs it, or give one with \"greenroom deploy --manifest FILE\" (docs/extism.md)", abi.ExportManifest)
	case exp.Kind != binary.KindFunc:
		f.Add(judge.ExportSignature, "exports %s as a %s; it must be a function that outputs the manifest", abi.ExportManifest, exp.Kind)
	default:
		checkSignature(m, abi.ExportManifest, exp, &f)
	}
	return m, nil, f
}

// admit loads a plug-in that is compiled, tries it out, and keeps its program unless it
// has faults.
func (e *Engine) admit(ctx context.Context, code compile.Module, wasm []byte) (*abi.Manifest, []actor.Fault, error) {
	m, text, found := checkWithManifest(wasm, e.cfg.InspectMemory)
	if len(found) > 0 {
		return nil, found, nil
	}
	p, err := e.compile(ctx, code, m)
	if err != nil {
		found, err := judge.NotCompiled(ctx, err, e.log)
		return nil, found, err
	}
	spec, found, err := e.tryOut(ctx, p, m, text)
	if err == nil && len(found) == 0 {
		e.programs.Put(code.Digest, p, p.room)
		return spec, nil, nil
	}
	e.programs.Release(p.room)
	e.discard(p.compiled)
	return nil, found, err
}

// tryOut starts an instance, asks it for its manifest unless text has it, and
// checks that the plug-in is what that says.
func (e *Engine) tryOut(ctx context.Context, p *program, m *binary.Module, text []byte) (*abi.Manifest, []actor.Fault, error) {
	var f faults
	i, err := p.instantiate(ctx, e.cfg.InspectMemory)
	if err != nil {
		if f.AddStep(ctx, judge.Start, "does not start", e.cfg.InitTimeout, err) {
			return nil, f, nil
		}
		return nil, nil, err
	}
	defer func() { _ = i.Close(ctx) }() // nothing is left to lose
	if text == nil {
		if text, err = i.describe(ctx); err != nil {
			if f.AddStep(ctx, judge.Manifest, "has no usable manifest", e.cfg.InspectTimeout, err) {
				return nil, f, nil
			}
			return nil, nil, err
		}
	}
	spec := f.ParseManifest(text)
	if len(f) == 0 {
		checkMethods(m, spec, &f)
		checkCapabilities(m, spec, &f)
	}
	return spec, f, nil
}

// describe copies what the plug-in says of itself.
func (i *instance) describe(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, i.program.engine.cfg.InspectTimeout)
	defer cancel()
	i.out.Begin(nil)
	defer i.out.End()
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
