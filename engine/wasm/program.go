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
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// program is a compiled module. Its code is freed when nothing reaches it any
// more: not the cache, no instance, nobody who asked for it.
type program struct {
	engine   *Engine
	digest   actor.Digest
	compiled wazero.CompiledModule
	room     compile.Room    // for what it takes, about
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
	p.engine.programs.Release(p.room)
	p.cleanup.Stop()
	_ = p.compiled.Close(context.Background()) // memory alone
}

// NewInstance implements [engine.Program]. Besides the errors of Run it returns
// [actor.ErrOverloaded] where the host has no room for one more.
func (p *program) NewInstance(ctx context.Context, memoryLimit int64) (engine.Instance, error) {
	if !p.engine.gate.Enter() {
		return nil, fmt.Errorf("instantiate module %s: %w", p.digest.Short(), actor.ErrStopping)
	}
	defer p.engine.gate.Leave()
	i, err := p.instantiate(ctx, memoryLimit)
	if err != nil {
		return nil, fmt.Errorf("instantiate module %s: %w", p.digest.Short(), err)
	}
	return i, nil
}

func (p *program) instantiate(ctx context.Context, memoryLimit int64) (*instance, error) {
	limit := min(uint64(max(memoryLimit, 0))/confine.PageSize, p.maxPages)
	if p.minPages > limit {
		return nil, &actor.TrapError{Kind: actor.TrapMemory, Message: fmt.Sprintf(
			"the guest needs %d bytes of memory to start; its limit is %d", p.minPages*confine.PageSize, memoryLimit)}
	}
	img := p.image.Load()
	if img == nil && p.detached && limit*confine.PageSize > p.imageless.Load() {
		var err error
		if img, err = p.makeImage(ctx, limit*confine.PageSize); err != nil {
			return nil, err
		}
	}
	if img != nil && img.size > limit*confine.PageSize {
		img = nil // it starts in a way of its own under this limit, or not at all
	}
	return p.newInstance(ctx, limit*confine.PageSize, img)
}

func (p *program) newInstance(ctx context.Context, limit uint64, img *image) (*instance, error) {
	size := p.minPages * confine.PageSize
	if img != nil {
		size = img.size
	}
	mem, err := p.engine.pool.reserve(engine.MemoryOf(ctx), p.heap, size, limit, img)
	if err != nil {
		return nil, err
	}
	i := &instance{program: p, mem: mem, image: img, entry: &entry{}}
	p.instances.Add(1)
	if err := startInTime(ctx, i); err != nil {
		_ = i.close(ctx) // err says more
		return nil, err
	}
	mem.settle()
	return i, nil
}

// makeImage starts an instance for its image alone. It returns nil if the guest
// is not such that one would be right for every instance, or fails where its
// first turn had better do so.
func (p *program) makeImage(ctx context.Context, limit uint64) (*image, error) {
	i, err := p.newInstance(ctx, limit, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = i.close(context.WithoutCancel(ctx)) }() // nothing is left to lose
	trial := &guestContext{ctx, i}
	i.refuel(trial, trialFuel)
	if i.mem.refused > 0 || i.warmUp(trial) != nil {
		if ctx.Err() == nil {
			p.imageless.Store(max(limit, p.imageless.Load()))
		}
		return nil, nil
	}
	img := takeImage(i)
	room, err := p.engine.programs.Admit(ctx, img.bytes())
	if err != nil {
		return nil, nil // the next instance tries again
	}
	if !p.image.CompareAndSwap(nil, img) {
		p.engine.programs.Release(room)
		return p.image.Load(), nil
	}
	p.room = p.room.With(room) // of one that Put has yet to see
	p.engine.programs.Extend(p.digest, p, room)
	return img, nil
}
