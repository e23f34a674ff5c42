package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
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
	dedicated bool
	bytes     int64 // as counted in pools.memory
	idleSince time.Time
}

// Config is what pools are made of. All fields but TakeIdle are required.
type Config struct {
	Engine engine.Engine
	// ModuleBytes reads a module.
	ModuleBytes func(ctx context.Context, app string, d actor.Digest) ([]byte, error)
	// Memory bounds the memory of all instances together, in bytes. At the bound
	// those that are not in use are closed, then a new one is refused with
	// actor.ErrOverloaded. Instances that run may pass it by what they grow.
	Memory int64
	Logger *slog.Logger
	// TakeIdle finds a dedicated instance that is not in use, nil if there is none.
	TakeIdle func() *Instance
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
	cfg    Config
	memory atomic.Int64 // bytes of all instances

	mu    sync.Mutex
	byKey map[Key]*Pool // never shrinks: a pool without instances is small
}

// New returns pools without instances.
func New(cfg Config) *Pools { return &Pools{cfg: cfg, byKey: make(map[Key]*Pool)} }

// Get returns the pool of a key.
func (ps *Pools) Get(key Key) *Pool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byKey[key]
	if p == nil {
		p = &Pool{pools: ps, key: key}
		ps.byKey[key] = p
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

// reclaim closes one instance that is not in use, and reports whether there was
// any.
func (ps *Pools) reclaim() bool {
	for _, p := range ps.All() {
		if in := p.TakeOldest(); in != nil {
			in.Discard()
			return true
		}
	}
	if in := ps.cfg.TakeIdle(); in != nil {
		in.Discard()
		return true
	}
	return false
}

// CloseIdle closes the instances that nobody used since a time.
func (ps *Pools) CloseIdle(since time.Time) {
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
	pools   *Pools
	key     Key
	typical atomic.Int64 // bytes of the instance made last

	mu      sync.Mutex
	program engine.Program
	loading chan struct{} // closed when the load under way has ended
	made    int           // shared instances, and permissions to make one
	idle    []*Instance   // the last one was used last
	waiters []chan *Instance
}

// GiveBack ends the use of a shared instance whose run ended with err.
func (in *Instance) GiveBack(err error, now time.Time) {
	if Broken(err) {
		in.Discard()
		return
	}
	in.Count()
	in.idleSince = now
	in.pool.release(in)
}

// Acquire takes a shared instance, makes one, or waits for one until ctx ends.
func (p *Pool) Acquire(ctx context.Context) (*Instance, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		in := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
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
		if in := <-w; in != nil {
			p.release(in)
		} else {
			p.returnPermission()
		}
	}
	return nil, ctx.Err()
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
	in, err := p.Make(ctx, false)
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
	if !p.grant(nil) {
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

// release gives a shared instance to whoever waits longest, or keeps it.
func (p *Pool) release(in *Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.grant(in) {
		p.idle = append(p.idle, in)
	}
}

// Count brings the total up to date with what the instance grew by.
func (in *Instance) Count() {
	now := in.Guest.MemoryBytes()
	if now == in.bytes {
		return
	}
	in.pool.pools.memory.Add(now - in.bytes)
	in.bytes = now
}

// Discard closes an instance, whoever's it was.
func (in *Instance) Discard() {
	p := in.pool
	in.Count()
	event := p.event(in)
	// Without a deadline of its own: closing frees memory and must not be cut short.
	if err := in.Guest.Close(context.Background()); err != nil {
		p.pools.cfg.Logger.Error("close instance", "app", p.key.App, "module", p.key.Digest, "error", err)
	}
	p.pools.memory.Add(-in.bytes)
	p.pools.cfg.Closed(event)
	if !in.dedicated {
		p.returnPermission()
	}
}

func (p *Pool) event(in *Instance) Event {
	return Event{App: p.key.App, Digest: p.key.Digest, MemoryBytes: in.bytes, Dedicated: in.dedicated}
}

// Make makes an instance, if the guests' memory allows: where it does not, others
// that are not in use are closed.
func (p *Pool) Make(ctx context.Context, dedicated bool) (*Instance, error) {
	program, err := p.load(ctx)
	if err != nil {
		return nil, err
	}
	// The size of the last one is reserved ahead, so that many made at once
	// cannot pass the bound together.
	reserved, budget := p.typical.Load(), p.pools.cfg.Memory
	for p.pools.memory.Add(reserved) > budget || reserved == 0 && p.pools.memory.Load() >= budget {
		p.pools.memory.Add(-reserved)
		if !p.pools.reclaim() {
			return nil, fmt.Errorf("%w: guests use all of their %d bytes of memory", actor.ErrOverloaded, budget)
		}
	}
	guest, err := p.newGuest(ctx, program)
	if err != nil {
		p.pools.memory.Add(-reserved)
		return nil, err
	}
	in := &Instance{Guest: guest, pool: p, dedicated: dedicated, bytes: reserved}
	in.Count()
	p.typical.Store(in.bytes)
	p.pools.cfg.Made(p.event(in))
	return in, nil
}

// newGuest makes a guest; where the engine has no room, in the place of one that
// is not in use.
func (p *Pool) newGuest(ctx context.Context, program engine.Program) (engine.Instance, error) {
	for {
		guest, err := program.NewInstance(ctx, p.key.MemoryBytes)
		if err == nil || !errors.Is(err, actor.ErrOverloaded) || !p.pools.reclaim() {
			return guest, err
		}
	}
}

// load returns the program. One caller loads it; the others wait, and take over
// if that one fails, since it may have been its deadline.
func (p *Pool) load(ctx context.Context) (engine.Program, error) {
	for {
		p.mu.Lock()
		program, loading := p.program, p.loading
		if program == nil && loading == nil {
			p.loading = make(chan struct{})
			p.mu.Unlock()
			return p.loadNow(ctx)
		}
		p.mu.Unlock()
		if program != nil {
			return program, nil
		}
		select {
		case <-loading:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *Pool) loadNow(ctx context.Context) (engine.Program, error) {
	cfg := p.pools.cfg
	program, err := cfg.Engine.Load(ctx, p.key.Digest, func(ctx context.Context) ([]byte, error) {
		return cfg.ModuleBytes(ctx, p.key.App, p.key.Digest)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.program = program
	}
	close(p.loading)
	p.loading = nil
	return program, err
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

// Dedicated tells that the instance belongs to one activation.
func (in *Instance) Dedicated() bool { return in.dedicated }

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
