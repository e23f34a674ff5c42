package leader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// serve is a session of a host, until it or the term ends.
func (t *term) serve(ctx context.Context, stream protocol.ServerStream, hello *greenroomv1.SchedulerHello) error {
	ctx, end := context.WithCancelCause(ctx)
	h := &hostSession{
		session: protocol.Session{Host: actor.HostID(hello.GetHostId()), Number: hello.GetSession(), Epoch: hello.GetEpoch()},
		end:     end, out: protocol.NewOutbox[*greenroomv1.ReportActorTypesResponse](),
	}
	if !t.knows(h.session.Host) {
		t.readHosts(ctx, h.session.Host) // it has registered since: what it gets, all have to find
	}
	if err := t.begin(h, hello); err != nil {
		return err
	}
	received := make(chan error, 1)
	sent := make(chan error, 1)
	var sending sync.WaitGroup
	sending.Go(func() { sent <- h.out.Send(ctx, stream.Send) })
	defer sending.Wait() // nothing is sent on a stream that has been served
	defer t.disconnect(h)
	go func() {
		for {
			m, err := stream.Receive()
			if err == nil {
				err = t.receive(h, m)
			}
			if err != nil {
				received <- err
				return
			}
		}
	}()
	select {
	case err := <-received:
		end(err)
		return err
	case err := <-sent:
		end(err)
		return err
	case <-t.ended:
		end(protocol.ErrNotLeader)
		return protocol.ErrNotLeader
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *term) begin(h *hostSession, hello *greenroomv1.SchedulerHello) error {
	t.lock()
	defer t.mu.Unlock()
	if _, there := t.members[h.session.Host]; !there || t.leader.Gone(h.session.Host) {
		return fmt.Errorf("host %s: %w", h.session.Host, actor.ErrHostGone)
	}
	if !t.leader.Leading(t.cfg.now()) || !t.leader.Begin(h.session) {
		return protocol.ErrNotLeader
	}
	if old := t.sessions[h.session.Host]; old != nil {
		old.end(errors.New("the host has begun another session"))
	}
	t.sessions[h.session.Host] = h
	if h.session.Host != t.lease.Holder {
		t.reach.connected()
	}
	t.tables.Begin(h.session.Host, t.members[h.session.Host].Name, hello.GetDraining())
	if !slices.Contains(t.members[h.session.Host].Roles, protocol.RoleHost) {
		t.tables.LeadsOnly(h.session.Host)
	}
	t.tables.Offers(h.session.Host, placement.Resources{Processors: int(hello.GetProcessors()), Memory: int64(hello.GetMemoryBytes()), Weight: hello.GetWeight()}) //nolint:gosec // what is below 0 is not looked at
	if h.protocol = min(int(hello.GetMaxProtocol()), t.cfg.Self.MaxProtocol); h.protocol < protocol.WithGroups {
		h.ungrouped = protocol.NewUngrouped()
	}
	h.out.Put(&greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Welcome{Welcome: &greenroomv1.SchedulerWelcome{Protocol: uint32(h.protocol)}}}) //nolint:gosec // small
	h.out.Put(t.membership())
	t.checkLease(h.session.Host, time.Duration(hello.GetLeaseMs())*time.Millisecond)
	return nil
}

// checkLease warns of a host whose lease is not as long as this one's, once: what it holds
// waits for another time than others count on. The caller has the lock.
func (t *term) checkLease(id actor.HostID, lease time.Duration) {
	if lease == 0 || lease == t.cfg.Lease.Truncate(time.Millisecond) || t.otherLease[id] {
		return
	}
	t.otherLease[id] = true
	t.cfg.Logger.Warn("a host has another lease than the leader; start all servers of the cluster with the same --lease",
		"host", id, "name", t.members[id].Name, "lease", lease.String(), "of_the_leader", t.cfg.Lease.String())
}

func (t *term) disconnect(h *hostSession) {
	t.lock()
	defer t.mu.Unlock()
	t.pending = slices.DeleteFunc(t.pending, func(p pendingAcquisition) bool { return p.from == h })
	if t.sessions[h.session.Host] == h {
		delete(t.sessions, h.session.Host)
		t.tables.Disconnected(h.session.Host)
		t.plan()
		if t.isLeaving(h.session.Host) {
			select {
			case t.departed <- struct{}{}:
			default:
			}
		}
	}
}

// receive takes one message of a host's session.
func (t *term) receive(h *hostSession, m *greenroomv1.ReportActorTypesRequest) error {
	t.lock()
	defer t.mu.Unlock()
	id := h.session.Host
	if t.sessions[id] != h {
		return errors.New("the session is over")
	}
	switch m := m.GetMessage().(type) {
	case *greenroomv1.ReportActorTypesRequest_Types:
		t.reported(h, protocol.FromTypes(m.Types))
	case *greenroomv1.ReportActorTypesRequest_RangeClaims:
		c := m.RangeClaims
		t.tables.Claim(id, protocol.ClaimedTypes(c), c.GetPlacement(), protocol.FromRanges(c.GetRanges()))
	case *greenroomv1.ReportActorTypesRequest_StickyClaims:
		t.stickyClaims(h, m.StickyClaims)
	case *greenroomv1.ReportActorTypesRequest_Released:
		r := m.Released
		answers, all := [][]protocol.Range{protocol.FromRanges(r.GetRanges())}, true
		if h.ungrouped != nil {
			answers, all = h.ungrouped.Answered(protocol.TypeName{App: r.GetApp(), Type: r.GetType()}, r.GetVersion(), answers[0])
		}
		if all {
			t.tables.Released(id, r.GetVersion(), answers...)
		}
	case *greenroomv1.ReportActorTypesRequest_Updated:
		all := true
		if h.ungrouped != nil {
			_, all = h.ungrouped.Answered(protocol.TypeName{App: m.Updated.GetApp(), Type: m.Updated.GetType()}, m.Updated.GetVersion(), nil)
		}
		if all {
			t.tables.Updated(id, m.Updated.GetVersion())
		}
	case *greenroomv1.ReportActorTypesRequest_Acquisition:
		a := m.Acquisition
		t.acquire(pendingAcquisition{h, a.GetCorrelationId(), actor.Key{App: a.GetApp(), Type: a.GetType(), ID: a.GetId()}})
		return nil // nothing else follows from it
	case *greenroomv1.ReportActorTypesRequest_Release:
		for _, key := range protocol.FromSticky(m.Release.GetActors()) {
			t.leader.Release(h.session, key)
		}
	case *greenroomv1.ReportActorTypesRequest_Heat:
		t.heat.Reported(id, m.Heat, t.cfg.now())
		t.cool()
	case *greenroomv1.ReportActorTypesRequest_Drain:
		t.drain(id, actor.HostID(m.Drain.GetHostId()))
	case *greenroomv1.ReportActorTypesRequest_Query:
		h.out.Put(t.answer(m.Query))
		return nil
	case *greenroomv1.ReportActorTypesRequest_Heartbeat:
		h.out.Put(&greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Heartbeat{Heartbeat: &greenroomv1.SchedulerHeartbeat{}}})
		return nil
	}
	t.plan()
	return nil
}

// reported takes the types of a host, and notifies the hosts that know an older deployment.
func (t *term) reported(h *hostSession, types []protocol.Type) {
	id := h.session.Host
	news, behind := t.deployments.reported(t.tables.TypesOf(id), types)
	t.tables.Reported(id, types)
	notify := func(h *hostSession, apps []string) {
		if len(apps) > 0 && h.protocol >= protocol.WithTypesOutdated {
			h.out.Put(&greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_TypesOutdated{TypesOutdated: &greenroomv1.TypesOutdated{Apps: apps}}})
		}
	}
	notify(h, behind)
	for other, session := range t.sessions {
		if other != id {
			notify(session, news)
		}
	}
}

// stickyClaims takes a part of a host's claims; with the last one they are complete.
func (t *term) stickyClaims(h *hostSession, c *greenroomv1.StickyClaimsReport) {
	id := h.session.Host
	keys := protocol.FromSticky(c.GetActors())
	for _, a := range c.GetActors() {
		t.tables.Claim(id, []protocol.TypeName{{App: a.GetApp(), Type: a.GetType()}}, abi.PlacementSticky, nil)
	}
	h.claims = append(h.claims, keys...)
	if !c.GetComplete() {
		return
	}
	refused, ok := t.leader.Claimed(h.session, h.claims)
	h.claims = nil
	if !ok {
		return
	}
	t.tables.Claimed(id)
	for _, actors := range protocol.ToSticky(refused) {
		h.out.Put(&greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Refusal{Refusal: &greenroomv1.StickyRefusal{Actors: actors}}})
	}
}

// answer answers a query for what only the leader knows.
func (t *term) answer(q *greenroomv1.LeaderQuery) *greenroomv1.ReportActorTypesResponse {
	a := &greenroomv1.LeaderAnswer{CorrelationId: q.GetCorrelationId(), Missing: protocol.ToIDs(t.leader.Missing())}
	switch {
	case q.GetHeat():
		a.Heat = t.heat.Answer(protocol.TypeName{App: q.GetApp(), Type: q.GetType()})
	case q.GetId() != "":
		if owner := t.leader.Owner(actor.Key{App: q.GetApp(), Type: q.GetType(), ID: q.GetId()}); owner != "" {
			a.Sticky = append(a.Sticky, &greenroomv1.StickyEntry{Type: q.GetType(), Id: q.GetId(), Owner: string(owner)})
		}
	case q.GetApp() != "":
		after := actor.Key{App: q.GetApp(), Type: q.GetAfter().GetType(), ID: q.GetAfter().GetId()}
		for _, e := range t.leader.List(q.GetApp(), q.GetType(), actor.HostID(q.GetOwner()), after, int(q.GetLimit())) {
			a.Sticky = append(a.Sticky, &greenroomv1.StickyEntry{Type: e.Key.Type, Id: e.Key.ID, Owner: string(e.Owner)})
		}
	}
	shares, owned, weights := t.tables.Shares(), t.leader.Owned(), t.tables.Weights()
	for _, id := range slices.Sorted(maps.Keys(t.members)) {
		a.Hosts = append(a.Hosts, &greenroomv1.HostShare{
			HostId: string(id), Ranges: uint64(shares[id]), Sticky: uint64(owned[id]), //nolint:gosec // counts
			Draining: t.tables.Draining(id), Connected: t.sessions[id] != nil, Weight: weights[id].Mean(),
		})
	}
	return &greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Answer{Answer: a}}
}

// drain has a host hand over: the one that asks for it, or another that it names.
func (t *term) drain(from, id actor.HostID) {
	if id == "" {
		id = from
	}
	t.tables.Drain(id)
	if h := t.sessions[id]; h != nil && id != from {
		h.out.Put(&greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Drain{Drain: &greenroomv1.DrainOrder{Reason: "asked"}}})
	}
	t.sendMembers()
}
