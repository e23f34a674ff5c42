package modules

import (
	"math/bits"
	"strconv"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// module is a module of an app.
type module struct {
	app    string
	digest actor.Digest
}

// modulesQueue holds each module once. Apps take turns, and of one app small modules whose
// types are many go before others.
type modulesQueue struct {
	more chan struct{} // has one token if some may be there

	mu      sync.Mutex
	waiting *fair.Queue[module]
	known   map[module]struct{} // those that wait
	taken   bool                // next returned a module, and was not called again
}

func newModulesQueue() modulesQueue {
	return modulesQueue{more: make(chan struct{}, 1), waiting: fair.New[module](fair.Config{}), known: make(map[module]struct{})}
}

// add has a module wait that costs so much for each type that it serves.
func (q *modulesQueue) add(m module, cost int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.known[m]; ok {
		return
	}
	q.known[m] = struct{}{}
	// The queue deals classes of equal cost in turn, so that cheap ones go first.
	class := strconv.Itoa(bits.Len64(uint64(cost)))
	_ = q.waiting.Push(&fair.Entry[module]{App: m.app, Type: class, Cost: cost, Value: m}) // without bounds
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *modulesQueue) next() (module, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.waiting.Next()
	if q.taken = e != nil; !q.taken {
		return module{}, false
	}
	delete(q.known, e.Value)
	return e.Value, true
}

func (q *modulesQueue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.taken && q.waiting.Len() == 0
}
