package fair

import (
	"context"
	"sync"
)

// Places bound how many callers do something at the same time. A caller that finds no free place
// waits, and a [Queue] deals the places that become free. Of several places, an app leaves some
// to others: see [Account]. All methods may be called concurrently.
type Places struct {
	mu    sync.Mutex
	queue *Queue[chan struct{}]
}

// NewPlaces returns so many places, at least one.
func NewPlaces(number int) *Places {
	return &Places{queue: New[chan struct{}](Config{Running: Bounds{Total: int64(max(1, number))}})}
}

// Enter waits for a place for a type of an app. leave gives the place back. Enter returns the
// context's error if the context ends first.
func (p *Places) Enter(ctx context.Context, app, typ string) (leave func(), err error) {
	e := &Entry[chan struct{}]{App: app, Type: typ}
	leave = func() { p.remove(e) }
	p.mu.Lock()
	if p.queue.Run(e) {
		p.mu.Unlock()
		return leave, nil
	}
	e.Value = make(chan struct{})
	_ = p.queue.Push(e) // the queue has no bounds
	p.deal()
	p.mu.Unlock()
	select {
	case <-e.Value:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// Waiting returns how many wait for a place.
func (p *Places) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Len()
}

func (p *Places) remove(e *Entry[chan struct{}]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.Remove(e)
	p.deal()
}

// deal gives free places to the next callers. The caller holds the lock.
func (p *Places) deal() {
	for e := p.queue.Next(); e != nil; e = p.queue.Next() {
		close(e.Value)
	}
}
