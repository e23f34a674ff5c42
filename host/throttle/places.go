package throttle

import (
	"sync"

	"github.com/greenroom-run/greenroom/internal/fair"
)

// places bound the turns of a limit that run at the same time. Keys have them in turn.
type places struct {
	most  int
	mu    sync.Mutex
	queue *fair.Queue[chan struct{}]
	taken int
}

func newPlaces(most int) *places {
	return &places{most: most, queue: fair.New[chan struct{}](fair.Config{})}
}

// place is what a turn has of places, or waits for.
type place struct {
	of    *places
	entry fair.Entry[chan struct{}]
	ready chan struct{} // closed when the turn has its place
}

// ask takes a place at one of so many hosts, or waits for one. A turn that no longer wants it, or has used it, leaves.
func (ps *places) ask(key string, hosts int) *place {
	p := &place{of: ps, ready: make(chan struct{})}
	p.entry.App, p.entry.Value = key, p.ready
	ps.mu.Lock()
	defer ps.mu.Unlock()
	_ = ps.queue.Push(&p.entry) // it has no bounds
	ps.deal(hosts)
	return p
}

// deal gives places that are free to those who are next. The caller has the lock.
func (ps *places) deal(hosts int) {
	share := max(1, ps.most/hosts)
	for ps.taken < share {
		e := ps.queue.Next()
		if e == nil {
			return
		}
		ps.taken++
		close(e.Value)
	}
}

// leave gives the place up, or the wait for it.
func (p *place) leave(hosts int) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	select {
	case <-p.ready:
		p.of.taken--
	default:
		p.of.queue.Remove(&p.entry)
	}
	p.of.deal(hosts)
}
