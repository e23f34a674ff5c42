package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// TestResumesAfterTheHandOver: what a host was handing over when its session ended it holds
// again when the hand-over has ended, though nobody is told of it, and not before: what ends
// its turns is still at work.
func TestResumesAfterTheHandOver(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		<-time.After(testLease) // the rest of what moves
		other := ps[1]
		if other == c.leads() {
			other = ps[0]
		}
		other.mu.Lock()
		other.busy, other.stubborn, other.moved = make(chan struct{}), true, nil
		other.mu.Unlock()
		c.start("c")
		var moving actor.Key
		c.eventually("something moves", func() bool {
			other.mu.Lock()
			defer other.mu.Unlock()
			for n := 0; n < 10_000 && len(other.moved) > 0; n++ {
				if moving = key("R", n); other.moved[0](moving) {
					return true
				}
			}
			return false
		})
		other.cut(true)
		<-time.After(testLease)
		if at := c.holders(moving, abi.PlacementRing); len(at) > 0 {
			c.t.Errorf("while it is handed over it is held by %v", at)
		}
		close(other.busy)
		synctest.Wait()
		if at := c.holders(moving, abi.PlacementRing); len(at) != 1 || at[0] != other.name {
			c.t.Errorf("when the hand-over that nobody heard of has ended it is held by %v", at)
		}
		other.cut(false)
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
	})
}

// TestGivenUpInVain: sticky actors that a host was giving up for having too many it goes on
// with when its session ends before.
func TestGivenUpInVain(t *testing.T) {
	run(t, func(c *testCluster) {
		c.start("a")
		c.settled(testLease)
		b := c.process("b", func(cfg *Config) { cfg.MaxOwned = 2 })
		if err := b.Start(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		b.alive.Store(true)
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		<-time.After(testLease) // the rest of what moves
		b.mu.Lock()
		b.busy, b.handOvers = make(chan struct{}), 0
		b.mu.Unlock()
		var own []actor.Key
		for n := 0; len(own) < 3; n++ {
			if owner, _ := c.acquired(b, key("S", n)); owner == "b" {
				own = append(own, key("S", n))
			}
		}
		c.eventually("one is given up", func() bool { return b.handOversOf() > 0 })
		if b.Holds(own[0], abi.PlacementSticky) != actor.NotHeld {
			c.t.Error("turns begin of what is given up")
		}
		b.cut(true)
		synctest.Wait()
		for _, k := range own {
			if b.Holds(k, abi.PlacementSticky) == actor.NotHeld {
				c.t.Errorf("%v is neither owned nor given up", k)
			}
		}
	})
}

// TestStickyIsNotHeldWhileHandedOver: no turn of a sticky actor begins at its owner while all
// of the type is handed over, since its placement changes.
func TestStickyIsNotHeldWhileHandedOver(t *testing.T) {
	run(t, func(c *testCluster) {
		p, k := c.start("a")[0], key("S", 1)
		if owner, _ := c.acquired(p, k); owner != "a" || p.Holds(k, abi.PlacementSticky) == actor.NotHeld {
			c.t.Fatalf("%s owns it", owner)
		}
		p.mu.Lock()
		p.busy, p.handOvers = make(chan struct{}), 0
		p.mu.Unlock()
		p.setTypes(ringType("R"), placedType("S", abi.PlacementRing, 2))
		c.eventually("it is handed over", func() bool { return p.handOversOf() > 0 })
		for _, policy := range []string{abi.PlacementSticky, abi.PlacementRing} {
			if p.Holds(k, policy) != actor.NotHeld || p.Find(k, policy).Here {
				c.t.Errorf("%s: it is held while it is handed over", policy)
			}
		}
		close(p.busy)
		c.eventually("it is held by its range", func() bool { return p.Holds(k, abi.PlacementRing) != actor.NotHeld && p.Owned() == 0 })
	})
}
