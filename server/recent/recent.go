package recent

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/internal/fair"
)

// maxSteps bounds the steps of all types together: some 50 MB.
const maxSteps = 256 << 10

// Turns are the turns of all types. Make it with [New]; its methods may be called concurrently.
type Turns struct {
	newest atomic.Int64 // number of the newest step that was begun
	room   *fair.Account

	mu    sync.Mutex
	types map[string]map[string]*Type // by app and type
}

// New returns Turns that have counted nothing.
func New() *Turns {
	return &Turns{room: fair.NewAccount(fair.Bounds{Name: "steps of turns", Total: maxSteps}), types: map[string]map[string]*Type{}}
}

// Type returns the turns of a type. It lasts for as long as t: names must be of deployed types.
func (t *Turns) Type(app, typ string) *Type {
	t.mu.Lock()
	defer t.mu.Unlock()
	types := t.types[app]
	if types == nil {
		types = map[string]*Type{}
		t.types[app] = types
	}
	if types[typ] == nil {
		types[typ] = &Type{all: t, app: app}
	}
	return types[typ]
}

// begin returns the step of y with a number, which it adds; nil if there is no room, or it is too old.
func (t *Turns) begin(y *Type, n int64) *step {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(n)
	if n <= t.newest.Load()-Steps {
		return nil
	}
	slot := &y.steps[n%Steps]
	if s := slot.Load(); s != nil { // another goroutine was first; what was there before is swept
		return s
	}
	if t.room.Take(y.app, 1) != nil {
		return nil
	}
	s := &step{number: n}
	slot.Store(s)
	return s
}

// advance removes the steps that are older than Steps once the newest has number n. The lock is held.
func (t *Turns) advance(n int64) {
	if n <= t.newest.Load() {
		return
	}
	t.newest.Store(n)
	for app, types := range t.types {
		for _, y := range types {
			for i := range y.steps {
				if s := y.steps[i].Load(); s != nil && s.number <= n-Steps {
					y.steps[i].Store(nil)
					t.room.Give(app, 1)
				}
			}
		}
	}
}

// Type counts the turns of one type. Its methods may be called concurrently.
type Type struct {
	all       *Turns
	app       string
	uncounted atomic.Uint64
	steps     [Steps]atomic.Pointer[step] // by number, modulo Steps
}

// step are the turns that ended in one step.
type step struct {
	number    int64
	errors    atomic.Uint32
	durations [buckets]atomic.Uint32
}

// counts returns what was counted so far.
func (s *step) counts() StepCounts {
	c := StepCounts{Number: s.number, Errors: s.errors.Load(), Durations: make([]uint32, buckets)}
	for i := range s.durations {
		c.Durations[i] = s.durations[i].Load()
	}
	return c
}

// Add counts a turn that ended at a time and took so long.
func (y *Type) Add(at time.Time, took time.Duration, failed bool) {
	n := number(at)
	s := y.steps[n%Steps].Load()
	if s == nil || s.number != n {
		if s = y.all.begin(y, n); s == nil {
			y.uncounted.Add(1)
			return
		}
	}
	if failed {
		s.errors.Add(1)
	}
	s.durations[bucketOf(took)].Add(1)
}

// Of returns what is remembered of an app at a time.
func (t *Turns) Of(app string, now time.Time) Counts {
	last := number(now)
	t.mu.Lock()
	types := maps.Clone(t.types[app])
	t.mu.Unlock()
	c := Counts{Types: map[string][]StepCounts{}}
	for name, y := range types {
		c.Uncounted += y.uncounted.Load()
		for n := last - Steps + 1; n <= last; n++ {
			if of := y.steps[n%Steps].Load(); of != nil && of.number == n {
				c.Types[name] = append(c.Types[name], of.counts())
			}
		}
	}
	return c
}
