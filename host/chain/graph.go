// Package chain says which chains of calls wait for each other. A chain holds the actors
// that it has, waits for at most one more, and lets go of all of them at its end. Chains that
// wait for each other in a circle would wait for ever: [Graph.Wait] finds the circle when the
// last of them begins to wait, and ends the wait of the youngest.
//
// # Invariants
//
//   - Every circle is found: a chain that gets an actor is its holder before it begins to
//     wait for another one, and who begins to wait looks at all that wait by then.
//   - Nothing else is found: a chain lets go of an actor before another one gets it.
//   - Of the chains in a circle the oldest is never ended, so that one of them goes on. A chain
//     that runs again keeps its age, so that it is the oldest of all in the end.
package chain

import (
	"maps"
	"slices"
	"sync"
)

// Graph is who holds which actors, of a type A, and who waits for them. The zero value is
// empty. All methods, and those of its chains, may be called concurrently.
type Graph[A comparable] struct {
	mu      sync.Mutex
	holders map[A]*Chain[A]
	born    uint64
}

// Chain is one chain of a [Graph].
type Chain[A comparable] struct {
	graph *Graph[A]
	born  uint64
	held  []A
	// waits is the actor that the chain waits for, if waiting.
	waits   A
	waiting bool
	name    string // that of chains at other hosts as well; empty: none is
	doomed  chan struct{}
	circle  []A // set before doomed is closed
}

// Begin returns a new chain, the youngest; or one that runs again, which was born when its first
// run was. born is zero for a new one.
func (g *Graph[A]) Begin(born uint64) *Chain[A] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if born == 0 {
		g.born++
		born = g.born
	}
	return &Chain[A]{graph: g, born: born, doomed: make(chan struct{})}
}

// Born returns the place of the chain in the order of birth, which is never zero.
func (c *Chain[A]) Born() uint64 { return c.born }

// Wait says that the chain begins to wait for an actor. If that closes a circle, the wait of
// the youngest chain in it is ended, which [Chain.Doomed] tells.
func (c *Chain[A]) Wait(a A) {
	g := c.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	c.waits, c.waiting = a, true
	youngest, circle := c, []A{a}
	for at := g.holders[a]; at != nil && at.waiting; at = g.holders[at.waits] {
		if at == c {
			if youngest.waiting = false; youngest.circle == nil { // else it ends already
				youngest.circle = circle
				close(youngest.doomed)
			}
			return
		}
		if at.born > youngest.born {
			youngest = at
		}
		circle = append(circle, at.waits)
	}
}

// Hold says that the chain has an actor, and waits for none.
func (c *Chain[A]) Hold(a A) {
	g := c.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holders == nil {
		g.holders = make(map[A]*Chain[A])
	}
	g.holders[a], c.waiting = c, false
	c.held = append(c.held, a)
}

// SetName gives the chain a name, which chains at other hosts have as well that do a part of
// the same work.
func (c *Chain[A]) SetName(name string) {
	c.graph.mu.Lock()
	defer c.graph.mu.Unlock()
	c.name = name
}

// Holds reports whether a chain with this name has an actor.
func (g *Graph[A]) Holds(name string, a A) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	holder := g.holders[a]
	return holder != nil && holder.name == name
}

// Has reports whether the chain has an actor.
func (c *Chain[A]) Has(a A) bool {
	c.graph.mu.Lock()
	defer c.graph.mu.Unlock()
	return c.graph.holders[a] == c
}

// Held returns all that chains have.
func (g *Graph[A]) Held() []A {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.holders))
}

// GiveUp says that the chain waits for nothing any more.
func (c *Chain[A]) GiveUp() {
	c.graph.mu.Lock()
	defer c.graph.mu.Unlock()
	c.waiting = false
}

// Doomed is closed when the wait of the chain was ended, because of the actors that Circle
// returns then: each is waited for by the holder of the one before it.
func (c *Chain[A]) Doomed() <-chan struct{} { return c.doomed }

// Circle returns why the chain was doomed.
func (c *Chain[A]) Circle() []A { return c.circle }

// End lets go of all actors of the chain.
func (c *Chain[A]) End() {
	g := c.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range c.held {
		delete(g.holders, a)
	}
	c.held, c.waiting = nil, false
}
