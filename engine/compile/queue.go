package compile

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/greenroom-run/greenroom/engine"
)

// queue hands out places. Owners share the places by cost, as in fair queueing. Each
// owner has a time of its own, which its requests advance by their costs. The owner
// whose next request ends first in these times gets the next place. So cheap requests go
// before costly ones, of the same owner or of another; many requests of one owner do not
// push back those of another; and no request is overtaken for ever, since the time at
// which a new owner begins advances with every place that is handed out. Owners that
// serve go before all others, and share the places in the same way.
type queue struct {
	mu       sync.Mutex
	free     int
	now      [2]uint64                  // the time of the owner that got the last place; [1] of those that serve
	owners   map[engine.Owner]*ownQueue // those that wait or have a place
	requests uint64                     // so far
	turns    uint64                     // so far
}

// ownQueue is the requests of one owner.
type ownQueue struct {
	serving int    // 1 if the owner serves
	time    uint64 // up to which it was served
	turn    uint64 // in which it got its last place, 0 for none
	places  int    // that it has
	waiting []*waiter
}

type waiter struct {
	cost   uint64
	rank   uint64 // the time at which it came and its cost: older ones of an owner go before
	number uint64
	given  chan struct{}
}

func newQueue(places int) *queue {
	return &queue{free: places, owners: make(map[engine.Owner]*ownQueue)}
}

// acquire waits for a place for work of so much cost. The caller gives it back with
// release, once.
func (q *queue) acquire(ctx context.Context, owner engine.Owner, cost uint64) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	release = func() { q.release(owner) }
	q.mu.Lock()
	own := q.owners[owner]
	if own == nil {
		own = &ownQueue{}
		if owner.Serving {
			own.serving = 1
		}
		own.time = q.now[own.serving]
		q.owners[owner] = own
	}
	q.requests++
	r := &waiter{cost: cost, rank: q.now[own.serving] + cost, number: q.requests, given: make(chan struct{})}
	at, _ := slices.BinarySearchFunc(own.waiting, r, compareWaiters)
	own.waiting = slices.Insert(own.waiting, at, r)
	q.next()
	q.mu.Unlock()
	select {
	case <-r.given:
		return release, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	at = slices.Index(own.waiting, r)
	if at >= 0 {
		own.waiting = slices.Delete(own.waiting, at, at+1)
		q.tidy(owner)
	}
	q.mu.Unlock()
	if at < 0 { // given at the same moment
		release()
	}
	return nil, ctx.Err()
}

func compareWaiters(a, b *waiter) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.number, b.number))
}

func (q *queue) release(owner engine.Owner) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.owners[owner].places--
	q.free++
	q.next()
	q.tidy(owner)
}

// next gives the free places to who is next. q.mu is held.
func (q *queue) next() {
	for q.free > 0 {
		var own *ownQueue
		for _, o := range q.owners {
			if len(o.waiting) > 0 && (own == nil || o.before(own)) {
				own = o
			}
		}
		if own == nil {
			return
		}
		r := own.waiting[0]
		own.waiting = slices.Delete(own.waiting, 0, 1)
		q.turns++
		own.time, own.turn = own.time+r.cost, q.turns
		own.places++
		q.now[own.serving] = max(q.now[own.serving], own.time)
		q.free--
		close(r.given)
	}
}

// before reports whether the next place is rather o's than other's: both wait.
func (o *ownQueue) before(other *ownQueue) bool {
	if o.serving != other.serving {
		return o.serving > other.serving
	}
	a, b := o.waiting[0], other.waiting[0]
	return cmp.Or(cmp.Compare(o.time+a.cost, other.time+b.cost), cmp.Compare(o.turn, other.turn), cmp.Compare(a.number, b.number)) < 0
}

// tidy forgets an owner that neither waits nor has a place: its time is not ahead of
// that of a new one. q.mu is held.
func (q *queue) tidy(owner engine.Owner) {
	if own := q.owners[owner]; len(own.waiting) == 0 && own.places == 0 {
		delete(q.owners, owner)
	}
}
