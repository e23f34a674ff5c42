package fair

import (
	"container/list"
	"math"
)

// Config configures a [Queue]. With the zero value, apps get one entry each in turn, without bounds.
type Config struct {
	// Waiting and Bytes bound the entries that wait.
	Waiting, Bytes Bounds
	// Running bounds the entries that were dealt and not removed yet. If it is zero, an
	// entry that is dealt is gone.
	Running Bounds
	// RunningPerType is the same bound for each type of an app; zero means none.
	RunningPerType int64
	// Weight returns how many times the share of another app an app gets. It is called
	// when an app begins to wait. Defaults to 1 for all.
	Weight func(app string) int64
	// Quantum is the cost that a flow of weight 1 is served in its turn. Defaults to 1.
	Quantum int64
}

// Entry is one value in a [Queue].
type Entry[T any] struct {
	App, Type string
	// Cost is what dealing the entry takes from its app, in any unit; at least 1.
	Cost int64
	// Bytes counts for Config.Bytes while the entry waits.
	Bytes int64
	Value T

	state   entryState
	element *list.Element // in its type's queue, while it waits
}

type entryState uint8

const (
	stateOut entryState = iota
	stateWaiting
	stateRunning
)

// Queue deals entries fairly. Make it with [New]; its callers lock it.
type Queue[T any] struct {
	cfg     Config
	waiting *Account
	bytes   *Account
	running *Account
	types   map[typeKey]int64 // how many run, if RunningPerType bounds them
	apps    ring[T]
}

type typeKey struct{ app, typ string }

// flow is what competes at one level: an app, or a type of an app.
type flow[T any] struct {
	name     string
	quantum  int64
	deficit  int64
	credited bool // it has its quantum of this turn
	element  *list.Element
	types    ring[T]    // of an app
	entries  *list.List // of a type: *Entry[T]
}

// ring is the flows of a level that have something waiting; the first has its turn.
type ring[T any] struct {
	byName map[string]*flow[T]
	order  *list.List // *flow[T]
}

func newRing[T any]() ring[T] { return ring[T]{map[string]*flow[T]{}, list.New()} }

// New returns an empty queue.
func New[T any](cfg Config) *Queue[T] {
	cfg.Quantum = max(cfg.Quantum, 1)
	return &Queue[T]{
		cfg: cfg, waiting: NewAccount(cfg.Waiting), bytes: NewAccount(cfg.Bytes), running: NewAccount(cfg.Running),
		types: map[typeKey]int64{}, apps: newRing[T](),
	}
}

// Push adds an entry, or returns a [*FullError] if its app has no room for it. The caller must not
// change the entry's fields while the entry is in the queue.
func (q *Queue[T]) Push(e *Entry[T]) error {
	if e.state != stateOut {
		panic("fair: an entry is pushed that is in a queue")
	}
	if err := q.waiting.Take(e.App, 1); err != nil {
		return err
	}
	if err := q.bytes.Take(e.App, e.Bytes); err != nil {
		q.waiting.Give(e.App, 1)
		return err
	}
	a := q.apps.byName[e.App]
	if a == nil {
		weight := int64(1)
		if q.cfg.Weight != nil {
			weight = max(1, q.cfg.Weight(e.App))
		}
		a = q.apps.enter(&flow[T]{name: e.App, quantum: q.cfg.Quantum * weight, types: newRing[T]()})
	}
	t := a.types.byName[e.Type]
	if t == nil {
		t = a.types.enter(&flow[T]{name: e.Type, quantum: q.cfg.Quantum, entries: list.New()})
	}
	e.state, e.element = stateWaiting, t.entries.PushBack(e)
	return nil
}

// Run deals an entry at once. It returns false if the entry has to wait because others wait or a
// bound is reached. It has the effect of Push and Next, and allocates nothing.
func (q *Queue[T]) Run(e *Entry[T]) bool {
	if e.state != stateOut {
		panic("fair: an entry is run that is in a queue")
	}
	if q.Len() > 0 || q.full() || q.running.Check(e.App, 1) != nil || q.typeFull(e.App, e.Type) {
		return false
	}
	q.run(e)
	return true
}

// Next deals the entry whose turn it is; it returns nil if no waiting entry may run. The entry
// runs until Remove, if Config.Running has a bound.
func (q *Queue[T]) Next() *Entry[T] {
	if q.full() {
		return nil
	}
	a, e := q.apps.turn(q.headOfApp)
	if e == nil {
		return nil
	}
	a.deficit -= e.cost()
	a.types.byName[e.Type].deficit -= e.cost()
	q.take(e)
	q.run(e)
	return e
}

// run counts an entry as running.
func (q *Queue[T]) run(e *Entry[T]) {
	e.state = stateOut
	if q.counts() {
		e.state = stateRunning
		q.running.Add(e.App, 1)
		q.types[typeKey{e.App, e.Type}]++
	}
}

// full reports whether the bound on running entries is reached.
func (q *Queue[T]) full() bool {
	most := q.cfg.Running.Total
	return most > 0 && q.running.Used() >= most
}

// typeFull reports whether the bound on running entries of a type is reached.
func (q *Queue[T]) typeFull(app, typ string) bool {
	most := q.cfg.RunningPerType
	return most > 0 && q.types[typeKey{app, typ}] >= most
}

// Remove takes an entry out, and gives its place to others if it runs. Removing an entry that
// is out has no effect.
func (q *Queue[T]) Remove(e *Entry[T]) {
	switch e.state {
	case stateWaiting:
		q.take(e)
	case stateRunning:
		q.running.Give(e.App, 1)
		key := typeKey{e.App, e.Type}
		if q.types[key]--; q.types[key] == 0 {
			delete(q.types, key)
		}
	}
	e.state = stateOut
}

// Correct replaces the cost at which an entry was dealt by its real cost. It has no effect on an
// app or a type that has nothing waiting.
func (q *Queue[T]) Correct(e *Entry[T], cost int64) {
	a := q.apps.byName[e.App]
	if a == nil {
		return
	}
	a.deficit += e.cost() - cost
	if t := a.types.byName[e.Type]; t != nil {
		t.deficit += e.cost() - cost
	}
}

// Len returns how many entries wait.
func (q *Queue[T]) Len() int { return int(q.waiting.Used()) }

// Running returns how many entries run.
func (q *Queue[T]) Running() int { return int(q.running.Used()) }

func (q *Queue[T]) counts() bool {
	return q.cfg.Running.Total > 0 || q.cfg.Running.PerApp > 0 || q.cfg.RunningPerType > 0
}

// take takes a waiting entry out of its flows.
func (q *Queue[T]) take(e *Entry[T]) {
	a := q.apps.byName[e.App]
	t := a.types.byName[e.Type]
	t.entries.Remove(e.element)
	e.element = nil
	if t.entries.Len() == 0 {
		a.types.leave(t)
	}
	if a.types.order.Len() == 0 {
		q.apps.leave(a)
	}
	q.waiting.Give(e.App, 1)
	q.bytes.Give(e.App, e.Bytes)
}

// headOfApp returns the entry of an app that goes next; nil if none may run.
func (q *Queue[T]) headOfApp(a *flow[T]) *Entry[T] {
	if q.running.Check(a.name, 1) != nil {
		return nil
	}
	_, e := a.types.turn(func(t *flow[T]) *Entry[T] {
		if q.typeFull(a.name, t.name) {
			return nil
		}
		return t.entries.Front().Value.(*Entry[T])
	})
	return e
}

func (e *Entry[T]) cost() int64 { return max(1, e.Cost) }

func (r *ring[T]) enter(f *flow[T]) *flow[T] {
	f.element = r.order.PushBack(f)
	r.byName[f.name] = f
	return f
}

func (r *ring[T]) leave(f *flow[T]) {
	r.order.Remove(f.element)
	delete(r.byName, f.name)
}

// turn puts the flow that is served next first, and returns it with its head; it returns nil if
// all heads are nil. A second call returns the same flow.
func (r *ring[T]) turn(head func(*flow[T]) *Entry[T]) (*flow[T], *Entry[T]) {
	for {
		rounds := int64(math.MaxInt64) // until one of the flows can pay
		for range r.order.Len() {
			f := r.order.Front().Value.(*flow[T])
			e := head(f)
			if e != nil {
				if !f.credited {
					f.credited = true
					f.deficit += f.quantum
				}
				if f.deficit >= e.cost() {
					return f, e
				}
				rounds = min(rounds, (e.cost()-f.deficit-1)/f.quantum)
			}
			f.credited = false
			r.order.MoveToBack(f.element)
		}
		if rounds == math.MaxInt64 {
			return nil, nil
		}
		if rounds > 0 {
			r.skip(rounds, head)
		}
	}
}

// skip gives the flows that may be served the quanta of rounds in which none can pay.
func (r *ring[T]) skip(rounds int64, head func(*flow[T]) *Entry[T]) {
	for at := r.order.Front(); at != nil; at = at.Next() {
		if f := at.Value.(*flow[T]); head(f) != nil {
			f.deficit += rounds * f.quantum
		}
	}
}
