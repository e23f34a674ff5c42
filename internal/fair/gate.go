package fair

import (
	"context"
	"sync"
)

// Gate lets callers run a few at a time, as a [Queue] deals. All methods may be called
// concurrently.
type Gate struct {
	mu    sync.Mutex
	queue *Queue[chan struct{}] // closed when the caller may go on
}

// NewGate returns a gate that lets in as many as the bounds of what runs allow.
func NewGate(cfg Config) *Gate { return &Gate{queue: New[chan struct{}](cfg)} }

// Caller is who asks a gate for a place.
type Caller struct {
	App, Type string
	// Cost is what the place takes from the app, see [Entry].
	Cost int64
}

// Enter waits for a place until ctx ends, and then returns ctx's error. The caller gives the
// place back with leave, once. A [*FullError] refuses a caller whose app has too many that
// wait.
func (g *Gate) Enter(ctx context.Context, c Caller) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := &Entry[chan struct{}]{App: c.App, Type: c.Type, Cost: c.Cost, Value: make(chan struct{})}
	g.mu.Lock()
	err = g.queue.Push(e)
	g.deal()
	g.mu.Unlock()
	if err != nil {
		return nil, err
	}
	leave = func() { g.remove(e) }
	select {
	case <-e.Value:
		return leave, nil
	case <-ctx.Done():
		leave() // the place as well, if it was given at the same moment
		return nil, ctx.Err()
	}
}

// Len returns how many callers wait.
func (g *Gate) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queue.Len()
}

func (g *Gate) remove(e *Entry[chan struct{}]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue.Remove(e)
	g.deal()
}

// deal lets in who may be; g.mu is held.
func (g *Gate) deal() {
	for e := g.queue.Next(); e != nil; e = g.queue.Next() {
		close(e.Value)
	}
}
