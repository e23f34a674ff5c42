package leader

import (
	"context"
	"fmt"
	"sync"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/ownership"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// maxUnsent bounds what a leader has not sent to a host that does not take it: above it
// the session ends, and begins anew.
const maxUnsent = 1 << 16

// term performs what [ownership.Leader] and [assignment.Tables] decide for one term.
type term struct {
	*termLease
	ended chan struct{} // closed when the term is over
	// resign ends the term.
	resign context.CancelFunc
	// departed has a value when a host that drained has gone, and its row is about to.
	departed chan struct{}
	// reading has a value while the hosts' rows are read: one reading after the other, so that
	// what is known of them only becomes newer.
	reading chan struct{}

	mu          sync.Mutex
	leader      *ownership.Leader
	tables      *assignment.Tables
	sessions    map[actor.HostID]*hostSession
	members     map[actor.HostID]actor.Host // the rows that were read last
	pending     []pendingAcquisition        // asked for before anything could be given
	deployments deployments
	heat        *assignment.Heat
	reach       reach
	// otherLease are the hosts that were warned of since their leases are of another length.
	otherLease map[actor.HostID]bool
}

type pendingAcquisition struct {
	from *hostSession
	id   uint64
	key  actor.Key
}

func newTerm(cfg *Config, l actor.Lease, sent clock.Instant) *term {
	return &term{
		termLease: newTermLease(cfg, l, sent), ended: make(chan struct{}), leader: ownership.NewLeader(l.Epoch, sent, cfg.Lease), tables: assignment.NewTables(cfg.Ranges),
		departed: make(chan struct{}, 1), reading: make(chan struct{}, 1), sessions: map[actor.HostID]*hostSession{}, members: map[actor.HostID]actor.Host{}, deployments: deployments{},
		heat: assignment.NewHeat(cfg.HeatEvery), otherLease: map[actor.HostID]bool{},
	}
}

// lock locks what the term decides by, which knows of the newest renewal then.
func (t *term) lock() {
	t.mu.Lock()
	t.leader.Renewed(clock.Instant(t.sent.Load()), t.cfg.Lease)
}

// granting reports whether the term may give anything away. The caller has the lock.
func (t *term) granting(now clock.Instant) bool { return t.leader.Granting(now) && t.reach.mayGrant() }

// plan sends what follows from what happened.
func (t *term) plan() {
	now := t.cfg.now()
	if !t.leader.Leading(now) {
		return
	}
	granting := t.granting(now)
	orders := map[actor.HostID][]protocol.Order{}
	for _, o := range t.tables.Plan(granting) {
		orders[o.To] = append(orders[o.To], o)
	}
	for id, orders := range orders {
		if h := t.sessions[id]; h != nil {
			h.order(orders)
		}
	}
	if granting && len(t.pending) > 0 {
		pending := t.pending
		t.pending = nil
		for _, p := range pending {
			t.acquire(p)
		}
	}
	for id, h := range t.sessions {
		if h.out.Len() > maxUnsent {
			h.end(fmt.Errorf("host %s takes nothing that it is sent", id))
		}
	}
}

// acquire answers an acquisition, or keeps it until it can.
func (t *term) acquire(p pendingAcquisition) {
	policy, switching := t.tables.Policy(p.key.App, p.key.Type)
	answer, ok := ownership.Answer{}, true
	switch {
	case switching, !t.granting(t.cfg.now()):
		t.pending = append(t.pending, p)
		return
	case policy == abi.PlacementSticky:
		answer, ok = t.leader.Acquire(t.cfg.now(), p.from.session, p.key)
	}
	if ok {
		p.from.out.Put(&greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Acquisition{
			Acquisition: &greenroomv1.StickyAcquisitionResponse{CorrelationId: p.id, Granted: answer.Granted, Owner: string(answer.Owner)},
		}})
	}
}

// cool moves what is hot, and tells of it. The caller has the lock.
func (t *term) cool() {
	step, app, typ, changed := t.tables.Cool(t.cfg.Cooling, t.heat, t.cfg.now())
	if !changed {
		return
	}
	kind := assignment.HeatKind(step)
	t.cfg.Logger.Info("a range moves because of its heat", "app", app, "type", typ, "kind", kind,
		"first", fmt.Sprintf("%#x", uint64(step.First)), "last", fmt.Sprintf("%#x", uint64(step.Last)), "from", step.From, "to", step.To, "moved", len(step.Moved))
	if t.cfg.HeatMoved != nil {
		t.cfg.HeatMoved(kind)
	}
}
