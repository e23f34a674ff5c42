package wasm

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/tetratelabs/wazero"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// program is a compiled module. Its code is freed when nothing reaches it any
// more: not the cache, no instance, nobody who asked for it.
type program struct {
	engine   *Engine
	digest   actor.Digest
	compiled wazero.CompiledModule
	bytes    int64           // that it takes, about
	cleanup  runtime.Cleanup // that frees compiled
	// minPages and maxPages are what the module declares of its memory.
	minPages, maxPages uint64
	// heap is what an instance takes of Go's heap, in bytes.
	heap             uint64
	hasInit, hasWarm bool
	// If the module is detached, segments and start are the host's to run, and
	// globals counts the mutable ones that it can set; see package binary.
	detached bool
	segments []binary.Segment
	start    bool
	globals  int

	// image is what instances are made from, nil before the first and where
	// there cannot be any; imageless is the largest memory limit under which none
	// could be made.
	image     atomic.Pointer[image]
	imageless atomic.Uint64

	instances atomic.Int64 // that are open
}

var _ engine.Program = (*program)(nil)

func newProgram(e *Engine, digest actor.Digest, compiled wazero.CompiledModule, m *binary.Module, prepared *binary.Prepared) *program {
	p := &program{
		engine: e, digest: digest, compiled: compiled,
		detached: prepared.Detached, start: prepared.Start, globals: prepared.Globals,
	}
	for _, s := range prepared.Segments { // without the rest of the module
		p.segments = append(p.segments, binary.Segment{Offset: s.Offset, Data: bytes.Clone(s.Data)})
	}
	p.minPages, p.maxPages = uint64(m.Memories[0].Min), maxPages
	if m.Memories[0].HasMax {
		p.maxPages = uint64(m.Memories[0].Max)
	}
	p.heap = instanceBytes + elementBytes*prepared.Elements
	_, p.hasInit = m.Export(exportInitialize)
	_, p.hasWarm = m.Export(abi.ExportWarm)
	p.cleanup = runtime.AddCleanup(p, func(c wazero.CompiledModule) {
		_ = c.Close(context.Background()) // nobody is left to tell
	}, compiled)
	return p
}

func (p *program) inUse() bool { return p.instances.Load() > 0 }

// discard frees a program that nobody else has.
func (p *program) discard() {
	p.engine.programs.Release(p.bytes)
	p.cleanup.Stop()
	_ = p.compiled.Close(context.Background()) // memory alone
}

// Load implements [engine.Engine]. One compilation serves all who ask for a
// module at the same time, and ends when all have left. A module that has
// faults is an [*actor.InvalidModuleError].
func (e *Engine) Load(ctx context.Context, digest actor.Digest, wasm func(context.Context) ([]byte, error)) (engine.Program, error) {
	p, err := e.programs.Load(ctx, &e.gate, digest, func(ctx context.Context) (*program, error) {
		code, err := wasm(ctx)
		if err != nil {
			return nil, err
		}
		m, faults := check(code, maxPages*confine.PageSize)
		if len(faults) > 0 {
			return nil, &actor.InvalidModuleError{Faults: faults}
		}
		p, err := e.compile(ctx, toCompile(digest, bytes.NewReader(code), m.Cost()), m)
		if err != nil {
			return nil, err
		}
		e.programs.Put(digest, p, p.bytes)
		return p, nil
	})
	if err != nil {
		return nil, fmt.Errorf("load module %s: %w", digest.Short(), err)
	}
	return p, nil
}
