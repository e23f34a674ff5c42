package scheduler

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestCheckOutOfALeaseThatIsRenewed: a partition whose lease was over when it was read stays
// with its holder if that one has renewed it since; it is taken from one that has ended.
func TestCheckOutOfALeaseThatIsRenewed(t *testing.T) {
	for _, there := range []bool{true, false} {
		run(t, func(c *testCluster) {
			p, ctx := c.process("a"), c.t.Context()
			if err := p.registration.register(ctx); err != nil {
				c.t.Fatal(err)
			}
			const policy = "checkout:1"
			name := protocol.TypeName{App: "a", Type: "T"}
			p.holdings.Order(protocol.Order{Types: []protocol.TypeName{name}, Kind: protocol.Unlock, Policy: policy, Ranges: []protocol.Range{{Last: placement.LastPoint}}}, p.now())
			p.competing[name] = &checkoutType{policy: policy, owns: make([]ownedPartition, 1), routes: make([]actor.HostID, 1)}
			was, taken, err := p.db.AcquireLease(ctx, checkoutName(name, 0, 1), "other", testLease/2)
			if err != nil || !taken {
				c.t.Fatal(taken, err)
			}
			<-time.After(testLease) // it is read now
			if held, err := p.db.RenewLease(ctx, was, testLease); err != nil || !held {
				c.t.Fatal(held, err)
			}
			p.checkouts.checkOut(ctx, name, 0, p.Self(), was, map[actor.HostID]bool{p.Self(): true, "other": there})
			now, _, err := p.db.Lease(ctx, was.Name)
			if stays := now.Holder == "other" && now.ExpiresAt.After(time.Now()); err != nil || stays != there || (p.heldPartitions() == 0) != there {
				c.t.Errorf("its holder is there %t: it is %s's until %v from now; %d partitions are here", there, now.Holder, time.Until(now.ExpiresAt), p.heldPartitions())
			}
		})
	}
}

// TestPartitionsAreNotClean: of an earlier holder of a partition something may be under way,
// which nobody has handed over here.
func TestPartitionsAreNotClean(t *testing.T) {
	run(t, func(c *testCluster) {
		const policy = "checkout:2"
		p := c.start("a")[0]
		p.setTypes(placedType("T", policy, 1))
		c.shared(policy, 2)
		for i := range lookedAt {
			if hold := p.Holds(key("T", i), policy); hold != actor.Held {
				c.t.Fatalf("an actor of a partition that was just taken is held as %d", hold)
			}
		}
	})
}

// TestPartitionThatLeaves: no turn of a partition begins while it is being checked in.
func TestPartitionThatLeaves(t *testing.T) {
	run(t, func(c *testCluster) {
		const policy = "checkout:2"
		// Neither process ever offers another type, whose ranges would be handed over as well.
		start := func(name string) *process {
			p := c.process(name)
			p.types = []protocol.Type{placedType("T", policy, 1)}
			if err := p.Start(c.t.Context()); err != nil {
				c.t.Fatal(err)
			}
			p.alive.Store(true)
			return p
		}
		p := start("a")
		c.shared(policy, 2)
		p.mu.Lock()
		p.busy, p.handOvers, p.moved = make(chan struct{}), 0, nil
		p.mu.Unlock()
		start("b")
		c.eventually("a partition leaves", func() bool { return p.handOversOf() > 0 })
		p.mu.Lock()
		moving := p.moved[0]
		p.mu.Unlock()
		parts := map[placement.Partition]bool{}
		for i := range lookedAt {
			if k := key("T", i); moving(k) {
				parts[placement.PartitionOf(placement.PointOf(k), 2)] = true
				if p.Holds(k, policy) != actor.NotHeld {
					c.t.Fatalf("%v is held while it is checked in", k)
				}
			}
		}
		if len(parts) != 1 {
			c.t.Errorf("%d partitions are checked in", len(parts))
		}
		close(p.busy)
		c.shared(policy, 1)
	})
}
