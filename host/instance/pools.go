package instance

import (
	"container/list"
	"context"
	"log/slog"
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

// app is one app's part of the guests' memory. Pools.mu guards it.
type app struct {
	used  int64 // bytes counted for its instances
	pools []*Pool
	// untrimmed are instances that may hold less than is counted for them, dedicated
	// those of activations.
	untrimmed, dedicated list.List // of *Instance
}
