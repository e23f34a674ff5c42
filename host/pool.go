package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
)

// poolKey names a pool: apps share no guest memory, and what bounds an instance
// is fixed when it is made.
type poolKey struct {
	app         string
	digest      actor.Digest
	memoryBytes int64
	max         int
}

// instance is a guest of a pool.
type instance struct {
	guest     engine.Instance
	pool      *pool
	dedicated bool
	bytes     int64 // as counted in pools.memory
	idleSince time.Time
}

// pools holds the instances of all modules.
type pools struct {
	cfg    *Config
	events *Events
	memory atomic.Int64 // bytes of all instances
	// takeIdle finds a dedicated instance that is not in use.
	takeIdle func() *instance

	mu    sync.Mutex
	byKey map[poolKey]*pool // never shrinks: a pool without instances is small
}

func (ps *pools) get(key poolKey) *pool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byKey[key]
	if p == nil {
		p = &pool{pools: ps, key: key}
		ps.byKey[key] = p
	}
	return p
}

func (ps *pools) all() []*pool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	out := make([]*pool, 0, len(ps.byKey))
	for _, p := range ps.byKey {
		out = append(out, p)
	}
	return out
}

// reclaim closes one instance that is not in use, and reports whether there was
// any.
func (ps *pools) reclaim() bool {
	for _, p := range ps.all() {
		if in := p.takeOldest(); in != nil {
			in.discard()
			return true
		}
	}
	if in := ps.takeIdle(); in != nil {
		in.discard()
		return true
	}
	return false
}

// closeIdle closes the instances that nobody used since a time.
func (ps *pools) closeIdle(since time.Time) {
	for _, p := range ps.all() {
		for _, in := range p.takeUnused(since) {
			in.discard()
		}
	}
}

// pool is the instances of one module for one app. Shared ones are bounded and
// used in last-in, first-out order, so that what is not needed grows old;
// dedicated ones belong to their activation, and only pass through here.
type pool struct {
	pools   *pools
	key     poolKey
	typical atomic.Int64 // bytes of the instance made last

	mu      sync.Mutex
	program engine.Program
	loading chan struct{} // closed when the load under way has ended
	made    int           // shared instances, and permissions to make one
	idle    []*instance   // the last one was used last
	waiters []chan *instance
}

// giveBack ends the use of a shared instance whose run ended with err.
func (in *instance) giveBack(err error, now time.Time) {
	if broken(err) {
		in.discard()
		return
	}
	in.count()
	in.idleSince = now
	in.pool.release(in)
}

// acquire takes a shared instance, makes one, or waits for one until ctx ends.
func (p *pool) acquire(ctx context.Context) (*instance, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		in := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return in, nil
	}
	if p.made < p.key.max {
		p.made++
		p.mu.Unlock()
		return p.makeShared(ctx)
	}
	w := make(chan *instance, 1)
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
func (p *pool) granted(ctx context.Context, in *instance) (*instance, error) {
	if in != nil {
		return in, nil
	}
	return p.makeShared(ctx)
}

func (p *pool) makeShared(ctx context.Context) (*instance, error) {
	in, err := p.make(ctx, false)
	if err != nil {
		p.returnPermission()
	}
	return in, err
}

// returnPermission gives the permission to make a shared instance to whoever
// waits longest.
func (p *pool) returnPermission() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.grant(nil) {
		p.made--
	}
}

// grant hands an instance, or with nil a permission, to the first waiter. The
// caller has the lock.
func (p *pool) grant(in *instance) bool {
	if len(p.waiters) == 0 {
		return false
	}
	p.waiters[0] <- in
	p.waiters = slices.Delete(p.waiters, 0, 1)
	return true
}

// release gives a shared instance to whoever waits longest, or keeps it.
func (p *pool) release(in *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.grant(in) {
		p.idle = append(p.idle, in)
	}
}

// count brings the total up to date with what the instance grew by.
func (in *instance) count() {
	now := in.guest.MemoryBytes()
	if now == in.bytes {
		return
	}
	in.pool.pools.memory.Add(now - in.bytes)
	in.bytes = now
}

// discard closes an instance, whoever's it was.
func (in *instance) discard() {
	p := in.pool
	in.count()
	event := p.event(in)
	// Without a deadline of its own: closing frees memory and must not be cut short.
	if err := in.guest.Close(context.Background()); err != nil {
		p.pools.cfg.Logger.Error("close instance", "app", p.key.app, "module", p.key.digest, "error", err)
	}
	p.pools.memory.Add(-in.bytes)
	p.pools.events.InstanceClosed(event)
	if !in.dedicated {
		p.returnPermission()
	}
}

func (p *pool) event(in *instance) InstanceEvent {
	return InstanceEvent{App: p.key.app, Digest: p.key.digest, MemoryBytes: in.bytes, Dedicated: in.dedicated}
}

// make makes an instance, if the guests' memory allows: where it does not, others
// that are not in use are closed.
func (p *pool) make(ctx context.Context, dedicated bool) (*instance, error) {
	program, err := p.load(ctx)
	if err != nil {
		return nil, err
	}
	// The size of the last one is reserved ahead, so that many made at once
	// cannot pass the bound together.
	reserved, budget := p.typical.Load(), p.pools.cfg.GuestMemory
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
	in := &instance{guest: guest, pool: p, dedicated: dedicated, bytes: reserved}
	in.count()
	p.typical.Store(in.bytes)
	p.pools.events.InstanceMade(p.event(in))
	return in, nil
}

// newGuest makes a guest; where the engine has no room, in the place of one that
// is not in use.
func (p *pool) newGuest(ctx context.Context, program engine.Program) (engine.Instance, error) {
	for {
		guest, err := program.NewInstance(ctx, p.key.memoryBytes)
		if err == nil || !errors.Is(err, actor.ErrOverloaded) || !p.pools.reclaim() {
			return guest, err
		}
	}
}

// load returns the program. One caller loads it; the others wait, and take over
// if that one fails, since it may have been its deadline.
func (p *pool) load(ctx context.Context) (engine.Program, error) {
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

func (p *pool) loadNow(ctx context.Context) (engine.Program, error) {
	cfg := p.pools.cfg
	program, err := cfg.Engine.Load(ctx, p.key.digest, func(ctx context.Context) ([]byte, error) {
		return cfg.Modules.ModuleBytes(ctx, p.key.app, p.key.digest)
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

// takeOldest takes out the idle instance that was unused for longest.
func (p *pool) takeOldest() *instance {
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
func (p *pool) takeUnused(since time.Time) []*instance {
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
