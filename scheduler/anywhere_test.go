package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// mayRun reports whether a process runs calls of an actor that arrive by a placement.
func (p *process) mayRun(k actor.Key, policy string) bool {
	return p.Current(time.Now()) && p.Holds(k, policy) != actor.NotHeld
}

// deploys has processes know the n-th deployment of type R.
func deploys(policy string, n uint64, ps ...*process) {
	for _, p := range ps {
		p.setTypes(placedType("R", policy, n), stickyType("S"))
	}
}

// nobodyHolds fails if an actor of the ring type is held.
func (c *testCluster) nobodyHolds(why string) {
	c.t.Helper()
	for i := range lookedAt {
		if at := c.holders(key("R", i), abi.PlacementRing); len(at) > 0 {
			c.t.Fatalf("%v is held by %v: %s", key("R", i), at, why)
		}
	}
}

// handOversOf returns how often a process has handed over.
func (p *process) handOversOf() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handOvers
}

// TestAnyIsHandedOver: when the placement any of a type changes, nobody holds its actors
// before each host that ran them anywhere has ended them, or is gone, also one that has
// not heard of the deployment; and what is then held is not clean.
func TestAnyIsHandedOver(t *testing.T) {
	for _, gone := range []bool{false, true} {
		run(t, func(c *testCluster) {
			ps := c.start("a", "b", "c")
			c.settled(20 * time.Second)
			deploys(abi.PlacementAny, 2, ps...)
			k, slow := key("R", 1), ps[2]
			c.eventually("all run it", func() bool {
				return !slices.ContainsFunc(ps, func(p *process) bool { return !p.Find(k, abi.PlacementAny).Here || !p.mayRun(k, abi.PlacementAny) })
			})
			slow.mu.Lock()
			slow.busy, slow.handOvers = make(chan struct{}), 0
			slow.mu.Unlock()
			deploys(abi.PlacementRing, 3, ps[:2]...) // and c has not heard of it
			c.eventually("it hands over", func() bool { return slow.handOversOf() > 0 })
			<-time.After(10 * time.Second)
			c.nobodyHolds("c has not handed it over")
			for _, p := range ps {
				if p.Find(k, abi.PlacementAny).Here || p.mayRun(k, abi.PlacementAny) {
					t.Errorf("%s goes on with it", p.name)
				}
			}
			if gone {
				slow.kill()
			} else {
				close(slow.busy)
			}
			c.settled(20 * time.Second)
			if !gone && slow.mayRun(k, abi.PlacementAny) != slow.mayRun(k, abi.PlacementRing) {
				t.Error("it is run by what the late host knows, and not by the table")
			}
			for _, p := range ps {
				if p.alive.Load() && p.Holds(k, abi.PlacementRing) == actor.HeldClean {
					t.Error("it is held as clean")
				}
			}
		})
	}
}

// TestStops: who has to answer before a type is given to hosts for the first time, and after
// it was run anywhere.
func TestStops(t *testing.T) {
	runs := func(policy string, n uint64) []protocol.Type { return []protocol.Type{placedType("T", policy, n)} }
	for name, tt := range map[string]struct {
		reports [][]protocol.Type // of two hosts, in this order
		locked  bool
	}{
		"the first deployment":               {[][]protocol.Type{runs("ring", 1), nil}, false},
		"any, newly":                         {[][]protocol.Type{runs("any", 1), nil}, false},
		"any, anew":                          {[][]protocol.Type{runs("any", 3), runs("ring", 2)}, false},
		"all know the newest":                {[][]protocol.Type{runs("ring", 2), runs("ring", 2)}, false},
		"a host may know an older one":       {[][]protocol.Type{runs("ring", 2), nil}, true},
		"a host knows an older one":          {[][]protocol.Type{runs("any", 1), runs("ring", 2)}, true},
		"a later one, which is stateless":    {[][]protocol.Type{runs("stateless", 2), nil}, false},
		"checkout, and one may know another": {[][]protocol.Type{runs("checkout:2", 2), nil}, true},
	} {
		tables := assignment.NewTables(4)
		for i, id := range []placement.HostID{"a", "b"} {
			tables.Begin(id, string(id), false)
			tables.Reported(id, tt.reports[i])
			tables.Claimed(id)
		}
		locked := func() (n int) {
			for _, o := range tables.Plan(true) {
				if o.Kind == protocol.Lock {
					n++
				}
			}
			return n
		}
		if got := locked(); (got > 0) != tt.locked || got != 0 && got != 2 {
			t.Errorf("%s: %d LOCKs", name, got)
			continue
		}
		if tt.locked {
			continue
		}
		policy, _ := tables.Policy("a", "T")
		tables.Reported("a", runs("ring", 9))
		if anywhere := policy != "" && !placement.Exclusive(policy); (locked() > 0) != anywhere {
			t.Errorf("%s: then a ring: LOCKed: %t", name, !anywhere)
		}
	}
}

// TestAnyIsNotLocked: nothing is handed over of a type that is new and any; its calls run at
// once, and also while nobody leads.
func TestAnyIsNotLocked(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b", "c")
		c.settled(20 * time.Second)
		for _, p := range ps {
			p.setTypes(ringType("R"), placedType("A", abi.PlacementAny, 1), placedType("B", abi.PlacementRing, 1), stickyType("S"))
			if k := key("A", 1); !p.Find(k, abi.PlacementAny).Here || !p.mayRun(k, abi.PlacementAny) {
				t.Errorf("%s does not run a type that has no table yet", p.name)
			}
			if k := key("B", 1); p.Find(k, abi.PlacementRing).Here || p.mayRun(k, abi.PlacementRing) {
				t.Errorf("%s runs what it was not given", p.name)
			}
		}
		c.eventually("B is held", func() bool { return len(c.holders(key("B", 1), abi.PlacementRing)) == 1 })
		for _, p := range ps {
			p.mu.Lock()
			for _, moving := range p.moved {
				if moving(key("A", 1)) {
					t.Errorf("%s hands over what nobody held", p.name)
				}
			}
			p.mu.Unlock()
		}
		leads := c.leads()
		leads.kill()
		for _, p := range ps {
			if k := key("A", 2); p != leads && (!p.Find(k, abi.PlacementAny).Here || !p.mayRun(k, abi.PlacementAny)) {
				t.Errorf("%s does not go on while nobody leads", p.name)
			}
		}
	})
}

// TestAnyByTheLease: any types are run as long as the host's lease lasts; stateless ones
// need none.
func TestAnyByTheLease(t *testing.T) {
	run(t, func(c *testCluster) {
		p := c.start("a")[0]
		p.setTypes(ringType("R"), placedType("A", abi.PlacementAny, 1), placedType("N", abi.PlacementStateless, 1))
		stateless := func() bool { return p.Find(key("N", 1), abi.PlacementStateless).Here }
		c.eventually("both run", func() bool { return p.Find(key("A", 1), abi.PlacementAny).Here && stateless() })
		p.db.SetDown(true)
		c.eventually("it pauses", func() bool { return !p.Current(time.Now()) })
		w := p.Find(key("A", 1), abi.PlacementAny)
		if w.Here || w.Wait == nil || p.mayRun(key("A", 1), abi.PlacementAny) || !stateless() {
			t.Errorf("without a lease any finds %+v, stateless here: %t", w, stateless())
		}
		p.db.SetDown(false)
		<-w.Wait
		c.eventually("it goes on", func() bool { return p.Find(key("A", 1), abi.PlacementAny).Here })
	})
}

// TestAnyBeforeTold: a host that no leader has told anything yet runs nothing of any types,
// since it does not know who holds their actors; so nobody waits for it either. From then
// on it runs them, whoever leads, and also those that are new.
func TestAnyBeforeTold(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b")
		c.settled(20 * time.Second)
		k := key("R", 1)
		alone := c.process("c")
		alone.cutOff = true
		deploys(abi.PlacementAny, 2, alone) // and the others hold it
		if err := alone.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		alone.alive.Store(true)
		<-time.After(testLease)
		w := alone.Find(k, abi.PlacementAny)
		if w.Here || w.Wait == nil || alone.mayRun(k, abi.PlacementAny) {
			t.Errorf("it finds %+v, and may be held elsewhere", w)
		}
		deploys(abi.PlacementAny, 2, ps...)
		c.eventually("they run it", func() bool { return ps[0].mayRun(k, abi.PlacementAny) && ps[1].mayRun(k, abi.PlacementAny) })
		deploys(abi.PlacementRing, 3, ps...)
		c.eventually("it is held", func() bool { return len(c.holders(k, abi.PlacementRing)) == 1 })
		deploys(abi.PlacementAny, 4, c.processes...)
		alone.cut(false)
		<-w.Wait
		c.eventually("it runs it", func() bool {
			return alone.Find(k, abi.PlacementAny).Here && alone.mayRun(k, abi.PlacementAny) && alone.view.Load().informed
		})
		alone.cut(true)
		alone.setTypes(placedType("R", abi.PlacementAny, 4), placedType("A", abi.PlacementAny, 1))
		for _, k := range []actor.Key{k, key("A", 1)} {
			if !alone.Find(k, abi.PlacementAny).Here || !alone.mayRun(k, abi.PlacementAny) {
				t.Errorf("%v does not go on without a leader", k)
			}
		}
	})
}

// TestAnyOfAnotherIncarnation: a host that was gone for so long that its types have got
// holders runs nothing of them by what it knew before.
func TestAnyOfAnotherIncarnation(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b")
		a, late := ps[0], ps[1]
		c.settled(20 * time.Second)
		if c.leads() == late {
			a, late = late, a
		}
		deploys(abi.PlacementAny, 2, ps...)
		k := key("R", 1)
		c.eventually("both run it", func() bool { return a.mayRun(k, abi.PlacementAny) && late.mayRun(k, abi.PlacementAny) })
		was := late.Self()
		late.cut(true)
		late.db.SetDown(true)
		deploys(abi.PlacementRing, 3, a)
		c.eventually("it is held", func() bool {
			held := len(c.holders(k, abi.PlacementRing)) == 1
			if held && late.mayRun(k, abi.PlacementAny) {
				t.Fatal("it is run anywhere by one that was not heard of")
			}
			return held
		})
		late.db.SetDown(false)
		c.eventually("it begins anew", func() bool { return late.Self() != was && late.Current(time.Now()) })
		for range 100 {
			if late.Find(k, abi.PlacementAny).Here || late.mayRun(k, abi.PlacementAny) {
				t.Fatal("it runs what is held")
			}
			<-time.After(testLease / 50)
		}
		late.cut(false)
		c.settled(20 * time.Second)
	})
}

// TestAnyKnownEarly: a host that knows the next placement of a type before the leader does,
// or an older one, runs nothing of it by that.
func TestAnyKnownEarly(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b")
		c.settled(20 * time.Second)
		deploys(abi.PlacementAny, 2, ps...)
		k := key("R", 1)
		c.eventually("they run it", func() bool { return ps[0].mayRun(k, abi.PlacementAny) && ps[1].mayRun(k, abi.PlacementAny) })
		for _, policy := range []string{abi.PlacementRing, abi.PlacementSticky, "checkout:2"} {
			if w := ps[0].Find(k, policy); w.Here || w.Wait == nil || ps[0].mayRun(k, policy) {
				t.Errorf("%s: %+v", policy, w)
			}
		}
		early := ps[0].Find(k, abi.PlacementRing)
		deploys(abi.PlacementAny, 3, ps[0]) // what calls wait for may be that the host hears of it
		<-early.Wait
	})
}
