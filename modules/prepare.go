package modules

import "sync"

// modulesQueue holds each module once, first come first served.
type modulesQueue struct {
	more chan struct{} // has one token if some may be there

	mu      sync.Mutex
	waiting []module
	known   map[module]struct{}
}

func (q *modulesQueue) add(m module) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.known[m]; ok {
		return
	}
	q.known[m] = struct{}{}
	q.waiting = append(q.waiting, m)
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *modulesQueue) next() (module, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return module{}, false
	}
	m := q.waiting[0]
	q.waiting = q.waiting[1:]
	delete(q.known, m)
	return m, true
}
