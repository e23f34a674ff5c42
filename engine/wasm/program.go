package wasm

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/tetratelabs/wazero"
	"golang.org/x/sync/singleflight"

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
	runtime  *wasmRuntime
	compiled wazero.CompiledModule
	// minPages and maxPages are what the module declares of its memory.
	minPages, maxPages uint64
	hasInit, hasWarm   bool
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
}

var _ engine.Program = (*program)(nil)

func newProgram(e *Engine, digest actor.Digest, rt *wasmRuntime, compiled wazero.CompiledModule, m *binary.Module, prepared *binary.Prepared) *program {
	p := &program{
		engine: e, digest: digest, runtime: rt, compiled: compiled,
		detached: prepared.Detached, start: prepared.Start, globals: prepared.Globals,
	}
	for _, s := range prepared.Segments { // without the rest of the module
		p.segments = append(p.segments, binary.Segment{Offset: s.Offset, Data: bytes.Clone(s.Data)})
	}
	p.minPages, p.maxPages = uint64(m.Memories[0].Min), maxPages
	if m.Memories[0].HasMax {
		p.maxPages = uint64(m.Memories[0].Max)
	}
	_, p.hasInit = m.Export(exportInitialize)
	_, p.hasWarm = m.Export(abi.ExportWarm)
	runtime.AddCleanup(p, func(c wazero.CompiledModule) {
		_ = c.Close(context.Background()) // nobody is left to tell
	}, compiled)
	return p
}

// programs keeps compiled modules by digest. The strong part is an LRU; the
// weak part still finds what was evicted while somebody uses it, so that one
// module is never compiled twice at a time.
type programs struct {
	mu     sync.Mutex
	recent *simplelru.LRU[actor.Digest, *program]
	alive  map[actor.Digest]weak.Pointer[program]
	flight singleflight.Group
}

func newPrograms(size int) *programs {
	recent, err := simplelru.NewLRU[actor.Digest, *program](size, nil)
	if err != nil {
		panic(err) // only for a size below 1, which Config refuses
	}
	return &programs{recent: recent, alive: make(map[actor.Digest]weak.Pointer[program])}
}

func (ps *programs) get(d actor.Digest) *program {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p, ok := ps.recent.Get(d); ok {
		return p
	}
	p := ps.alive[d].Value()
	if p != nil {
		ps.recent.Add(d, p)
	}
	return p
}

func (ps *programs) put(p *program) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.recent.Add(p.digest, p)
	ps.alive[p.digest] = weak.Make(p)
	for d, w := range ps.alive { // as small as what is alive: at most a few hundred
		if w.Value() == nil {
			delete(ps.alive, d)
		}
	}
}

func (ps *programs) len() int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.recent.Len()
}

// Load implements [engine.Engine]. One compilation serves all who ask for a
// module at the same time, and goes on when they leave. A module that has
// faults is an [*actor.InvalidModuleError].
func (e *Engine) Load(ctx context.Context, digest actor.Digest, wasm func(context.Context) ([]byte, error)) (engine.Program, error) {
	if !e.gate.Enter() {
		return nil, fmt.Errorf("load module %s: %w", digest.Short(), actor.ErrStopping)
	}
	defer e.gate.Leave()
	if p := e.programs.get(digest); p != nil {
		return p, nil
	}
	shared := context.WithoutCancel(ctx)
	result := e.programs.flight.DoChan(string(digest), func() (any, error) {
		if !e.gate.Enter() {
			return nil, actor.ErrStopping
		}
		defer e.gate.Leave()
		if p := e.programs.get(digest); p != nil {
			return p, nil
		}
		return e.load(shared, digest, wasm)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, fmt.Errorf("load module %s: %w", digest.Short(), r.Err)
		}
		return r.Val.(*program), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("load module %s: %w", digest.Short(), confine.Ended(ctx))
	}
}

func (e *Engine) load(ctx context.Context, digest actor.Digest, wasm func(context.Context) ([]byte, error)) (_ *program, err error) {
	defer func() {
		// This runs on singleflight's goroutine, where a panic would end the process.
		if r := recover(); r != nil {
			err = &panicError{what: "loading a module", value: r}
		}
	}()
	code, err := wasm(ctx)
	if err != nil {
		return nil, err
	}
	m, faults := e.check(code, maxPages*confine.PageSize)
	if len(faults) > 0 {
		return nil, &actor.InvalidModuleError{Faults: faults}
	}
	p, err := e.compile(ctx, digest, m)
	if err != nil {
		return nil, err
	}
	e.programs.put(p)
	return p, nil
}
