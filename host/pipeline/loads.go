package pipeline

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
)

// Loader is what loads need of a store; package store has the contract.
type Loader interface {
	LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error)
}

// Loads groups reads of rows. All methods may be called concurrently.
type Loads struct {
	ctx                  context.Context
	store                Loader
	fresh, stale, beside workers[*load]
	// rowBytes is about what a row has, by what was read lately, so that groups
	// stay within Config.GroupBytes.
	rowBytes atomic.Int64
}

// load is one row asked for.
type load struct {
	key    actor.Key
	answer chan loaded // of capacity 1: a worker never waits for a caller
	// abandoned is set by a caller that waits no more; group then ends when all have.
	abandoned atomic.Bool
	group     atomic.Pointer[loadGroup]
}

type loaded struct {
	row actor.Row
	err error
}

// loadGroup is the loads that share a context.
type loadGroup struct {
	waiting atomic.Int32
	cancel  context.CancelFunc
}

func (g *loadGroup) leave() {
	if g.waiting.Add(-1) == 0 {
		g.cancel()
	}
}

// NewLoads returns a pipeline of loads from a store. When ctx ends, all end.
func NewLoads(ctx context.Context, cfg Config, store Loader) *Loads {
	l := &Loads{ctx: ctx, store: store}
	cfg = cfg.WithDefaults()
	for _, workers := range []*workers[*load]{&l.fresh, &l.stale, &l.beside} {
		opts := actor.LoadOptions{AllowStale: workers == &l.stale, BesideLocks: workers == &l.beside, MaxBytes: cfg.GroupBytes}
		workers.init(cfg, appOfLoad, noSize, l.server(workers, opts), refuseLoad)
		workers.weigh = func(*load) int64 { return l.rowBytes.Load() }
	}
	return l
}

// noSize is the size of a load: what it will have is not known yet.
func noSize(*load) int64 { return 0 }

func appOfLoad(o *load) string { return o.key.App }

func refuseLoad(o *load, err error) { o.deliver(loaded{err: err}) }

// deliver gives a load its answer, unless it has one.
func (o *load) deliver(a loaded) {
	select {
	case o.answer <- a:
	default:
	}
}

// learn brings rowBytes up to date with what a group has read: at once where rows
// are larger, slowly where they are smaller.
func (l *Loads) learn(rows []actor.Row) {
	bytes, read := int64(0), int64(0)
	for i := range rows {
		if !rows[i].Unread {
			bytes += int64(len(rows[i].State.Data))
			read++
		}
	}
	if read == 0 {
		return
	}
	was := l.rowBytes.Load()
	if now := max(bytes/read, was-was/8); now != was {
		l.rowBytes.Store(now) // a neighbour's figure may be lost, which the next one mends
	}
}

// Load reads one row, as LoadActors of the store does. actor.ErrUnavailable if
// too many wait; ctx's error if it ends first.
func (l *Loads) Load(ctx context.Context, key actor.Key, opts actor.LoadOptions) (actor.Row, error) {
	if err := ctx.Err(); err != nil {
		return actor.Row{}, err
	}
	workers := &l.fresh
	switch {
	case opts.AllowStale:
		workers = &l.stale
	case opts.BesideLocks:
		workers = &l.beside
	}
	one := &load{key: key, answer: make(chan loaded, 1)}
	if err := workers.put(one, false); err != nil {
		return actor.Row{}, err
	}
	select {
	case a := <-one.answer:
		return a.row, a.err
	case <-ctx.Done():
		one.leave()
		return actor.Row{}, ctx.Err()
	}
}

// Wait returns when no goroutine of the pipeline is left. Nothing may be asked
// for any more.
func (l *Loads) Wait() {
	l.fresh.working.Wait()
	l.stale.working.Wait()
	l.beside.working.Wait()
}

// rejoin takes a load out of its group, to wait for another one. It reports false
// if its caller is gone.
func (o *load) rejoin(g *loadGroup) bool {
	return o.group.CompareAndSwap(g, nil) && !o.abandoned.Load()
}

// join and leave may meet: whoever comes second of the two finds the other.
func (o *load) join(g *loadGroup) {
	o.group.Store(g)
	if o.abandoned.Load() && o.group.CompareAndSwap(g, nil) {
		g.leave()
	}
}

func (o *load) leave() {
	o.abandoned.Store(true)
	if g := o.group.Load(); g != nil && o.group.CompareAndSwap(g, nil) {
		g.leave()
	}
}

// server returns what serves a group of loads.
func (l *Loads) server(workers *workers[*load], opts actor.LoadOptions) func([]*load) func(int) {
	return func(group []*load) func(int) {
		ctx, cancel := context.WithCancel(l.ctx)
		defer cancel()
		g := &loadGroup{cancel: cancel}
		g.waiting.Store(int32(len(group)))
		keys := make([]actor.Key, len(group))
		for i, o := range group {
			keys[i] = o.key
			o.join(g)
		}
		rows, err := l.store.LoadActors(ctx, keys, opts)
		if err != nil && len(group) > 1 && apart(err) {
			l.oneByOne(ctx, group, rows, err, opts)
			return func(int) {}
		}
		l.learn(rows)
		var unread []*load
		for i, o := range group {
			if err == nil && rows[i].Unread && o.rejoin(g) {
				unread = append(unread, o)
				group[i] = nil
			}
		}
		if unread != nil {
			workers.back(unread)
		}
		return func(i int) {
			if group[i] == nil {
				return
			}
			a := loaded{err: err}
			if err == nil {
				a.row = rows[i]
			}
			group[i].deliver(a)
		}
	}
}

// damagedRows is a store's error for rows that it cannot read: package store
// has the type.
type damagedRows interface {
	error
	VersionOf(key actor.Key) (version uint64, ok bool)
}

// apart reports whether an error may be that of single members of a group.
func apart(err error) bool {
	return !errors.Is(err, actor.ErrUnavailable) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// oneByOne serves a group that failed with err: those that a damaged neighbour
// spared from rows, the others alone.
func (l *Loads) oneByOne(ctx context.Context, group []*load, rows []actor.Row, err error, opts actor.LoadOptions) {
	var damaged damagedRows
	known := errors.As(err, &damaged) && len(rows) == len(group)
	for i, o := range group {
		if known && !rows[i].Unread {
			if _, bad := damaged.VersionOf(o.key); !bad {
				o.deliver(loaded{row: rows[i]})
				continue
			}
		}
		one, err := l.store.LoadActors(ctx, []actor.Key{o.key}, opts)
		a := loaded{err: err}
		if err == nil {
			a.row = one[0]
		}
		o.deliver(a)
	}
}
