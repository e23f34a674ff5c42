package extism

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// maxMemory is what 32-bit addresses reach, in bytes.
const maxMemory = 4 << 30

// program is a compiled plug-in. Its code is freed when nothing reaches it any
// more: not the cache, no instance, nobody who asked for it.
type program struct {
	engine   *Engine
	digest   actor.Digest
	compiled *compiled
	room     compile.Room // for what it takes, about
	// init is the export, under the name that rewire gave it, that starts the
	// plug-in's language runtime; empty if there is none.
	init string

	instances atomic.Int64 // that are open
}

var _ engine.Program = (*program)(nil)

func newProgram(e *Engine, digest actor.Digest, c *compiled, m *binary.Module) *program {
	p := &program{engine: e, digest: digest, compiled: c}
	for _, name := range initExports {
		if exp, ok := m.Export(name); ok && exp.Kind == binary.KindFunc {
			p.init = hiddenExport + name
			break
		}
	}
	runtime.AddCleanup(p, e.discard, c)
	return p
}

func (p *program) inUse() bool { return p.instances.Load() > 0 }

// NewInstance implements [engine.Program]. Besides the errors of Run it returns
// [actor.ErrOverloaded] where the host has no room for one more.
func (p *program) NewInstance(ctx context.Context, memoryLimit int64) (engine.Instance, error) {
	if !p.engine.gate.Enter() {
		return nil, fmt.Errorf("instantiate plug-in %s: %w", p.digest.Short(), actor.ErrStopping)
	}
	defer p.engine.gate.Leave()
	i, err := p.instantiate(ctx, memoryLimit)
	if err != nil {
		return nil, fmt.Errorf("instantiate plug-in %s: %w", p.digest.Short(), err)
	}
	return i, nil
}

func (p *program) instantiate(ctx context.Context, memoryLimit int64) (*instance, error) {
	limit := min(uint64(max(memoryLimit, 0)), maxMemory)
	i := &instance{program: p, memory: engine.MemoryOf(ctx), limit: limit / confine.PageSize * confine.PageSize}
	p.instances.Add(1)
	if err := i.start(ctx); err != nil {
		p.instances.Add(-1)
		return nil, err
	}
	return i, nil
}
