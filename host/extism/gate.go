package extism

import (
	"context"
	"sync"
)

// gate counts the calls in flight, so that closing waits for them: code and
// memory are unmapped when an engine closes, and must not be in use then.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside int
	empty  chan struct{} // closed when the gate is closed and nobody is inside
}

// enter reports false once the gate is closed. Otherwise leave must follow.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

// close lets nobody in any more and waits until ctx ends for those inside. Once
// it is empty, that wins over a ctx that has ended.
func (g *gate) close(ctx context.Context) error {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
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
