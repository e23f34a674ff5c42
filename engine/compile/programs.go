package compile

import (
	"cmp"
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
	"github.com/greenroom-run/greenroom/internal/fair"
)

// Programs keeps an engine's programs by digest. Those used last stay in memory
// within bounds of number and bytes; one that is out of that is still found as
// long as somebody uses it, so that a module is never loaded twice at a time. All
// methods may be called concurrently.
//
// Before its code is loaded, a program is admitted: [Programs.Admit]. Go's collector
// frees code, and it does not see how much that is; so where the bound is met, it is
// made to run. Apps share the bytes by the rule of [fair.Leaves]. A program counts for the app
// that loaded it last.
type Programs[P any] struct {
	most  int64
	inUse func(*P) bool
	log   *slog.Logger

	mu          sync.Mutex
	recent      *simplelru.LRU[actor.Digest, *P]
	alive       map[actor.Digest]*resident[P]
	recentBytes int64
	all         int64            // bytes of what was admitted and has not been freed
	apps        map[string]int64 // the same of each app
	full        bool             // it was said that what is in use is as much as the bound
	loads       map[actor.Digest]*loading[P]

	collecting sync.Mutex // one collection serves all who wait for it
}

// resident is a program that is in memory for as long as anybody reaches it.
type resident[P any] struct {
	digest  actor.Digest
	program weak.Pointer[P]
	room    Room
	users   []string // the apps that have loaded it
}

// Room is what [Programs.Admit] has counted for a program, or for a part of it.
type Room struct {
	app   string
	bytes int64
}

// With returns the room of a program and of a part of it, which was admitted for the same app.
func (r Room) With(more Room) Room { return Room{r.app, r.bytes + more.bytes} }

// NewPrograms keeps at most so many programs of so many bytes in all; number is at
// least 1. inUse reports whether a program has instances.
func NewPrograms[P any](number int, bytes int64, inUse func(*P) bool, log *slog.Logger) *Programs[P] {
	ps := &Programs[P]{most: bytes, inUse: inUse, log: log, alive: make(map[actor.Digest]*resident[P]), apps: make(map[string]int64), loads: make(map[actor.Digest]*loading[P])}
	recent, err := simplelru.NewLRU(number, func(d actor.Digest, _ *P) { ps.recentBytes -= ps.alive[d].room.bytes })
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
	if r == nil {
		return nil
	}
	p := r.program.Value()
	if p != nil {
		ps.keep(d, p, r.room.bytes)
	}
	return p
}

// Admit counts a program of about so many bytes, whose code is to be loaded, for the app that owns
// the context. Where there is no room, the apps that have more than this one make some, those with
// most first, and then this one: their programs without instances go, and then those whose
// instances the context can close: [engine.WithReclaim]. If that is not enough, any program
// without instances goes. A program that does not fit nevertheless, since the others run, is
// [actor.ErrOverloaded]; one that is larger than the bound is a [*LimitError]. What Admit counted
// is given back by Release, or by the collector once Put had the program.
func (ps *Programs[P]) Admit(ctx context.Context, bytes int64) (Room, error) {
	if bytes > ps.most {
		return Room{}, &LimitError{Limit: LimitProgram, Memory: ps.most}
	}
	owners, _ := ownersOf(ctx)
	room := Room{owners[0].App, bytes}
	for {
		admitted, possible := ps.admit(room, ps.gives)
		if !possible {
			if reclaim := engine.ReclaimOf(ctx); reclaim != nil && slices.ContainsFunc(ps.reclaimable(room.app), reclaim) {
				continue
			}
			admitted, possible = ps.admit(room, func(string, string) bool { return true })
		}
		switch {
		case admitted:
			return room, nil
		case !possible || !ps.collect(room):
			return Room{}, ps.errFull(room.app)
		}
	}
}

func (ps *Programs[P]) errFull(app string) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return &actor.ReasonError{Condition: actor.ErrOverloaded, Reason: fmt.Sprintf(
		"compiled modules that run, those of this app in %d and of all apps in %d of at most %d bytes of memory, leave no room for another one beside the part of other apps, by --max-program-memory of the server",
		ps.apps[app], ps.all, ps.most)}
}

// gives reports whether programs of owner make room for one of app. ps.mu is held.
func (ps *Programs[P]) gives(owner, app string) bool {
	return owner == app || ps.apps[owner] > ps.apps[app]
}

// reclaimable returns the apps that may have instances of programs that make room for one of app, in
// the order in which their instances close.
func (ps *Programs[P]) reclaimable(app string) []string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var used []*resident[P]
	for _, r := range ps.alive {
		if p := r.program.Value(); p != nil && ps.inUse(p) && ps.gives(r.room.app, app) {
			used = append(used, r)
		}
	}
	slices.SortFunc(used, func(a, b *resident[P]) int {
		return cmp.Or(cmp.Compare(ps.apps[b.room.app], ps.apps[a.room.app]), cmp.Compare(a.digest, b.digest))
	})
	var users []string
	for _, r := range used {
		for _, u := range r.users {
			if !slices.Contains(users, u) {
				users = append(users, u)
			}
		}
	}
	return users
}

// admit counts a program if it fits, once others have made room. Otherwise it reports
// whether it would fit if the collector freed what has no instances and whose owner gives.
func (ps *Programs[P]) admit(room Room, gives func(owner, app string) bool) (admitted, possible bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.fits(ps.apps[room.app], ps.all, room.bytes) {
		ps.count(room.app, room.bytes)
		ps.full = false
		return true, true
	}
	var all int64 // of what the collector does not free
	has := make(map[string]int64)
	for d, r := range ps.alive {
		if p := r.program.Value(); p != nil && (ps.recent.Contains(d) || ps.inUse(p)) {
			all += r.room.bytes
			has[r.room.app] += r.room.bytes
		}
	}
	var spare []*resident[P] // the one used least recently first
	for _, d := range ps.recent.Keys() {
		if p, _ := ps.recent.Peek(d); !ps.inUse(p) && gives(ps.alive[d].room.app, room.app) {
			spare = append(spare, ps.alive[d])
		}
	}
	var gone []*resident[P]
	for !ps.fits(has[room.app], all, room.bytes) {
		if len(spare) == 0 {
			ps.warnFull(all, room.bytes)
			return false, false
		}
		first := 0 // of the app that has most
		for i, r := range spare {
			if has[r.room.app] > has[spare[first].room.app] {
				first = i
			}
		}
		r := spare[first]
		all -= r.room.bytes
		has[r.room.app] -= r.room.bytes
		gone, spare = append(gone, r), slices.Delete(spare, first, first+1)
	}
	for _, r := range gone {
		ps.recent.Remove(r.digest)
	}
	return false, true
}

// warnFull warns, until something fits again, where no app could have so many bytes more. ps.mu
// is held.
func (ps *Programs[P]) warnFull(all, bytes int64) {
	if !ps.full && all+bytes > ps.most {
		ps.full = true
		ps.log.Warn("modules that have instances take the memory of all compiled modules; give them more with --max-program-memory, or instances are closed and modules loaded again",
			"bytes", all, "limit", ps.most)
	}
}

// Extend counts more, which was admitted, for a program that Put had. For another it does
// nothing.
func (ps *Programs[P]) Extend(d actor.Digest, p *P, more Room) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	r := ps.alive[d]
	if r == nil || r.program.Value() != p {
		return
	}
	ps.count(more.app, -more.bytes)
	ps.count(r.room.app, more.bytes)
	r.room.bytes += more.bytes
	if ps.recent.Contains(d) {
		ps.recentBytes += more.bytes
	}
}

// collect runs the collector until a program fits, and reports whether it does. The first collection
// finds programs that nobody reaches, the next one their code.
func (ps *Programs[P]) collect(room Room) bool {
	ps.collecting.Lock()
	defer ps.collecting.Unlock()
	for range 3 {
		if ps.fitsNow(room) {
			return true
		}
		runtime.GC()
		freed := make(chan struct{})
		runtime.AddCleanup(&marker{}, func(c chan struct{}) { close(c) }, freed)
		runtime.GC()
		<-freed
	}
	return ps.fitsNow(room)
}

// marker is found by the next collection. It is not so small that Go keeps several in
// one block.
type marker [64]byte

func (ps *Programs[P]) fitsNow(room Room) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.fits(ps.apps[room.app], ps.all, room.bytes)
}

// fits reports whether an app that has so many bytes, of those that all have, may have some more.
func (ps *Programs[P]) fits(has, all, more int64) bool {
	free := ps.most - all - more
	return free >= 0 && fair.Leaves(has, more, free)
}

// count counts bytes more for an app, or with a negative number less. ps.mu is held.
func (ps *Programs[P]) count(app string, bytes int64) {
	ps.all += bytes
	if ps.apps[app] += bytes; ps.apps[app] == 0 {
		delete(ps.apps, app)
	}
}

// Release takes back what Admit counted for a program that Put never had.
func (ps *Programs[P]) Release(room Room) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.count(room.app, -room.bytes)
}

// Put keeps a program that was admitted.
func (ps *Programs[P]) Put(d actor.Digest, p *P, room Room) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.recent.Remove(d) // another program of the same module; its users keep it
	r := &resident[P]{digest: d, program: weak.Make(p), room: room, users: []string{room.app}}
	ps.alive[d] = r
	runtime.AddCleanup(p, ps.freed, r)
	ps.keep(d, p, room.bytes)
}

// use notes that an app has loaded a program, which counts for it from now on.
func (ps *Programs[P]) use(d actor.Digest, p *P, app string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	r := ps.alive[d]
	if r == nil || r.program.Value() != p || r.room.app == app {
		return
	}
	ps.count(r.room.app, -r.room.bytes)
	ps.count(app, r.room.bytes)
	r.room.app = app
	if !slices.Contains(r.users, app) {
		r.users = append(r.users, app)
	}
}

// keep makes p the program used last, and lets go of others. ps.mu is held.
func (ps *Programs[P]) keep(d actor.Digest, p *P, bytes int64) {
	ps.recentBytes += bytes
	ps.recent.Add(d, p)
	for ps.recentBytes > ps.most {
		ps.recent.RemoveOldest()
	}
}

func (ps *Programs[P]) freed(r *resident[P]) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.count(r.room.app, -r.room.bytes)
	if ps.alive[r.digest] == r {
		delete(ps.alive, r.digest)
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
	more      chan struct{}         // closed when owners change
	compiling bool                  // it has a compiler
	reclaim   func(app string) bool // of the first caller that has one
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

// tryReclaim closes an instance of an app for the callers, and reports whether it found one.
func (p *pending) tryReclaim(app string) bool {
	p.mu.Lock()
	reclaim := p.reclaim
	p.mu.Unlock()
	return reclaim != nil && reclaim(app)
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
			ps.use(d, p, engine.OwnerOf(ctx).App)
			return p, nil
		}
		l, abandoned := ps.join(ctx, gate, d, load)
		select {
		case <-l.done:
			if abandoned {
				continue
			}
			if l.err == nil {
				ps.use(d, l.program, engine.OwnerOf(ctx).App)
			}
			return l.program, l.err
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
