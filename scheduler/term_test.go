package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// TestHostsAreReadInOrder: a host that registers while a new leader reads the hosts for the
// first time, and connects at once, is not taken for one that is gone.
func TestHostsAreReadInOrder(t *testing.T) {
	run(t, func(c *testCluster) {
		p := c.process("a")
		term := newTerm(p.environment, actor.Lease{Name: leaderLease, Holder: p.Self(), Epoch: 1}, p.now())
		slow := make(chan struct{})
		p.db.answers = slow
		var reads [2]chan struct{}
		for i := range reads {
			reads[i] = make(chan struct{})
			go func() {
				defer close(reads[i])
				term.readHosts(c.t.Context(), "")
			}()
			synctest.Wait()
			if i == 0 { // it has read them, and is not answered yet
				if _, err := (&link{db: c.db}).RegisterHost(c.t.Context(), actor.Host{ID: "b", Cluster: "test"}, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
		}
		close(slow)
		<-reads[0]
		<-reads[1]
		if !term.leader.Begin(protocol.Session{Host: "b", Number: 1, Epoch: 1}) {
			t.Error("a host that is registered is not let in")
		}
	})
}

// TestHostThatTakesNothing: a session ends with whose host the leader would have to keep more
// than it may.
func TestHostThatTakesNothing(t *testing.T) {
	run(t, func(c *testCluster) {
		p := c.process("a")
		term := newTerm(p.environment, actor.Lease{Name: leaderLease, Holder: p.Self(), Epoch: 1}, p.now())
		var ended error
		h := &hostSession{end: func(why error) { ended = why }, out: protocol.NewOutbox[*greenroomv1.ReportActorTypesResponse]()}
		term.streams["b"] = h
		for range maxUnsent {
			h.out.Put(nil)
		}
		if term.plan(); ended != nil {
			c.t.Errorf("it has as much as it may: %v", ended)
		}
		h.out.Put(nil)
		if term.plan(); ended == nil {
			c.t.Error("nothing bounds what it is sent")
		}
	})
}

// TestRowThatIsRenewedStays: a host whose row was over when it was read, and that has renewed
// it before it was removed, is not taken for gone.
func TestRowThatIsRenewedStays(t *testing.T) {
	for _, renews := range []bool{true, false} {
		run(t, func(c *testCluster) {
			p, ctx := c.process("a"), c.t.Context()
			lease, _, err := p.db.AcquireLease(ctx, leaderLease, p.Self(), testLease)
			if err != nil {
				c.t.Fatal(err)
			}
			term := newTerm(p.environment, lease, p.now())
			if _, err := p.db.RegisterHost(ctx, actor.Host{ID: "b", Cluster: "test"}, testLease/4); err != nil {
				c.t.Fatal(err)
			}
			<-time.After(testLease / 2)
			slow, read := make(chan struct{}), make(chan struct{})
			p.db.answers = slow
			go func() {
				defer close(read)
				term.readHosts(ctx, "")
			}()
			synctest.Wait()
			if renews {
				if _, err := (&link{db: c.db}).RenewHost(ctx, "b", testLease, 0); err != nil {
					c.t.Fatal(err)
				}
			}
			close(slow)
			<-read
			if gone := term.leader.Gone("b"); gone == renews || term.knows("b") != renews {
				c.t.Errorf("renewed %t: it is gone %t, a member %t", renews, gone, term.knows("b"))
			}
		})
	}
}

// TestMessagesOfAnOlderSession are not taken: what a host claimed in it, it may have handed
// over since.
func TestMessagesOfAnOlderSession(t *testing.T) {
	run(t, func(c *testCluster) {
		p, ctx := c.process("a"), c.t.Context()
		if _, err := (&link{db: c.db}).RegisterHost(ctx, actor.Host{ID: "b", Cluster: "test", Roles: []string{protocol.RoleHost}}, time.Minute); err != nil {
			c.t.Fatal(err)
		}
		term := newTerm(p.environment, actor.Lease{Name: leaderLease, Holder: p.Self(), Epoch: 1}, p.now())
		term.readHosts(ctx, "")
		var sessions []*hostSession
		for n := range uint64(2) {
			h := &hostSession{
				session: protocol.Session{Host: "b", Number: n + 1, Epoch: 1}, end: func(error) {}, out: protocol.NewOutbox[*greenroomv1.ReportActorTypesResponse](),
			}
			if err := term.begin(h, &greenroomv1.SchedulerHello{MaxProtocol: protocol.MaxVersion}); err != nil {
				c.t.Fatal(err)
			}
			sessions = append(sessions, h)
		}
		claims := &greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_RangeClaims{RangeClaims: protocol.ToClaims(protocol.Order{
			Types: []protocol.TypeName{{App: "a", Type: "R"}}, Policy: abi.PlacementRing, Ranges: []protocol.Range{{Last: placement.LastPoint, Hosts: []placement.HostID{"b"}}},
		}, protocol.MaxVersion)[0]}}
		if err := term.receive(sessions[0], claims); err == nil {
			c.t.Error("the session before goes on")
		}
		complete := &greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_StickyClaims{StickyClaims: &greenroomv1.StickyClaimsReport{Complete: true}}}
		if err := term.receive(sessions[1], complete); err != nil {
			c.t.Error(err)
		}
		if shares := term.tables.Shares(); shares["b"] != 0 {
			c.t.Errorf("it claims nothing, and is taken to hold %d ranges", shares["b"])
		}
	})
}
