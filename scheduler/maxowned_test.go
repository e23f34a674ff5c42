package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// TestMaxOwned: beyond the bound the least recently used are released, counted, and
// acquired again.
func TestMaxOwned(t *testing.T) {
	run(t, func(c *testCluster) {
		released := 0
		p := c.process("a", func(cfg *Config) {
			cfg.MaxOwned = 100
			cfg.Events.StickyReleased = func(n int) { released += n }
		})
		if err := p.Start(c.t.Context()); err != nil {
			t.Fatal(err)
		}
		p.alive.Store(true)
		for i := range 300 {
			_, _ = c.acquired(p, key("S", i))
			_ = p.Holds(key("S", 0), abi.PlacementSticky) // used all the time
		}
		synctest.Wait()
		if p.Owned() > 100 || released < 200 {
			t.Errorf("it owns %d and released %d", p.Owned(), released)
		}
		if p.Holds(key("S", 0), abi.PlacementSticky) == actor.NotHeld {
			t.Error("one that is used was released")
		}
		list, err := p.Hosts(c.t.Context())
		if err != nil || len(list.Hosts) != 1 || list.Hosts[0].Sticky != p.Owned() {
			t.Errorf("the leader knows of %+v, the host of %d: %v", list.Hosts, p.Owned(), err)
		}
	})
}

// TestMaxOwnedWithChains: what a chain has stays, beyond the bound as well, and goes when the chain is over.
// What it gets next stays until the chain has it.
func TestMaxOwnedWithChains(t *testing.T) {
	run(t, func(c *testCluster) {
		p := c.process("a", func(cfg *Config) { cfg.MaxOwned = 1 })
		if err := p.Start(c.t.Context()); err != nil {
			t.Fatal(err)
		}
		p.alive.Store(true)
		has := func(inChains []actor.Key) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.inChains = inChains
		}
		for i := range 3 {
			_, _ = c.acquired(p, key("S", i))
			synctest.Wait()
			has(append(p.InChains(), key("S", i)))
		}
		for i := range 3 {
			if p.Holds(key("S", i), abi.PlacementSticky) == actor.NotHeld {
				t.Errorf("actor %d was released", i)
			}
		}
		has(nil)
		_, _ = c.acquired(p, key("S", 3))
		synctest.Wait()
		if p.Owned() > 1 || p.Holds(key("S", 3), abi.PlacementSticky) == actor.NotHeld {
			t.Errorf("it owns %d", p.Owned())
		}
	})
}

// TestTooManyLeave: nothing is handed over for there being too many sticky actors that
// leave already: what has begun there may take long, and would be asked for without end.
func TestTooManyLeave(t *testing.T) {
	run(t, func(c *testCluster) {
		p := c.process("a", func(cfg *Config) { cfg.MaxOwned = 1 })
		if err := p.Start(c.t.Context()); err != nil {
			t.Fatal(err)
		}
		p.alive.Store(true)
		_, _ = c.acquired(p, key("S", 0))
		synctest.Wait()
		p.Service.mu.Lock()
		p.owned.add(key("S", 1))
		p.owned.leave(2, func(actor.Key, *ownedActor) bool { return true }) // as a drain does
		p.busy = make(chan struct{})
		p.sticky.releaseSome()
		p.Service.mu.Unlock()
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.handOvers != 0 {
			t.Errorf("%d hand-overs", p.handOvers)
		}
	})
}

// TestMaxAsked: a host asks for a bounded number of sticky actors while no leader answers;
// calls of the others wait, and find theirs once answers come.
func TestMaxAsked(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		p := ps[0]
		if p == c.leads() {
			p = ps[1]
		}
		p.cut(true)
		c.eventually("it has no session", func() bool { return !p.Leadership().Connected })
		var waits []<-chan struct{}
		var keys []actor.Key
		for n := 0; len(keys) < maxAsked+1000; n++ {
			k := key("S", n)
			where := p.Find(k, abi.PlacementSticky)
			if where.Host != "" {
				continue // the other one is to own it
			}
			if where.Here || where.Wait == nil {
				c.t.Fatalf("%v without a leader: %+v", k, where)
			}
			keys, waits = append(keys, k), append(waits, where.Wait)
		}
		p.Service.mu.Lock()
		asked, asking := len(p.sticky.asked), len(p.sticky.asking)
		p.Service.mu.Unlock()
		if asked > maxAsked || asking > maxAsked {
			c.t.Errorf("%d actors are asked for at once", asked)
		}
		p.cut(false)
		for _, wait := range waits {
			select {
			case <-wait:
			case <-time.After(time.Minute): // of the bubble's time
				c.t.Fatal("who waits is not woken when answers come")
			}
		}
		for _, k := range keys[maxAsked:] {
			if name, _ := c.acquired(p, k); name != p.name {
				c.t.Fatalf("%v is owned by %s", k, name)
			}
		}
	})
}
