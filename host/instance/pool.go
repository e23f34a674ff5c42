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
	Max         int // shared instances
}

// Instance is a guest of a pool. One goroutine at a time uses it.
type Instance struct {
	Guest     engine.Instance
	pool      *Pool
	release   func(*Instance) bool // of a dedicated one; see Make
	idleSince time.Time
	refused   error // why Take found no memory, the last time; nil if it never did

	// Guarded by Pools.mu.
	bytes             int64         // counted for it
	unsettled, listed *list.Element // of the app's unsettled and dedicated ones
	closed            bool
}

// Config is what pools are made of. All fields are required.
type Config struct {
	Engine engine.Engine
	// ModuleBytes reads a module.
	ModuleBytes func(ctx context.Context, app string, d actor.Digest) ([]byte, error)
	// Slots are for the guests that run to initialize an instance.
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

// CloseIdle closes the instances that nobody used since a time, and has the others give
// back what they do not hold.
func (ps *Pools) CloseIdle(since time.Time) {
	ps.mu.Lock()
	apps := ps.largest(0)
	ps.mu.Unlock()
	for _, a := range apps {
		for range ps.length(&a.unsettled) {
			if in := ps.pop(&a.unsettled); in != nil {
				ps.settle(in)
			}
		}
	}
	for _, p := range ps.All() {
		for _, in := range p.takeUnused(since) {
			in.Discard()
		}
	}
}

// Pool is the instances of one module for one app. Shared ones are bounded and
// used in last-in, first-out order, so that what is not needed grows old;
// dedicated ones belong to their activation, and only pass through here.
type Pool struct {
	pools *Pools
	app   *app
	key   Key

	mu      sync.Mutex
	program engine.Program // nil without instances: nothing else keeps its code in memory
	open    int            // instances, and attempts to make one
	made    int            // shared instances, and permissions to make one
	idle    []*Instance    // the last one was used last
	waiters []chan *Instance
}

// GiveBack ends the use of a shared instance whose run ended with err.
func (in *Instance) GiveBack(err error, now time.Time) {
	in.idleSince = now
	if Broken(err) || !in.pool.release(in) {
		in.Discard()
	}
}

// Acquire takes a shared instance, makes one, or waits for one until ctx ends.
func (p *Pool) Acquire(ctx context.Context) (*Instance, error) {
	p.mu.Lock()
	if in := p.takeNewest(); in != nil {
		p.mu.Unlock()
		return in, nil
	}
	if p.made < p.key.Max {
		p.made++
		p.mu.Unlock()
		return p.makeShared(ctx)
	}
	w := make(chan *Instance, 1)
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()

	select {
	case in := <-w:
		return p.granted(ctx, in)
	case <-ctx.Done():
	}
	p.mu.Lock()
	at := slices.Index(p.waiters, w)
	if at >= 0 {
		p.waiters = slices.Delete(p.waiters, at, at+1)
	}
	p.mu.Unlock()
	if at < 0 { // granted at the same moment: pass it on
		switch in := <-w; {
		case in == nil:
			p.returnPermission()
		case !p.release(in):
			in.Discard()
		}
	}
	return nil, ctx.Err()
}

// AcquireMore is Acquire for a turn that another one waits for, which has an instance itself: where
// all shared ones are in use it makes one more, which is closed after its use.
func (p *Pool) AcquireMore(ctx context.Context) (*Instance, error) {
	p.mu.Lock()
	if in := p.takeNewest(); in != nil {
		p.mu.Unlock()
		return in, nil
	}
	p.made++
	p.mu.Unlock()
	return p.makeShared(ctx)
}

// Lend lets others have the place of a shared instance in its pool, while its turn waits for
// another turn, until Regain.
func (in *Instance) Lend() {
	if !in.Dedicated() {
		in.pool.returnPermission()
	}
}

// Regain ends Lend. It waits for nothing: the pool may have more instances than it is to
// have until one of them is given back.
func (in *Instance) Regain() {
	if in.Dedicated() {
		return
	}
	in.pool.mu.Lock()
	defer in.pool.mu.Unlock()
	in.pool.made++
}

// takeNewest takes out the idle instance that was used last, nil if none is idle. The caller
// has the lock.
func (p *Pool) takeNewest() *Instance {
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	in := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return in
}

// granted turns what a waiter got, an instance or the permission to make one,
// into an instance.
func (p *Pool) granted(ctx context.Context, in *Instance) (*Instance, error) {
	if in != nil {
		return in, nil
	}
	return p.makeShared(ctx)
}

func (p *Pool) makeShared(ctx context.Context) (*Instance, error) {
	in, err := p.Make(ctx, nil)
	if err != nil {
		p.returnPermission()
	}
	return in, err
}

// returnPermission gives the permission to make a shared instance to whoever
// waits longest.
func (p *Pool) returnPermission() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made > p.key.Max || !p.grant(nil) {
		p.made--
	}
}

// grant hands an instance, or with nil a permission, to the first waiter. The
// caller has the lock.
func (p *Pool) grant(in *Instance) bool {
	if len(p.waiters) == 0 {
		return false
	}
	p.waiters[0] <- in
	p.waiters = slices.Delete(p.waiters, 0, 1)
	return true
}

// release gives a shared instance to whoever waits longest, or keeps it. It reports false if
// there are more than there are to be: then the instance stays the caller's.
func (p *Pool) release(in *Instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made > p.key.Max {
		return false
	}
	if !p.grant(in) {
		p.idle = append(p.idle, in)
	}
	return true
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
	if !in.Dedicated() {
		p.returnPermission()
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
	program, err := p.load(ctx)
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
	if err := slot.Enter(ctx, p.pools.cfg.Slots, &actor.Key{App: p.key.App}); err != nil {
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
	ctx = engine.WithReclaim(engine.WithOwner(ctx, engine.Owner{App: p.key.App, Serving: true}), p.pools.Reclaim)
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
