package instance

import (
	"context"
	"errors"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/executor"
)

// Acquire waits until the pool has a place for one more turn, or until ctx ends, and takes an idle
// instance or makes one.
func (p *Pool) Acquire(ctx context.Context) (*Instance, error) {
	if err := p.takePlace(ctx); err != nil {
		return nil, err
	}
	in, err := p.AcquireMore(ctx)
	if err != nil {
		p.returnPlace()
		return nil, err
	}
	in.placed = true
	return in, nil
}

// AcquireMore is Acquire for a turn that another one waits for, which has an instance itself: it
// needs no place.
func (p *Pool) AcquireMore(ctx context.Context) (*Instance, error) {
	if in := p.Spare(); in != nil {
		return in, nil
	}
	return p.Make(ctx, nil)
}

// Make makes an instance, if the guests' memory allows: where it does not, others
// that are not in use are closed. A dedicated one has release, which takes it from its
// activation and reports true, or false if it is in use there; nil makes a shared one.
func (p *Pool) Make(ctx context.Context, release func(*Instance) bool) (*Instance, error) {
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
	in, err := p.make(ctx, release)
	if err != nil {
		p.closed()
	}
	return in, err
}

func (p *Pool) make(ctx context.Context, release func(*Instance) bool) (*Instance, error) {
	ctx = engine.WithOwner(ctx, engine.Owner{App: p.key.App, Serving: true})
	program, err := p.load(engine.WithReclaim(ctx, p.pools.ReclaimOf))
	if err != nil {
		return nil, err
	}
	in := &Instance{pool: p, release: release}
	if in.Guest, err = p.newGuest(engine.WithMemory(ctx, in), in, program); err != nil {
		return nil, in.Explain(err)
	}
	if release != nil {
		p.pools.mu.Lock()
		in.listed = p.app.dedicated.PushBack(in)
		p.pools.mu.Unlock()
	}
	p.pools.cfg.Made(p.event(in))
	return in, nil
}

// making is what an instance costs its app, in fuel: an app whose turns all trap has one made for
// each. It is about the time that it takes.
const making = 50_000

// newGuest makes a guest; where the engine has no room, in the place of one that
// is not in use.
func (p *Pool) newGuest(ctx context.Context, in *Instance, program engine.Program) (engine.Instance, error) {
	var slot executor.Slot
	if err := slot.Enter(ctx, p.pools.cfg.Slots.PoolOf(ctx), &actor.Key{App: p.key.App}); err != nil {
		return nil, err
	}
	defer slot.Leave(making)
	ctx = engine.WithProcessor(ctx, &slot)
	for {
		guest, err := program.NewInstance(ctx, p.key.MemoryBytes)
		if err == nil || !errors.Is(err, actor.ErrOverloaded) || in.refused != nil || !p.pools.Reclaim() {
			return guest, err
		}
	}
}

// load returns the program. The engine has one load serve all callers that need it, of all
// pools.
func (p *Pool) load(ctx context.Context) (engine.Program, error) {
	p.mu.Lock()
	program := p.program
	p.mu.Unlock()
	if program != nil {
		return program, nil
	}
	cfg := p.pools.cfg
	program, err := cfg.Engine.Load(ctx, p.key.Digest, func(ctx context.Context) ([]byte, error) {
		return cfg.ModuleBytes(ctx, p.key.App, p.key.Digest)
	})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.program = program
	return program, nil
}
