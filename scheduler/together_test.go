package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// groupedType is a type of an app that is placed with a group, by its n-th deployment.
func groupedType(name, policy string, n uint64, co abi.CoLocate) protocol.Type {
	t := placedType(name, policy, n)
	t.CoLocate = co
	return t
}

// orderTypes are two types of a group: of orders by their IDs, and of payments by the part
// before the slash.
func orderTypes(policy string, n uint64) []protocol.Type {
	return []protocol.Type{
		groupedType("Order", policy, n, abi.CoLocate{Group: "orders"}),
		groupedType("Payment", policy, n, abi.CoLocate{Group: "orders", Separator: "/", Parts: 1}),
	}
}

// orderKeys are actors of the n-th group key.
func orderKeys(n int) []actor.Key {
	id := fmt.Sprint("order-", n)
	return []actor.Key{
		{App: "a", Type: "Order", ID: id}, {App: "a", Type: "Payment", ID: id},
		{App: "a", Type: "Payment", ID: id + "/card"}, {App: "a", Type: "Payment", ID: id + "/card/2"},
	}
}

// together looks where the actors of some group keys are. It fails at once if actors of one
// key are held by different processes, or one by several; problem says that not all are held
// and found by all processes.
func (c *testCluster) together(policy string) (counts map[string]int, problem string) {
	c.t.Helper()
	counts = map[string]int{}
	for n := range lookedAt / 2 {
		holder := ""
		for _, k := range orderKeys(n) {
			if policy == abi.PlacementSticky {
				for _, p := range c.processes {
					if p.alive.Load() {
						c.acquired(p, k)
					}
				}
			}
			holders := c.holders(k, policy)
			switch {
			case len(holders) > 1, len(holders) == 1 && holder != "" && holders[0] != holder:
				c.t.Fatalf("%v is held by %v, others of its key by %q", k, holders, holder)
			case len(holders) == 0:
				problem = fmt.Sprintf("nobody holds %v", k)
				continue
			}
			holder = holders[0]
			for _, p := range c.processes {
				if !p.alive.Load() {
					continue
				}
				w := p.Find(k, policy)
				addr, _, _ := p.Peer(w.Host)
				if w.Here != (p.name == holder) || !w.Here && addr != holder+":1" {
					problem = fmt.Sprintf("%s does not find %v at %s", p.name, k, holder)
				}
			}
		}
		counts[holder]++
	}
	return counts, problem
}

// areTogether waits until all actors of the group are held, and so many processes have some.
func (c *testCluster) areTogether(policy string, processes int) {
	c.t.Helper()
	var counts map[string]int
	var problem string
	for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(25 * time.Millisecond) {
		if counts, problem = c.together(policy); problem == "" && len(counts) == processes {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: held by %v, not by %d processes; %s", policy, counts, processes, problem)
		}
	}
}

// TestGroupsStayTogether: the actors of a group key are at one process, while processes come,
// drain and crash, and the placement of the group changes.
func TestGroupsStayTogether(t *testing.T) {
	for _, policy := range []string{abi.PlacementRing, "ring:2", abi.PlacementSticky, "static:a,b,c", "checkout:8"} {
		t.Run(policy, func(t *testing.T) {
			run(t, func(c *testCluster) {
				ps := c.start("a", "b")
				types := orderTypes(policy, 1)
				deploy := func(types ...protocol.Type) {
					for _, p := range c.processes {
						if p.alive.Load() {
							p.setTypes(types...)
						}
					}
				}
				deploy(types...)
				if policy == "static:a,b,c" {
					c.eventually("those of a and b are held", func() bool {
						counts, _ := c.together(policy)
						return counts["a"] > 0 && counts["b"] > 0
					})
				} else {
					c.areTogether(policy, 2)
				}
				ps = append(ps, c.start("c")...)
				ps[2].setTypes(types...)
				if policy == abi.PlacementSticky { // what has an owner stays
					c.areTogether(policy, 2)
				} else {
					c.areTogether(policy, 3)
				}
				// All move by another table, type by type as hosts hear of it.
				other := abi.PlacementRing
				if placement.IsRing(policy) {
					other = "static:c,a,b"
				}
				for _, p := range ps {
					p.setTypes(orderTypes(other, 2)...)
					if _, problem := c.together(other); problem != "" {
						t.Log(problem)
					}
				}
				c.areTogether(other, 3)
				deploy(orderTypes(policy, 3)...)
				c.areTogether(policy, 3)
				if policy == "static:a,b,c" {
					return // those of a process that is away are held by nobody
				}
				if err := ps[1].Stop(c.t.Context()); err != nil {
					t.Fatal(err)
				}
				ps[1].alive.Store(false)
				c.areTogether(policy, 2)
				ps[0].kill()
				c.areTogether(policy, 1)
			})
		})
	}
}

// TestTypeComesToAGroup: a type that had places of its own is handed over everywhere before
// its actors are where their group is, and the same when it leaves.
func TestTypeComesToAGroup(t *testing.T) {
	for _, policy := range []string{abi.PlacementRing, abi.PlacementSticky, "checkout:8"} {
		t.Run(policy, func(t *testing.T) {
			run(t, func(c *testCluster) {
				ps := c.start("a", "b", "c")
				order := groupedType("Order", policy, 1, abi.CoLocate{Group: "orders"})
				alone := placedType("Payment", policy, 1)
				for _, p := range ps {
					p.setTypes(order, alone)
				}
				payment := orderKeys(1)[2]
				held := func() (names []string) { return c.holders(payment, policy) }
				find := func() {
					if policy == abi.PlacementSticky {
						c.acquired(ps[0], payment)
						c.acquired(ps[0], orderKeys(1)[0])
					}
				}
				c.eventually("the actors are held", func() bool {
					find()
					return len(held()) == 1 && len(c.holders(orderKeys(1)[0], policy)) == 1
				})
				was := c.named(held()[0])
				busy := make(chan struct{})
				was.mu.Lock()
				was.busy = busy // a turn takes long
				was.mu.Unlock()
				grouped := groupedType("Payment", policy, 2, abi.CoLocate{Group: "orders", Separator: "/", Parts: 1})
				for _, p := range ps {
					p.setTypes(order, grouped)
				}
				c.eventually("it is locked", func() bool { return len(held()) == 0 })
				for range 3 {
					<-time.After(testLease)
					for _, p := range ps {
						if w := p.Find(payment, policy); w.Wait == nil {
							t.Fatalf("%s finds an actor %+v that is handed over", p.name, w)
						}
					}
				}
				was.mu.Lock()
				was.busy = nil
				was.mu.Unlock()
				close(busy)
				c.areTogether(policy, 3)
				if hold := c.named(held()[0]).Holds(payment, policy); hold != actor.Held {
					t.Errorf("an actor that has just come to a group is held as %d", hold)
				}
				at, err := ps[0].Where(c.t.Context(), payment)
				if err != nil || at.Policy != policy || at.Group != "orders" || at.GroupKey != "order-1" || at.Host.Name != held()[0] {
					t.Errorf("it is at %+v, %v", at, err)
				}
				for _, p := range ps { // and away again
					p.setTypes(order, placedType("Payment", policy, 3))
				}
				c.eventually("it has a place of its own", func() bool {
					find()
					at, err := ps[0].Where(c.t.Context(), payment)
					return err == nil && at.Group == "" && len(held()) == 1
				})
			})
		})
	}
}

// TestGroupIsHandedOverAsOne: what moves of a group names the actors of all its types.
func TestGroupIsHandedOverAsOne(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a")
		ps[0].setTypes(orderTypes(abi.PlacementRing, 1)...)
		c.areTogether(abi.PlacementRing, 1)
		ps[0].mu.Lock()
		ps[0].moved = nil
		ps[0].mu.Unlock()
		c.start("b")[0].setTypes(orderTypes(abi.PlacementRing, 1)...)
		c.areTogether(abi.PlacementRing, 2)
		ps[0].mu.Lock()
		moved := slices.Clone(ps[0].moved)
		ps[0].mu.Unlock()
		for n := range lookedAt / 2 {
			for _, moving := range moved {
				keys := orderKeys(n)
				for _, k := range keys {
					if moving(k) != moving(keys[0]) {
						t.Fatalf("%v moves %t, and %v %t", keys[0], moving(keys[0]), k, moving(k))
					}
				}
			}
		}
	})
}

// TestSettledMembers: that nothing of an earlier owner is under way is known of the actor of a
// group key that has committed, not of the others.
func TestSettledMembers(t *testing.T) {
	run(t, func(c *testCluster) {
		p := c.start("a")[0]
		p.setTypes(orderTypes(abi.PlacementSticky, 1)...)
		c.areTogether(abi.PlacementSticky, 1)
		<-time.After(2 * time.Hour) // since the types came to their group
		keys := orderKeys(1)
		for _, k := range keys {
			if hold := p.Holds(k, abi.PlacementSticky); hold != actor.Held {
				t.Errorf("%v is held as %d", k, hold)
			}
		}
		p.Fenced(keys[2])
		for _, k := range keys {
			want := actor.Held
			if k == keys[2] {
				want = actor.HeldClean
			}
			if hold := p.Holds(k, abi.PlacementSticky); hold != want {
				t.Errorf("%v is held as %d, want %d", k, hold, want)
			}
		}
		list, err := p.Sticky(c.t.Context(), "a", "Payment", "", actor.Key{}, 10)
		if err != nil || len(list) != 10 || list[0].Key != (actor.Key{App: "a", Type: "@orders", ID: "order-0"}) {
			t.Errorf("listed %+v, %v", list, err)
		}
		policy, parts, err := p.Placement("a", "Payment")
		if err != nil || policy != abi.PlacementSticky || len(parts) == 0 || !slices.Equal(parts[0].Hosts, []actor.HostID{p.Self()}) {
			t.Errorf("placed %s, %+v, %v", policy, parts, err)
		}
	})
}
