package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// placedType is a type of an app with a policy, by its n-th deployment.
func placedType(name, policy string, n uint64) protocol.Type {
	return protocol.Type{App: "a", Name: name, Placement: policy, Generation: n}
}

// eventually waits for something, in the bubble's time.
func (c *testCluster) eventually(what string, fits func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !fits() {
		if time.Now().After(deadline) {
			c.t.Fatalf("not in time: %s", what)
		}
		<-time.After(25 * time.Millisecond)
	}
}

// static checks that all actors are at the hosts that the formula names, and that those
// of hosts that are away are found away by everybody.
func (c *testCluster) static(policy string, away ...string) (problem string) {
	c.t.Helper()
	names := placement.StaticHosts(policy)
	for i := range lookedAt {
		k := key("T", i)
		name := names[placement.Static(placement.PointOf(k), len(names))]
		holders := c.holders(k, policy)
		if len(holders) > 1 {
			c.t.Fatalf("%v is held by %v", k, holders)
		}
		gone := slices.Contains(away, name)
		if gone != (len(holders) == 0) || !gone && holders[0] != name {
			return "an actor of " + name + " is held elsewhere"
		}
		for _, p := range c.processes {
			if !p.alive.Load() {
				continue
			}
			w := p.Find(k, policy)
			addr, _, _ := p.Peer(w.Host)
			switch {
			case gone && w.Away != name:
				return p.name + " does not find " + name + " away"
			case !gone && (w.Away != "" || w.Here != (p.name == name) || !w.Here && addr != name+":1"):
				return p.name + " does not find an actor of " + name
			}
			at, err := p.Where(c.t.Context(), k)
			if err != nil || at.Host.Name != name || (at.Host.ID == "") != gone || at.Moving {
				return p.name + " says that an actor of " + name + " is elsewhere"
			}
		}
	}
	return ""
}

// TestStaticHosts: actors are at the hosts that the formula names, whoever else is there;
// those of a host that is away are held by nobody, and found away by its name at once.
// When it is back under its name it has them again.
func TestStaticHosts(t *testing.T) {
	run(t, func(c *testCluster) {
		const policy = "static:b,a"
		ps := c.start("a", "b", "c")
		for _, p := range ps {
			p.setTypes(placedType("T", policy, 1))
		}
		is := func(away ...string) {
			t.Helper()
			problem := ""
			c.eventually("the formula", func() bool { problem = c.static(policy, away...); return problem == "" })
		}
		is()
		// A host that drains gives its part up, to nobody.
		ctx := c.t.Context()
		if err := ps[1].Stop(ctx); err != nil {
			t.Fatal(err)
		}
		ps[1].alive.Store(false)
		is("b")
		_, parts, err := ps[0].Placement("a", "T")
		if err != nil || len(parts) != 2 || parts[0].Name != "b" || !parts[0].Away || len(parts[0].Hosts) != 0 || parts[1].Name != "a" || parts[1].Away || parts[1].Hosts[0] != ps[0].Self() {
			t.Errorf("parts are %+v, %v", parts, err)
		}
		back := c.start("b")[0]
		back.setTypes(placedType("T", policy, 1))
		is()
		// One that crashes is away once its row is cleared; until then its calls are sent there.
		ps[0].kill()
		is("a")
		// A second process of a name waits for the first to be gone: nothing moves to it.
		second := c.process("b2", func(cfg *Config) { cfg.Self.Name = "b" })
		second.types = []protocol.Type{placedType("T", policy, 1)}
		if err := second.Start(ctx); err != nil {
			t.Fatal(err)
		}
		second.alive.Store(true)
		<-time.After(2 * testLease)
		if held := second.holdsAny(policy); held != 0 {
			t.Errorf("the second host of a name holds %d actors", held)
		}
		if err := back.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		back.alive.Store(false)
		c.eventually("it takes over", func() bool { return second.holdsAny(policy) > 0 })
	})
}

// holdsAny counts the actors that are looked at which a process holds.
func (p *process) holdsAny(policy string) (n int) {
	for i := range lookedAt {
		if p.Holds(key("T", i), policy) != actor.NotHeld {
			n++
		}
	}
	return n
}

// TestRangesStayWhenThePolicyChanges: from ring to static and back, only actors that have
// another host then pause: the others are held all the time.
func TestRangesStayWhenThePolicyChanges(t *testing.T) {
	run(t, func(c *testCluster) {
		const policy = "static:a,b"
		ps := c.start("a", "b")
		place := func(policy string, n uint64) {
			for _, p := range ps {
				p.setTypes(placedType("T", policy, n))
			}
		}
		holders := func() (all []string) {
			for i := range lookedAt {
				h := c.holders(key("T", i), policy)
				if len(h) != 1 {
					return nil
				}
				all = append(all, h[0])
			}
			return all
		}
		place("ring", 1)
		var before []string
		c.eventually("all are held", func() bool { before = holders(); return before != nil })
		ps[0].mu.Lock()
		busy := make(chan struct{}) // nothing is handed over
		ps[0].busy = busy
		ps[0].mu.Unlock()
		ps[1].mu.Lock()
		ps[1].busy = busy
		ps[1].mu.Unlock()
		place(policy, 2)
		names := placement.StaticHosts(policy)
		stays := func(i int) bool {
			return names[placement.Static(placement.PointOf(key("T", i)), 2)] == before[i]
		}
		<-time.After(testLease)
		stayed := 0
		for i := range lookedAt {
			if k := key("T", i); stays(i) {
				stayed++
				if p := c.named(before[i]); !p.Find(k, policy).Here || p.Holds(k, policy) == actor.NotHeld {
					t.Errorf("%v pauses at %s, where it stays", k, before[i])
				}
			}
		}
		if stayed == 0 || stayed == lookedAt {
			t.Errorf("%d of %d actors stay", stayed, lookedAt)
		}
		close(busy)
		c.eventually("the formula", func() bool { return c.static(policy) == "" })
		place("ring", 3)
		c.eventually("the ring", func() bool { return slices.Equal(holders(), before) })
		// All of the many ranges are given up by one that leaves, with nobody to take them.
		place(policy, 4)
		c.eventually("the formula", func() bool { return c.static(policy) == "" })
		if err := ps[1].Stop(c.t.Context()); err != nil {
			t.Fatal(err)
		}
		ps[1].alive.Store(false)
		c.eventually("its part is away", func() bool { return c.static(policy, "b") == "" })
	})
}

// shared waits until all actors of a checkout type are found by everybody where they are
// held, and nobody holds more than so many partitions; it returns who holds how many actors.
func (c *testCluster) shared(policy string, most int) map[string]int {
	c.t.Helper()
	var counts map[string]int
	c.eventually("the partitions are shared", func() bool {
		counts = map[string]int{}
		for _, p := range c.processes {
			if now, _, err := p.Placement("a", "T"); p.alive.Load() && (err != nil || now != policy) {
				return false
			}
		}
		for i := range lookedAt {
			k := key("T", i)
			holders := c.holders(k, policy)
			if len(holders) > 1 {
				c.t.Fatalf("%v is held by %v", k, holders)
			}
			if len(holders) == 0 {
				return false
			}
			counts[holders[0]]++
			for _, p := range c.processes {
				if !p.alive.Load() {
					continue
				}
				w := p.Find(k, policy)
				if addr, _, _ := p.Peer(w.Host); w.Here != (p.name == holders[0]) || !w.Here && addr != holders[0]+":1" {
					return false
				}
			}
		}
		for _, p := range c.processes {
			p.Service.mu.Lock()
			n := p.heldPartitions()
			p.Service.mu.Unlock()
			if p.alive.Load() && n > most {
				return false
			}
		}
		return true
	})
	return counts
}

// TestCheckout: hosts share the partitions, nothing is held twice whoever comes and goes,
// one that leaves checks its partitions in, and those of one that crashed are taken once
// its row is cleared, long before their leases end.
func TestCheckout(t *testing.T) {
	run(t, func(c *testCluster) {
		const policy = "checkout:12"
		ps := c.start("a")
		ps[0].setTypes(placedType("T", policy, 1))
		if counts := c.shared(policy, 12); counts["a"] != lookedAt {
			t.Errorf("alone it holds %v", counts)
		}
		for _, p := range c.start("b", "c") {
			p.setTypes(placedType("T", policy, 1))
			ps = append(ps, p)
		}
		if counts := c.shared(policy, 4); len(counts) != 3 {
			t.Errorf("three hold %v", counts)
		}
		if list, err := ps[1].Hosts(c.t.Context()); err != nil {
			t.Error(err)
		} else {
			for _, h := range list.Hosts {
				if h.Partitions != 4 {
					t.Errorf("%s is said to have %d partitions", h.Name, h.Partitions)
				}
			}
		}
		began := time.Now()
		ps[1].kill()
		c.shared(policy, 6)
		if took := time.Since(began); took > 2*testLease {
			t.Errorf("partitions of a host that crashed were taken after %v, their leases are %v", took, ps[0].checkouts.length())
		}
		began = time.Now()
		handed := ps[2].handOvers
		if err := ps[2].Stop(c.t.Context()); err != nil {
			t.Fatal(err)
		}
		ps[2].alive.Store(false)
		if ps[2].handOvers == handed {
			t.Error("nothing was handed over")
		}
		if counts := c.shared(policy, 12); counts["a"] != lookedAt {
			t.Errorf("the last one holds %v", counts)
		}
		if took := time.Since(began); took > testLease {
			t.Errorf("partitions that were checked in were taken after %v", took)
		}
	})
}

// TestCheckoutPolicyChanges: partitions are checked in before another policy is in force,
// and leased when all else was handed over; no actor is held twice on the way.
func TestCheckoutPolicyChanges(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b", "c")
		for n, policy := range []string{"ring", "checkout:8", "checkout:6", "any", "checkout:8", "sticky", "checkout:8", "static:a,b", "checkout:6", "ring"} {
			for _, p := range ps {
				p.setTypes(placedType("T", policy, uint64(n+1)))
			}
			switch {
			case placement.IsCheckout(policy):
				c.shared(policy, 4)
			case policy == "ring":
				c.eventually(policy, func() bool {
					for _, p := range ps {
						if now, _, err := p.Placement("a", "T"); err != nil || now != policy {
							return false
						}
					}
					for i := range lookedAt {
						if len(c.holders(key("T", i), policy)) != 1 {
							return false
						}
					}
					return true
				})
			default:
				c.eventually(policy, func() bool {
					for _, p := range ps {
						if now, _, err := p.Placement("a", "T"); err != nil || now != policy {
							return false
						}
					}
					return true
				})
			}
		}
		ps[0].Service.mu.Lock()
		defer ps[0].Service.mu.Unlock()
		if n := ps[0].heldPartitions(); n != 0 {
			t.Errorf("%d partitions are left", n)
		}
	})
}

// TestCheckoutOfAHostThatEnds: an incarnation may end between two steps of a checkout.
func TestCheckoutOfAHostThatEnds(t *testing.T) {
	run(t, func(c *testCluster) {
		const policy = "checkout:2"
		p := c.start("a")[0]
		p.setTypes(placedType("T", policy, 1))
		c.shared(policy, 2)
		self := p.Self()
		p.registration.end()
		p.checkouts.checkOut(t.Context(), protocol.TypeName{App: "a", Type: "T"}, 0, self, actor.Lease{}, nil)
	})
}

// TestCheckoutFrozenLeases: a host whose partitions' leases cannot be renewed runs nothing
// from the end of its count on, though its row is leased; those that others took meanwhile
// it has lost when it goes on.
func TestCheckoutFrozenLeases(t *testing.T) {
	run(t, func(c *testCluster) {
		const policy = "checkout:2"
		ps := c.start("a")
		ps[0].setTypes(placedType("T", policy, 1))
		c.shared(policy, 2)
		p := ps[0].Service
		p.mu.Lock()
		var lease actor.Lease
		for _, ct := range p.competing {
			for i := range ct.owns {
				ct.owns[i].until, ct.owns[i].renewAt = p.now()+10*time.Millisecond, p.now()+time.Hour // no renewal
				lease = ct.owns[i].lease
			}
		}
		p.countPartitions(p.partitionsUntil())
		p.mu.Unlock()
		<-time.After(20 * time.Millisecond)
		if p.Current(time.Now()) {
			t.Error("it goes on after the end of a partition's count")
		}
		// Another one takes a partition, whose lease is over by then.
		c.db.Mu.Lock()
		stolen := c.db.Leases[lease.Name]
		stolen.Holder, stolen.Epoch, stolen.ExpiresAt = "x", stolen.Epoch+1, time.Now().Add(time.Hour)
		c.db.Leases[lease.Name] = stolen
		c.db.Hosts["x"] = actor.Host{ID: "x", Name: "x", Roles: []string{protocol.RoleHost}, ExpiresAt: time.Now().Add(time.Hour)}
		c.db.Mu.Unlock()
		p.mu.Lock()
		for _, ct := range p.competing {
			for i := range ct.owns {
				ct.owns[i].renewAt = 0
			}
		}
		p.mu.Unlock()
		c.eventually("it goes on with what is left", func() bool {
			p.mu.Lock()
			n := p.heldPartitions()
			p.mu.Unlock()
			return p.Current(time.Now()) && n == 1
		})
	})
}

// readsAt returns the names of the processes that are readers of an actor, and checks that
// everybody knows those, and that they do not hold it.
func (c *testCluster) readsAt(k actor.Key) (names []string, problem string) {
	c.t.Helper()
	holders := c.holders(k, "ring:2")
	var ids []actor.HostID
	for _, p := range c.processes {
		if !p.alive.Load() || !p.Reads(k) {
			continue
		}
		names, ids = append(names, p.name), append(ids, p.Self())
		if slices.Contains(holders, p.name) {
			return nil, p.name + " is a reader of what it holds"
		}
	}
	for _, p := range c.processes {
		if !p.alive.Load() {
			continue
		}
		hosts, here := p.Readers(k)
		if !slices.Equal(slices.Sorted(slices.Values(hosts)), slices.Sorted(slices.Values(ids))) || here != slices.Contains(names, p.name) {
			return nil, p.name + " knows other readers"
		}
		at, err := p.Where(c.t.Context(), k)
		if err != nil || len(at.Readers) != len(names) || len(names) == 1 && at.Readers[0].Name != names[0] {
			return nil, p.name + " says others are readers"
		}
	}
	return names, ""
}

// TestReaders: of a ring:2 type each actor has one holder and one reader, another host,
// as all hosts know. From ring to ring:2 and back those that stay with their host do not
// pause. A host that drains reads nothing; the readers of a host that crashed go on; and
// while a host knows of no readers there are none.
func TestReaders(t *testing.T) {
	run(t, func(c *testCluster) {
		start := func(name string) *process {
			p := c.process(name, func(cfg *Config) { cfg.Ranges = 64 })
			if err := p.Start(c.t.Context()); err != nil {
				t.Fatal(err)
			}
			p.alive.Store(true)
			return p
		}
		ps := []*process{start("a"), start("b"), start("c")}
		place := func(policy string, n uint64) {
			for _, p := range c.processes {
				if p.alive.Load() {
					p.setTypes(placedType("T", policy, n))
				}
			}
		}
		// each is who holds and who reads every actor, once all are held.
		each := func(readers int) (holders, readAt []string, problem string) {
			for i := range lookedAt {
				k := key("T", i)
				h := c.holders(k, "ring:2")
				if len(h) > 1 {
					t.Fatalf("%v is held by %v", k, h)
				}
				r, problem := c.readsAt(k)
				if problem != "" || len(h) != 1 || len(r) != readers {
					return nil, nil, fmt.Sprintf("%v is held by %v, read by %v: %s", k, h, r, problem)
				}
				holders, readAt = append(holders, h[0]), append(readAt, r...)
			}
			return holders, readAt, ""
		}
		settles := func(readers int) (holders, readAt []string) {
			t.Helper()
			problem := ""
			c.eventually("readers", func() bool { holders, readAt, problem = each(readers); return problem == "" })
			return holders, readAt
		}
		place("ring", 1)
		ring, _ := settles(0)
		busy := make(chan struct{}) // nothing is handed over
		for _, p := range ps {
			p.mu.Lock()
			p.busy = busy
			p.mu.Unlock()
		}
		place("ring:2", 2)
		<-time.After(testLease)
		stay := 0
		for i, name := range ring {
			if k := key("T", i); c.named(name).Holds(k, "ring:2") != actor.NotHeld {
				stay++
			}
		}
		if stay == 0 {
			t.Error("all actors pause")
		}
		close(busy)
		shared, readAt := settles(1)
		if counts := share(append(slices.Clone(shared), readAt...)); counts["a"] == 0 || counts["b"] == 0 || counts["c"] == 0 {
			t.Errorf("actors are held and read by %v", counts)
		}
		if _, parts, err := ps[1].Placement("a", "T"); err != nil || len(parts[0].Hosts) != 1 || len(parts[0].Readers) != 1 || parts[0].Hosts[0] == parts[0].Readers[0] {
			t.Errorf("parts begin with %+v, %v", parts[0], err)
		}
		place("ring", 3)
		if back, _ := settles(0); !slices.Equal(back, ring) {
			t.Error("actors are elsewhere than before ring:2")
		}
		place("ring:2", 4)
		settles(1)

		// A host crashes: those whose reader is another one are read all the time.
		dead := ps[2]
		if dead == c.leads() {
			dead = ps[1]
		}
		dead.kill()
		for i, name := range shared {
			if r := c.named(readAt[i]); name == dead.name && r != dead && !r.Reads(key("T", i)) {
				t.Errorf("%v is not read by %s when its holder has crashed", key("T", i), r.name)
			}
		}
		settles(1)
		d := start("d")
		d.setTypes(placedType("T", "ring:2", 4))
		settles(1)
		if err := d.Drain(c.t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		for i := range lookedAt {
			if d.Reads(key("T", i)) {
				t.Errorf("a host that drains reads %v", key("T", i))
			}
		}
		settles(1)
	})
}

// TestNoReaderWithoutALease: a host whose count is over reads nothing.
func TestNoReaderWithoutALease(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b")
		for _, p := range ps {
			p.setTypes(placedType("T", "ring:2", 1))
		}
		var k actor.Key
		c.eventually("it is a reader", func() bool {
			for i := range lookedAt {
				if k = key("T", i); ps[0].Reads(k) {
					_, here := ps[0].Readers(k)
					return here
				}
			}
			return false
		})
		c.db.Mu.Lock()
		c.db.Down = true
		c.db.Mu.Unlock()
		c.eventually("its count is over", func() bool { return !ps[0].Current(time.Now()) })
		if _, here := ps[0].Readers(k); here || ps[0].Reads(k) {
			c.t.Error("it reads on")
		}
		c.db.Mu.Lock()
		c.db.Down = false
		c.db.Mu.Unlock()
	})
}

// share counts names.
func share(names []string) map[string]int {
	counts := map[string]int{}
	for _, n := range names {
		counts[n]++
	}
	return counts
}
