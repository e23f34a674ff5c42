package scheduler

import (
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestLeadsOnly: a process that leads and runs no actors is given none, by any policy,
// though it knows their types and says when there is a newer deployment; its calls find
// them at the others.
func TestLeadsOnly(t *testing.T) {
	run(t, func(c *testCluster) {
		leader := c.process("leader", func(cfg *Config) { cfg.Self.Roles = []string{protocol.RoleScheduler} })
		policies := []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny, abi.PlacementStateless, "checkout:4", "static:a,b"}
		var types []protocol.Type
		for _, policy := range policies {
			types = append(types, placedType("T "+policy, policy, 1))
		}
		leader.types = types
		if err := leader.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		leader.alive.Store(true)
		c.eventually("it leads", func() bool { return c.leads() == leader })
		for _, name := range []string{"a", "b"} {
			p := c.process(name, func(cfg *Config) { cfg.Self.Roles = []string{protocol.RoleHost} })
			p.types = types
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.alive.Store(true)
		}
		for _, policy := range policies {
			hosts := map[actor.HostID]bool{}
			for i := range lookedAt {
				k := key("T "+policy, i)
				c.eventually(policy+" is found", func() bool {
					w := leader.Find(k, policy)
					if w.Here || placement.Exclusive(policy) && leader.Holds(k, policy) != actor.NotHeld {
						t.Errorf("%s: %v is at a process that runs no actors", policy, k)
						return true
					}
					hosts[w.Host] = true
					return w.Host != ""
				})
			}
			delete(hosts, "")
			if len(hosts) != 2 {
				t.Errorf("%s: actors are at %v", policy, hosts)
			}
		}
		leader.setTypes(placedType("New", abi.PlacementRing, 1), types[0])
		for _, p := range c.processes[1:] {
			p.setTypes(placedType("New", abi.PlacementRing, 1), types[0])
		}
		c.eventually("a new type is found", func() bool { return leader.Find(key("New", 1), abi.PlacementRing).Host != "" })
	})
}
