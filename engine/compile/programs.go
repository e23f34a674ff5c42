package compile

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"weak"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// Programs keeps an engine's programs by digest. Those used last stay in memory
// within bounds of number and bytes; one that is out of that is still found as
// long as somebody uses it, so that a module is never loaded twice at a time. All
// methods may be called concurrently.
type Programs[P any] struct {
	most int64
	log  *slog.Logger

	mu          sync.Mutex
	recent      *simplelru.LRU[actor.Digest, *P]
	alive       map[actor.Digest]resident[P]
	recentBytes int64
	all         int64 // bytes of what has not been freed
	full        bool  // it was said that what is in use is more than the bound
	flight      singleflight.Group
}

// resident is a program that is in memory for as long as anybody reaches it.
type resident[P any] struct {
	program weak.Pointer[P]
	bytes   int64
}

// NewPrograms keeps at most so many programs of so many bytes in all; number is at
// least 1.
func NewPrograms[P any](number int, bytes int64, log *slog.Logger) *Programs[P] {
	ps := &Programs[P]{most: bytes, log: log, alive: make(map[actor.Digest]resident[P])}
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

// Put keeps a program, which takes about so many bytes.
func (ps *Programs[P]) Put(d actor.Digest, p *P, bytes int64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.recent.Remove(d) // another one of the same module; who has it keeps it
	ps.alive[d] = resident[P]{weak.Make(p), bytes}
	ps.all += bytes
	runtime.AddCleanup(p, ps.freed, freed{d, bytes})
	ps.keep(d, p, bytes)
}

// keep makes p the program used last, and lets go of others. ps.mu is held.
func (ps *Programs[P]) keep(d actor.Digest, p *P, bytes int64) {
	ps.recentBytes += bytes
	ps.recent.Add(d, p)
	for ps.recentBytes > ps.most && ps.recent.Len() > 1 {
		ps.recent.RemoveOldest()
	}
	if full := ps.all > ps.most; full != ps.full {
		if ps.full = full; full {
			ps.log.Warn("programs in memory take more than they may: the others go when nobody uses them any more",
				"bytes", ps.all, "limit", ps.most, "kept", ps.recentBytes)
		}
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

// Load returns a module's program, and has load make it if it is not in memory.
// One load serves all who ask at the same time, and goes on when they leave. A
// panic of it is an error. Behind a closed gate it is [actor.ErrStopping].
func (ps *Programs[P]) Load(ctx context.Context, gate *confine.Gate, d actor.Digest, load func(context.Context) (*P, error)) (*P, error) {
	if !gate.Enter() {
		return nil, actor.ErrStopping
	}
	defer gate.Leave()
	if p := ps.Get(d); p != nil {
		return p, nil
	}
	shared := context.WithoutCancel(ctx)
	result := ps.flight.DoChan(string(d), func() (_ any, err error) {
		if !gate.Enter() {
			return nil, actor.ErrStopping
		}
		defer gate.Leave()
		defer func() {
			// This is singleflight's goroutine, where a panic would end the process.
			if r := recover(); r != nil {
				err = &confine.PanicError{What: "loading a module", Value: r, Stack: debug.Stack()}
			}
		}()
		if p := ps.Get(d); p != nil {
			return p, nil
		}
		return load(shared)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*P), nil
	case <-ctx.Done():
		return nil, confine.Ended(ctx)
	}
}
