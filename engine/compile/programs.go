package compile

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"weak"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// Programs keeps an engine's programs by digest. Those used last stay in memory
// within bounds of number and bytes; one that is out of that is still found as
// long as somebody uses it, so that a module is never loaded twice at a time. All
// methods may be called concurrently.
//
// Before its code is loaded, a program is admitted: [Programs.Admit]. Go's collector
// frees code, and it does not see how much that is; so where the bound is met, it is
// made to run.
type Programs[P any] struct {
	most  int64
	inUse func(*P) bool
	log   *slog.Logger

	mu          sync.Mutex
	recent      *simplelru.LRU[actor.Digest, *P]
	alive       map[actor.Digest]resident[P]
	recentBytes int64
	all         int64 // bytes of what was admitted and has not been freed
	full        bool  // it was said that what is in use is as much as the bound
	loads       map[actor.Digest]*loading[P]

	collecting sync.Mutex // one collection serves all who wait for it
}

// resident is a program that is in memory for as long as anybody reaches it.
type resident[P any] struct {
	program weak.Pointer[P]
	bytes   int64
}

// NewPrograms keeps at most so many programs of so many bytes in all; number is at
// least 1. inUse reports whether a program has instances.
func NewPrograms[P any](number int, bytes int64, inUse func(*P) bool, log *slog.Logger) *Programs[P] {
	ps := &Programs[P]{most: bytes, inUse: inUse, log: log, alive: make(map[actor.Digest]resident[P]), loads: make(map[actor.Digest]*loading[P])}
	recent, err := simplelru.NewLRU(number, func(d actor.Digest, _ *P) { ps.recentBytes -= ps.alive[d].bytes })
	if err != nil {
		panic(err) // only for a size below 1
	}
	ps.recent = recent
	return ps
}

// Get returns a program that is in memory, or nil.
func (ps *Programs[P]) Get(d actor.Digest) *P {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p, ok := ps.recent.Get(d); ok {
		return p
	}
	r := ps.alive[d]
	p := r.program.Value()
	if p != nil {
		ps.keep(d, p, r.bytes)
	}
	return p
}

// Admit counts a program of about so many bytes, whose code is to be loaded. Programs
// that have no instances make room for it, and then those whose instances the context
// can close: [engine.WithReclaim]. A program that does not fit nevertheless, since the
// others run, is [actor.ErrOverloaded]; one that is larger than the bound is a
// [*LimitError]. What Admit counted is given back by Release, or by the collector once
// Put had the program.
func (ps *Programs[P]) Admit(ctx context.Context, bytes int64) error {
	if bytes > ps.most {
		return &LimitError{Limit: LimitProgram, Memory: ps.most}
	}
	for {
		admitted, possible := ps.admit(bytes)
		switch {
		case admitted:
			return nil
		case possible && ps.collect(bytes):
		case possible || !engine.Reclaim(ctx):
			return &actor.ReasonError{Condition: actor.ErrOverloaded, Reason: fmt.Sprintf("compiled modules that run take all of their %d bytes of memory, by --max-program-memory of the server", ps.most)}
		}
	}
}

// admit counts a program if it fits, once others have made room. Otherwise it reports
// whether it would fit if the collector freed what has no instances.
func (ps *Programs[P]) admit(bytes int64) (admitted, possible bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.all+bytes <= ps.most {
		ps.all += bytes
		ps.full = false
		return true, true
	}
	var used, kept int64 // by those with instances, and by the others that are kept
	for d, r := range ps.alive {
		switch p := r.program.Value(); {
		case p != nil && ps.inUse(p):
			used += r.bytes
		case ps.recent.Contains(d):
			kept += r.bytes
		}
	}
	if used+bytes > ps.most {
		if !ps.full {
			ps.full = true
			ps.log.Warn("modules that have instances take the memory of all compiled modules; give them more with --max-program-memory, or instances are closed and modules loaded again",
				"bytes", used, "limit", ps.most)
		}
		return false, false
	}
	for _, d := range ps.recent.Keys() { // the one used least recently first
		if used+kept+bytes <= ps.most {
			break
		}
		if p, _ := ps.recent.Peek(d); !ps.inUse(p) {
			ps.recent.Remove(d)
			kept -= ps.alive[d].bytes
		}
	}
	return false, true
}

// Extend counts bytes more, which were admitted, for a program that Put had. For
// another it does nothing.
func (ps *Programs[P]) Extend(d actor.Digest, p *P, bytes int64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	r := ps.alive[d]
	if r.program.Value() != p {
		return
	}
	r.bytes += bytes
	ps.alive[d] = r
	if ps.recent.Contains(d) {
		ps.recentBytes += bytes
	}
	runtime.AddCleanup(p, ps.freed, freed{d, bytes})
}

// collect has the collector free what nobody reaches, and reports whether so many
// bytes fit now. The first collection finds programs, the next one their code.
func (ps *Programs[P]) collect(bytes int64) bool {
	ps.collecting.Lock()
	defer ps.collecting.Unlock()
	for range 3 {
		if ps.fits(bytes) {
			return true
		}
		runtime.GC()
		freed := make(chan struct{})
		runtime.AddCleanup(&marker{}, func(c chan struct{}) { close(c) }, freed)
		runtime.GC()
		<-freed
	}
	return ps.fits(bytes)
}

// marker is found by the next collection. It is not so small that Go keeps several in
// one block.
type marker [64]byte

func (ps *Programs[P]) fits(bytes int64) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.all+bytes <= ps.most
}

// Release takes back what Admit counted for a program that Put never had.
func (ps *Programs[P]) Release(bytes int64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.all -= bytes
}

// Put keeps a program, for which so many bytes were admitted.
func (ps *Programs[P]) Put(d actor.Digest, p *P, bytes int64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.recent.Remove(d) // another program of the same module; its users keep it
	ps.alive[d] = resident[P]{weak.Make(p), bytes}
	runtime.AddCleanup(p, ps.freed, freed{d, bytes})
	ps.keep(d, p, bytes)
}

// keep makes p the program used last, and lets go of others. ps.mu is held.
func (ps *Programs[P]) keep(d actor.Digest, p *P, bytes int64) {
	ps.recentBytes += bytes
	ps.recent.Add(d, p)
	for ps.recentBytes > ps.most {
		ps.recent.RemoveOldest()
	}
}

type freed struct {
	digest actor.Digest
	bytes  int64
}

func (ps *Programs[P]) freed(f freed) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.all -= f.bytes
	if ps.alive[f.digest].program.Value() == nil {
		delete(ps.alive, f.digest)
	}
}

// Len is how many programs are kept, and how many bytes all have that are in memory.
func (ps *Programs[P]) Len() (programs int, bytes int64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.recent.Len(), ps.all
}

// Clear lets go of all programs.
func (ps *Programs[P]) Clear() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.recent.Purge()
	ps.recentBytes = 0
}

// loading is a load under way.
type loading[P any] struct {
	*pending
	callers int  // that wait for it; Programs.mu guards it, and the next one
	ended   bool // its callers have left before
	cancel  context.CancelFunc
	done    chan struct{}
	program *P // once done is closed, as err
	err     error
}

// pending is what the compiler sees of a load.
type pending struct {
	mu        *sync.Mutex // that of the Programs
	owners    []engine.Owner
	more      chan struct{} // closed when owners change
	compiling bool          // it has a compiler
	reclaim   func() bool   // of the first caller that has one
}

// join adds a caller. p.mu is held.
func (p *pending) join(ctx context.Context) {
	if p.reclaim == nil {
		p.reclaim = engine.ReclaimOf(ctx)
	}
	if o := engine.OwnerOf(ctx); !slices.Contains(p.owners, o) {
		p.owners = append(p.owners, o)
		close(p.more)
		p.more = make(chan struct{})
	}
}

// tryReclaim closes an instance for the callers.
func (p *pending) tryReclaim() bool {
	p.mu.Lock()
	reclaim := p.reclaim
	p.mu.Unlock()
	return reclaim != nil && reclaim()
}

// Load returns a module's program, and has load make it if it is not in memory.
// One load serves all who ask at the same time, and waits for a compiler in the name of each
// of them: the owners of [engine.WithOwner]. It ends when all of them have left while it
// waits for a compiler; what is being compiled is finished, so that a module that takes longer
// to compile than its callers wait is loaded at last. A panic of it is an error. Behind a closed gate it is [actor.ErrStopping].
func (ps *Programs[P]) Load(ctx context.Context, gate *confine.Gate, d actor.Digest, load func(context.Context) (*P, error)) (*P, error) {
	if !gate.Enter() {
		return nil, actor.ErrStopping
	}
	defer gate.Leave()
	for {
		if p := ps.Get(d); p != nil {
			return p, nil
		}
		l, abandoned := ps.join(ctx, gate, d, load)
		select {
		case <-l.done:
			if !abandoned {
				return l.program, l.err
			}
		case <-ctx.Done():
			if !abandoned {
				ps.leave(l)
			}
			return nil, confine.Ended(ctx)
		}
	}
}

// join returns the load of a module that is under way, or begins one. One that its callers
// have left is to be waited for: another begins after it.
func (ps *Programs[P]) join(ctx context.Context, gate *confine.Gate, d actor.Digest, load func(context.Context) (*P, error)) (l *loading[P], abandoned bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if l := ps.loads[d]; l != nil {
		if l.ended {
			return l, true
		}
		l.callers++
		l.join(ctx)
		return l, false
	}
	p := &pending{mu: &ps.mu, more: make(chan struct{})}
	p.join(ctx)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l = &loading[P]{pending: p, callers: 1, cancel: cancel, done: make(chan struct{})}
	ctx = engine.WithReclaim(context.WithValue(ctx, pendingKey{}, p), p.tryReclaim)
	ps.loads[d] = l
	go func() {
		defer cancel()
		l.program, l.err = ps.loadNow(ctx, gate, d, load)
		ps.mu.Lock()
		delete(ps.loads, d)
		ps.mu.Unlock()
		close(l.done)
	}()
	return l, false
}

// leave ends a load when the last of its callers leaves before it has a compiler.
func (ps *Programs[P]) leave(l *loading[P]) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if l.callers--; l.callers == 0 && !l.compiling {
		l.ended = true
		l.cancel()
	}
}

type pendingKey struct{}

// ownersOf are the owners of the work that a context is for, and a channel that is closed
// when there are more: all apps that wait for a load own it.
func ownersOf(ctx context.Context) ([]engine.Owner, <-chan struct{}) {
	if p, ok := ctx.Value(pendingKey{}).(*pending); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Clone(p.owners), p.more
	}
	return []engine.Owner{engine.OwnerOf(ctx)}, nil
}

// reportCompiling says that the load of a context has a compiler.
func reportCompiling(ctx context.Context) {
	if p, ok := ctx.Value(pendingKey{}).(*pending); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.compiling = true
	}
}

func (ps *Programs[P]) loadNow(ctx context.Context, gate *confine.Gate, d actor.Digest, load func(context.Context) (*P, error)) (p *P, err error) {
	if !gate.Enter() {
		return nil, actor.ErrStopping
	}
	defer gate.Leave()
	defer func() {
		if r := recover(); r != nil { // a panic would end the process
			err = &confine.PanicError{What: "loading a module", Value: r, Stack: debug.Stack()}
		}
	}()
	if p := ps.Get(d); p != nil {
		return p, nil
	}
	return load(ctx)
}
