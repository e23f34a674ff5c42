package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/leader"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// stranger starts a process that no other reaches, and that reaches none.
func (c *testCluster) stranger(roles ...string) *process {
	c.t.Helper()
	x := c.process("x", func(cfg *Config) { cfg.Self.Roles = roles })
	x.cut(true)
	if err := x.Start(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	return x
}

// elect has a process lead next, whoever does now.
func (c *testCluster) elect(p *process) {
	c.t.Helper()
	c.db.Mu.Lock()
	l := c.db.Leases[leader.LeaseName]
	l.Holder, l.ExpiresAt = p.Self(), time.Now().Add(testLease)
	l.Epoch++
	c.db.Leases[leader.LeaseName] = l
	c.db.Mu.Unlock()
	c.eventually("it alone leads", func() bool {
		return !slices.ContainsFunc(c.processes, func(q *process) bool { return (q.elector.Epoch() != 0) != (q == p) })
	})
}

// TestUnreachableLeader: a process that no other reaches, and that is elected, gives
// nothing away, lets another lead within some leases, and does not come back.
func TestUnreachableLeader(t *testing.T) {
	t.Run("of hosts that hold something", func(t *testing.T) {
		run(t, func(c *testCluster) {
			ps := c.start("a", "b", "c")
			c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
			x := c.stranger(protocol.RoleHost, protocol.RoleScheduler)
			defer x.kill()
			c.elect(x)
			began := time.Now()
			if owner, _ := c.acquired(ps[0], key("S", 1)); owner == x.name {
				c.t.Error("the stranger owns an actor")
			}
			if since := time.Since(began); since > 6*testLease {
				c.t.Errorf("nothing could be acquired for %v", since)
			}
			for until := time.Now().Add(10 * testLease); time.Now().Before(until); <-time.After(testLease / 8) {
				if x.elector.Epoch() != 0 {
					c.t.Fatal("it leads again")
				}
			}
			c.settled(testLease)
		})
	})
	t.Run("of hosts that hold nothing", func(t *testing.T) {
		run(t, func(c *testCluster) {
			ps := c.start("a", "b", "c")
			for _, p := range ps {
				p.setTypes()
			}
			c.eventually("nothing is held", func() bool { return len(c.holders(key("R", 1), abi.PlacementRing)) == 0 })
			x := c.stranger(protocol.RoleHost, protocol.RoleScheduler)
			defer x.kill()
			c.elect(x)
			for _, p := range ps {
				p.setTypes(ringType("R"), stickyType("S"))
			}
			for x.elector.Epoch() != 0 {
				if x.Holds(key("R", 1), abi.PlacementRing) != actor.NotHeld {
					c.t.Fatal("it gives itself what the others cannot reach then")
				}
				<-time.After(testLease / 8)
			}
			c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		})
	})
}

// TestUnreachableLeaderAlone: a process that stood back leads when nobody else does.
func TestUnreachableLeaderAlone(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b")
		c.settled(testLease)
		x := c.stranger(protocol.RoleHost, protocol.RoleScheduler)
		defer x.kill()
		c.elect(x)
		c.eventually("it resigns", func() bool { return x.elector.Epoch() == 0 })
		for _, p := range ps {
			p.kill()
		}
		killed := time.Now()
		for x.Holds(key("R", 1), abi.PlacementRing) == actor.NotHeld {
			if time.Since(killed) > 4*testLease {
				c.t.Fatalf("it holds nothing %v after the others have crashed", time.Since(killed))
			}
			<-time.After(testLease / 8)
		}
	})
}

// TestAwaitedStranger: a new leader does not wait for a host that it cannot get to know and
// that holds nothing, whose row is renewed for ever; it does for one that holds something.
func TestAwaitedStranger(t *testing.T) {
	holdsNothing := func(t *testing.T, deaf bool, within time.Duration) {
		t.Helper()
		run(t, func(c *testCluster) {
			ps := c.start("a", "b", "c")
			c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
			x := c.stranger(protocol.RoleHost)
			defer x.kill()
			if deaf {
				x.deafen(true)
			}
			<-time.After(testLease)
			c.leads().kill()
			killed := time.Now()
			other := ps[0]
			if !other.alive.Load() {
				other = ps[1]
			}
			for n := range 3 {
				_, _ = c.acquired(other, key("S", n))
			}
			if since := time.Since(killed); since > within {
				c.t.Errorf("nothing could be acquired for %v", since)
			}
			is := x.Self()
			c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
			<-time.After(6 * testLease)
			if x.Self() != is || !x.Current(time.Now()) {
				c.t.Error("it registers again and again in one term")
			}
			x.deafen(false) // its operator has given it the right key
			x.alive.Store(true)
			c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		})
	}
	t.Run("that holds nothing", func(t *testing.T) { holdsNothing(t, false, 5*testLease) })
	t.Run("that holds nothing and hears nothing", func(t *testing.T) { holdsNothing(t, true, 6*testLease) })
	t.Run("that holds something", func(t *testing.T) {
		run(t, func(c *testCluster) {
			ps := c.start("a", "b", "c")
			c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
			x := ps[2]
			if x == c.leads() {
				x = ps[1]
			}
			is := x.Self()
			x.cut(true)
			c.leads().kill()
			for until := time.Now().Add(6 * testLease); time.Now().Before(until); <-time.After(testLease / 8) {
				for n := range lookedAt {
					if h := c.holders(key("R", n), abi.PlacementRing); len(h) > 1 {
						c.t.Fatalf("actor %d is held by %v", n, h)
					}
				}
			}
			if x.Self() != is || x.drops > 0 {
				c.t.Error("it gave up what it holds")
			}
			x.cut(false)
			c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		})
	})
}

// TestDeafStranger: a host that holds nothing, and whose streams to the leader stay open
// without an answer, gives its row up within four leases.
func TestDeafStranger(t *testing.T) {
	run(t, func(c *testCluster) {
		c.start("a")
		c.settled(testLease)
		x := c.process("x", func(cfg *Config) { cfg.Self.Roles = []string{protocol.RoleHost} })
		x.deafen(true)
		if err := x.Start(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		defer x.kill()
		is, began := x.Self(), time.Now()
		for ; x.Self() == is; <-time.After(testLease / 16) {
			if time.Since(began) > 4*testLease {
				c.t.Fatalf("it keeps its row for %v", time.Since(began))
			}
		}
	})
}
