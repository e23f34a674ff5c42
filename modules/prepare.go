package modules

import (
	"context"
	"sync"
)

// prepare calls Config.Prepare. A module that cannot be prepared serves all the
// same.
func (s *Service) prepare(ctx context.Context, m module) {
	err := s.cfg.Prepare(ctx, m.app, m.digest)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("cannot prepare a module; its first call will try again", "app", m.app, "module", m.digest.Short(), "error", err)
	}
}

// prepareAll prepares the modules that serve already, until ctx ends. It takes one
// at a time: a call that needs another one finds a compiler after this one.
func (s *Service) prepareAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.preparing.more:
		}
		for ctx.Err() == nil {
			m, ok := s.preparing.next()
			if !ok {
				break
			}
			s.prepare(ctx, m)
		}
	}
}

// modulesQueue holds each module once, first come first served.
type modulesQueue struct {
	more chan struct{} // has one token if some may be there

	mu      sync.Mutex
	waiting []module
	known   map[module]struct{}
}

func (q *modulesQueue) init() {
	q.more = make(chan struct{}, 1)
	q.known = make(map[module]struct{})
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
