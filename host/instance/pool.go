package instance

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/executor"
)

// Key names a pool: apps share no guest memory, and what bounds an instance
// is fixed when it is made.
type Key struct {
	App         string
	Digest      actor.Digest
	MemoryBytes int64
	Max         int // turns that have a shared instance at a time, called ones aside
}

// Instance is a guest of a pool. One goroutine at a time uses it.
type Instance struct {
	Guest     engine.Instance
	pool      *Pool
	release   func(*Instance) bool // of a dedicated one; see Make
	placed    bool                 // its turn has one of the pool's places
	idleSince time.Time
	refused   error // why Take found no memory, the last time; nil if it never did

	// Guarded by Pools.mu.
	bytes             int64         // counted for it
	untrimmed, listed *list.Element // of the app's untrimmed and dedicated ones
	closed            bool
}

// Config is what pools are made of. All fields are required.
type Config struct {
	Engine engine.Engine
	// ModuleBytes reads a module.
	ModuleBytes func(ctx context.Context, app string, d actor.Digest) ([]byte, error)
	// Slots are for the guests that run to initialize an instance, in the pool of the turn that
	// needs it.
	Slots *executor.Slots
	// Memory bounds the memory of all instances together, and MemoryPerApp that of an
	// app's, in bytes. At a bound those that are not in use are closed; then
	// actor.ErrOverloaded refuses a new one, or a turn, and an instance does not grow.
	Memory, MemoryPerApp int64
	Logger               *slog.Logger
	// Made and Closed are called for each instance.
	Made, Closed func(Event)
}

// Event is one guest instance made or closed.
type Event struct {
	App    string
	Digest actor.Digest
	// MemoryBytes is the instance's memory at that moment.
	MemoryBytes int64
	// Dedicated instances stay with one activation.
	Dedicated bool
}

// Pools are the instances of all modules. All methods may be called concurrently.
type Pools struct {
	cfg Config

	mu    sync.Mutex
	used  int64         // bytes counted for all instances
	byKey map[Key]*Pool // never shrinks: a pool without instances is small
	apps  map[string]*app
}

// New returns pools without instances.
func New(cfg Config) *Pools {
	return &Pools{cfg: cfg, byKey: make(map[Key]*Pool), apps: make(map[string]*app)}
}

// Get returns the pool of a key.
func (ps *Pools) Get(key Key) *Pool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byKey[key]
	if p == nil {
		a := ps.apps[key.App]
		if a == nil {
			a = &app{}
			ps.apps[key.App] = a
		}
		p = &Pool{pools: ps, app: a, key: key}
		ps.byKey[key] = p
		a.pools = append(a.pools, p)
	}
	return p
}

// All returns the pools that there are.
func (ps *Pools) All() []*Pool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	out := make([]*Pool, 0, len(ps.byKey))
	for _, p := range ps.byKey {
		out = append(out, p)
	}
	return out
}

// Reclaim closes one instance that is not in use, of the app that holds most, and
// reports whether there was any.
func (ps *Pools) Reclaim() bool {
	ps.mu.Lock()
	apps := ps.largest(-1)
	ps.mu.Unlock()
	return slices.ContainsFunc(apps, ps.closeIdleOf)
}

// ReclaimOf closes one instance of an app that is not in use, and reports whether there was any.
func (ps *Pools) ReclaimOf(name string) bool {
	ps.mu.Lock()
	a := ps.apps[name]
	ps.mu.Unlock()
	return a != nil && ps.closeIdleOf(a)
}

// CloseIdle closes the instances that nobody used since a time, and has the others give
// back what they do not hold.
func (ps *Pools) CloseIdle(since time.Time) {
	ps.mu.Lock()
	apps := ps.largest(0)
	ps.mu.Unlock()
	for _, a := range apps {
		for range ps.length(&a.untrimmed) {
			if in := ps.pop(&a.untrimmed); in != nil {
				ps.trim(in)
			}
		}
	}
	for _, p := range ps.All() {
		for _, in := range p.takeUnused(since) {
			in.Discard()
		}
	}
}

// Pool is the instances of one module for one app. Shared ones are used in last-in, first-out
// order, so that what is not needed grows old; dedicated ones belong to their activation, and
// only pass through here.
type Pool struct {
	pools *Pools
	app   *app
	key   Key

	mu      sync.Mutex
	program engine.Program // nil without instances: nothing else keeps its code in memory
	open    int            // instances, and attempts to make one
	idle    []*Instance    // shared ones, Max at most; the last one was used last
	places  int            // turns that have a shared instance and that no other one waits for
	waiters []chan struct{}
}

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

// Spare is AcquireMore where that waits for nothing: it takes the idle instance that was used last,
// and returns nil if none is idle.
func (p *Pool) Spare() *Instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	in := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return in
}

// GiveBack ends the use of a shared instance whose run ended with err.
func (in *Instance) GiveBack(err error, now time.Time) {
	in.idleSince = now
	if placed := in.placed; Broken(err) || !in.pool.keep(in) {
		in.Discard()
	} else if placed {
		in.pool.returnPlace()
	}
}

// keep adds an instance to the idle ones, if there is room for it.
func (p *Pool) keep(in *Instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= p.key.Max {
		return false
	}
	in.placed = false
	p.idle = append(p.idle, in)
	return true
}

// Lend lets another turn have the place of the instance, while its turn waits for a called one,
// until Regain. It reports false if the instance has no place.
func (in *Instance) Lend() bool {
	if !in.placed {
		return false
	}
	in.placed = false
	in.pool.returnPlace()
	return true
}

// Regain ends Lend. It waits for nothing: more turns than the pool has places for may run until one
// of them ends.
func (in *Instance) Regain() {
	in.pool.mu.Lock()
	defer in.pool.mu.Unlock()
	in.pool.places++
	in.placed = true
}

// takePlace takes a place, which returnPlace gives back.
func (p *Pool) takePlace(ctx context.Context) error {
	p.mu.Lock()
	if p.places < p.key.Max {
		p.places++
		p.mu.Unlock()
		return nil
	}
	w := make(chan struct{})
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()

	select {
	case <-w:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	at := slices.Index(p.waiters, w)
	if at >= 0 {
		p.waiters = slices.Delete(p.waiters, at, at+1)
	}
	p.mu.Unlock()
	if at < 0 { // given at the same moment: pass it on
		p.returnPlace()
	}
	return ctx.Err()
}

// returnPlace gives a place to the turn that waits longest.
func (p *Pool) returnPlace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places > p.key.Max || len(p.waiters) == 0 {
		p.places--
		return
	}
	close(p.waiters[0])
	p.waiters = slices.Delete(p.waiters, 0, 1)
}

// Discard closes an instance, whoever's it was.
func (in *Instance) Discard() {
	p := in.pool
	event := p.event(in)
	// Without a deadline of its own: closing frees memory and must not be cut short.
	if err := in.Guest.Close(context.Background()); err != nil {
		p.pools.cfg.Logger.Error("close instance", "app", p.key.App, "module", p.key.Digest, "error", err)
	}
	p.pools.gone(in)
	p.closed()
	p.pools.cfg.Closed(event)
	if in.placed {
		in.placed = false
		p.returnPlace()
	}
}

func (p *Pool) event(in *Instance) Event {
	return Event{App: p.key.App, Digest: p.key.Digest, MemoryBytes: in.memory(), Dedicated: in.Dedicated()}
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

// closed counts an instance less, and lets go of the program with the last.
func (p *Pool) closed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open--; p.open == 0 {
		p.program = nil
	}
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

// TakeOldest takes out the idle instance that was unused for longest.
func (p *Pool) TakeOldest() *Instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	in := p.idle[0]
	p.idle = slices.Delete(p.idle, 0, 1)
	return in
}

// takeUnused takes out the idle instances that were last used before since.
func (p *Pool) takeUnused(since time.Time) []*Instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.idle) && p.idle[n].idleSince.Before(since) {
		n++
	}
	out := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	return out
}

// Dedicated reports whether the instance belongs to one activation.
func (in *Instance) Dedicated() bool { return in.release != nil }

// Pool is the one that the instance was made by.
func (in *Instance) Pool() *Pool { return in.pool }

// Broken reports whether an instance whose run ended with err can only be closed.
func Broken(err error) bool {
	if err == nil {
		return false
	}
	var guest *actor.GuestError
	return !errors.As(err, &guest)
}
