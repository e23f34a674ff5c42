package scheduler

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestRenewalOfAnEarlierIncarnation: the answer to a renewal of an incarnation that has ended
// meanwhile says nothing of the next one, which has no row yet.
func TestRenewalOfAnEarlierIncarnation(t *testing.T) {
	run(t, func(c *testCluster) {
		p := c.process("a")
		if err := p.registration.register(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		const takes = testLease / 4
		p.db.SetTakes(takes)
		renewed := make(chan struct{})
		go func() {
			defer close(renewed)
			if _, err := p.registration.renew(c.t.Context()); err != nil {
				c.t.Error(err)
			}
		}()
		<-time.After(takes / 2)
		p.registration.end()
		<-renewed
		if p.Current(time.Now()) {
			c.t.Error("a host that is not registered counts on a lease")
		}
		if p.registration.register(c.t.Context()) != nil || !p.Current(time.Now()) {
			c.t.Error("it is registered, and does not count on its lease")
		}
	})
}

// TestOrderToAnEarlierIncarnation: what a leader gives a host in a session that has not ended
// yet is not the next incarnation's, to which nobody has given anything.
func TestOrderToAnEarlierIncarnation(t *testing.T) {
	for _, ends := range []bool{false, true} {
		run(t, func(c *testCluster) {
			p := c.process("a")
			if err := p.registration.register(c.t.Context()); err != nil {
				c.t.Fatal(err)
			}
			ss := &session{Session: protocol.Session{Host: p.Self(), Number: 1, Epoch: 1}, end: func(error) {}, out: protocol.NewOutbox[*greenroomv1.ReportActorTypesRequest]()}
			p.session = ss
			give := protocol.Order{To: p.Self(), Types: []protocol.TypeName{{App: "a", Type: "R"}}, Version: 1, Kind: protocol.Update, Policy: abi.PlacementRing, Ranges: []protocol.Range{{Last: placement.LastPoint, Hosts: []placement.HostID{p.Self()}}}}
			if ends {
				p.registration.end()
			}
			p.follower.receive(c.t.Context(), ss, &greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Order{Order: protocol.ToOrder(give)}})
			if held := p.Holds(key("R", 1), abi.PlacementRing) != actor.NotHeld; held == ends {
				c.t.Errorf("the incarnation has ended %t, and it holds what that was given: %t", ends, held)
			}
		})
	}
}

// TestOwnsNothingAnew: an incarnation owns none of the sticky actors of the one before.
func TestOwnsNothingAnew(t *testing.T) {
	run(t, func(c *testCluster) {
		p, k := c.start("a")[0], key("S", 1)
		if owner, _ := c.acquired(p, k); owner != "a" {
			c.t.Fatal(owner)
		}
		was := p.Self()
		c.db.Mu.Lock()
		delete(c.db.Hosts, was)
		c.db.Mu.Unlock()
		c.eventually("it begins anew", func() bool { return p.Self() != was })
		for range 100 {
			if p.Holds(k, abi.PlacementSticky) != actor.NotHeld || p.Owned() != 0 {
				c.t.Fatal("it owns what it has not acquired")
			}
			<-time.After(testLease / 50)
		}
		c.settled(testLease)
	})
}
