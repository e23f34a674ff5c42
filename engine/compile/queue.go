package compile

import (
	"context"
	"sync"
)

// queue hands out places. Owners that wait get them in turn, whatever the number
// of requests each of them has; the owner "" goes before all others.
type queue struct {
	mu      sync.Mutex
	free    int
	waiting map[string][]chan struct{} // by owner, first come first served
	turns   []string                   // the owners that wait, in the order of their turns
}

func newQueue(places int) *queue {
	return &queue{free: places, waiting: make(map[string][]chan struct{})}
}

// acquire waits for a place, which the caller gives back with release.
func (q *queue) acquire(ctx context.Context, owner string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
		return nil
	}
	given := make(chan struct{})
	if len(q.waiting[owner]) == 0 {
		q.turns = append(q.turns, owner)
	}
	q.waiting[owner] = append(q.waiting[owner], given)
	q.mu.Unlock()
	select {
	case <-given:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-given: // at the same moment
		q.next()
	default:
		q.leave(owner, given)
	}
	return ctx.Err()
}

func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next()
}

// next gives a place to who is next. q.mu is held.
func (q *queue) next() {
	if len(q.turns) == 0 {
		q.free++
		return
	}
	at := 0
	for n, owner := range q.turns {
		if owner == "" {
			at = n
		}
	}
	owner := q.turns[at]
	given := q.waiting[owner][0]
	q.leave(owner, given)
	for n, o := range q.turns {
		if o == owner { // and to the back, if it has more
			q.turns = append(append(q.turns[:n:n], q.turns[n+1:]...), owner)
			break
		}
	}
	close(given)
}

// leave takes a request out. q.mu is held.
func (q *queue) leave(owner string, given chan struct{}) {
	list := q.waiting[owner]
	for n, g := range list {
		if g == given {
			list = append(list[:n:n], list[n+1:]...)
			break
		}
	}
	if len(list) > 0 {
		q.waiting[owner] = list
		return
	}
	delete(q.waiting, owner)
	for n, o := range q.turns {
		if o == owner {
			q.turns = append(q.turns[:n:n], q.turns[n+1:]...)
			break
		}
	}
}
