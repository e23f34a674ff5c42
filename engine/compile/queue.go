package compile

import (
	"context"
	"math/bits"
	"strconv"
	"strings"
	"sync"

	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// queue hands out places. Owners share them by the cost of their work: [fair.Queue]. Work
// that calls wait for has servingWeight times the share of other work of the same app.
type queue struct {
	mu    sync.Mutex
	turns *fair.Queue[*waiter]
}

// waiter waits for a place.
type waiter struct {
	entries []*fair.Entry[*waiter] // one for each owner of the work
	dealt   bool
	given   chan struct{} // closed once it is dealt
}

const (
	servingPrefix = "/serving " // of apps in the queue
	servingWeight = 8
	// mostCost bounds costs far above those of real modules.
	mostCost = 1 << 40
)

func newQueue(places int) *queue {
	return &queue{turns: fair.New[*waiter](fair.Config{
		Running: fair.Bounds{Total: int64(places)},
		Weight: func(app string) int64 {
			if strings.HasPrefix(app, servingPrefix) {
				return servingWeight
			}
			return 1
		},
	})}
}

// acquire waits for a place for work of so much cost, of the owners of the context. The
// caller gives the place back with release, once.
func (q *queue) acquire(ctx context.Context, cost uint64) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{given: make(chan struct{})}
	for {
		owners, more := ownersOf(ctx)
		q.push(w, owners, min(cost, mostCost))
		select {
		case <-w.given:
			return func() { q.remove(w) }, nil
		case <-ctx.Done():
			q.remove(w)
			return nil, ctx.Err()
		case <-more:
		}
	}
}

// push has w wait for those of the owners that it does not wait for yet. The owner whose
// turn comes first pays.
func (q *queue) push(w *waiter, owners []engine.Owner, cost uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// The queue deals classes of equal cost in turn, so that cheap work goes first.
	class := strconv.Itoa(bits.Len64(cost))
	for _, o := range owners[len(w.entries):] {
		if w.dealt {
			return
		}
		app := o.App
		if o.Serving {
			app = servingPrefix + app
		}
		e := &fair.Entry[*waiter]{App: app, Type: class, Cost: int64(cost), Value: w}
		w.entries = append(w.entries, e)
		_ = q.turns.Push(e) // the queue has no bounds
	}
	q.deal()
}

func (q *queue) remove(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range w.entries {
		q.turns.Remove(e)
	}
	q.deal()
}

// deal gives the free places to those whose turn it is. q.mu is held.
func (q *queue) deal() {
	for e := q.turns.Next(); e != nil; e = q.turns.Next() {
		w := e.Value
		w.dealt = true
		for _, other := range w.entries {
			if other != e {
				q.turns.Remove(other)
			}
		}
		close(w.given)
	}
}
