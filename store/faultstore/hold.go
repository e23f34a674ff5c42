package faultstore

import (
	"context"
	"sync"
)

// Point is a place where an operation can be held.
type Point string

// The points.
const (
	BeforeLoad     Point = "before load"
	BeforeVersions Point = "before versions"
	BeforeCommit   Point = "before commit"
	// AfterCommit is when a group has been applied and not yet answered. An
	// operation whose context ends there answers actor.ErrAmbiguous.
	AfterCommit Point = "after commit"
	// BeforeTurnCommit is when fn of a locked turn has returned a commit, and
	// the row is locked.
	BeforeTurnCommit Point = "before turn commit"
	BeforeSettle     Point = "before settle"
)

// Held is an operation that is, or will be, held at a point.
type Held struct {
	reached chan struct{}
	release chan struct{}
	once    sync.Once
}

// Reached is closed when an operation waits at the point.
func (h *Held) Reached() <-chan struct{} { return h.reached }

// Release lets the operation go on, or the next one pass. It is safe twice.
func (h *Held) Release() { h.once.Do(func() { close(h.release) }) }

// holds are the traps that are set, by point, in the order of setting.
type holds struct {
	mu  sync.Mutex
	set map[Point][]*Held
}

// Hold stops the next operation that comes to p.
func (h *holds) Hold(p Point) *Held {
	held := &Held{reached: make(chan struct{}), release: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set == nil {
		h.set = make(map[Point][]*Held)
	}
	h.set[p] = append(h.set[p], held)
	return held
}

// pass waits at p if a trap is set there. The error is that of ctx.
func (h *holds) pass(ctx context.Context, p Point) error {
	h.mu.Lock()
	var held *Held
	if q := h.set[p]; len(q) > 0 {
		held, h.set[p] = q[0], q[1:]
	}
	h.mu.Unlock()
	if held == nil {
		return nil
	}
	close(held.reached)
	select {
	case <-held.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
