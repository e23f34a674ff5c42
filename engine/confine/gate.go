package confine

import (
	"context"
	"sync"
)

// Gate counts the calls in flight, so that closing waits for them: code and
// memory are unmapped when an engine closes, and must not be in use then. The zero
// value is open. All methods may be called concurrently.
type Gate struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // not nil: closed to new calls; closed once nobody is inside
}

// Enter reports false once the gate is closed. Otherwise Leave must follow.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		return false
	}
	g.inside++
	return true
}

// Leave ends what an Enter began.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.empty != nil && g.inside == 0 {
		close(g.empty)
	}
}

// Close lets nobody in any more and waits until ctx ends for those inside. Once
// it is empty, that wins over a ctx that has ended. It may be called again.
func (g *Gate) Close(ctx context.Context) error {
	g.mu.Lock()
	if g.empty == nil {
		g.empty = make(chan struct{})
		if g.inside == 0 {
			close(g.empty)
		}
	}
	g.mu.Unlock()
	select {
	case <-g.empty:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-g.empty:
		return nil
	default:
		return ctx.Err()
	}
}
