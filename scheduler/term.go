package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/ownership"
	"github.com/greenroom-run/greenroom/scheduler/protocol"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// maxUnsent bounds what a leader has not sent to a host that does not take it: above it
// the session ends, and begins anew.
const maxUnsent = 1 << 16

// term performs what [ownership.Leader] and [assignment.Tables] decide for one term.
type term struct {
	*environment
	lease actor.Lease
	ended chan struct{} // closed when the term is over
	began clock.Instant
	// resign ends the term.
	resign context.CancelFunc
	// sent is when the newest renewal of the lease was sent, an [clock.Instant]: it is renewed
	// under no lock, and what it means for [ownership.Leader] is taken over by lock.
	sent atomic.Int64
	// renewals has a value when the lease was renewed.
	renewals chan struct{}
	// look: a host that drained has gone, and its row is about to.
	look chan struct{}
	// reading has one while hosts are read: one after the other, so that what is known of
	// them only becomes newer.
	reading chan struct{}

	mu      sync.Mutex
	leader  *ownership.Leader
	tables  *assignment.Tables
	streams map[actor.HostID]*hostSession
	members map[actor.HostID]actor.Host // the rows that were read last
	pending []pendingAcquisition        // asked for before anything could be given
	newest  deployments
	heat    *assignment.Heat
	reach   reach
	// otherLease are the hosts that were warned of since their leases are of another length.
	otherLease map[actor.HostID]bool
}

// hostSession is the leader's end of a host's session.
type hostSession struct {
	session  protocol.Session
	protocol int // the newest that both speak
	end      context.CancelCauseFunc
	claims   []actor.Key // those that have come
	out      *protocol.Outbox[*greenroomv1.ReportActorTypesResponse]
	// ungrouped is not nil for a host that knows no groups of types.
	ungrouped *protocol.Ungrouped
}

type pendingAcquisition struct {
	from *hostSession
	id   uint64
	key  actor.Key
}

func newTerm(e *environment, l actor.Lease, sent clock.Instant) *term {
	t := &term{
		environment: e, lease: l, began: sent, ended: make(chan struct{}), leader: ownership.NewLeader(l.Epoch, sent, e.cfg.Lease), tables: assignment.NewTables(e.cfg.Ranges),
		renewals: make(chan struct{}, 1), look: make(chan struct{}, 1), reading: make(chan struct{}, 1), streams: map[actor.HostID]*hostSession{}, members: map[actor.HostID]actor.Host{}, newest: deployments{},
		heat: assignment.NewHeat(e.cfg.HeatEvery), otherLease: map[actor.HostID]bool{},
	}
	t.sent.Store(int64(sent))
	return t
}

// lock locks what the term decides by, which knows of the newest renewal then.
func (t *term) lock() {
	t.mu.Lock()
	t.leader.Renewed(clock.Instant(t.sent.Load()), t.cfg.Lease)
}

// run leads until the lease cannot be renewed in time, no other host reaches this one, which
// it reports, or ctx ends. It then gives the lease back.
func (t *term) run(ctx context.Context) (reached bool) {
	log := t.cfg.Logger.With("epoch", t.lease.Epoch)
	log.Info("leading the cluster")
	t.led(t.lease.Epoch, true)
	defer func() {
		t.end(context.WithoutCancel(ctx), log)
		log.Info("not leading the cluster any more")
		t.led(t.lease.Epoch, false)
	}()
	ctx, lost := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { defer lost(); t.keepLease(ctx, log) })
	defer renewing.Wait()
	defer lost()
	read := time.NewTimer(0)
	defer read.Stop()
	for {
		select {
		case <-ctx.Done():
			return true
		case <-t.renewals:
			t.lock()
			t.tables.Slow()
			t.plan()
			t.mu.Unlock()
		case <-read.C:
			read.Reset(t.readHosts(ctx, ""))
			if others := t.unreached(); others > 0 {
				log.Warn("none of the other hosts has a session with this leader: it lets another lead; see that they reach the address that this one advertises, and that all have the same cluster key",
					"advertised", t.cfg.Self.Address, "others", others)
				return false
			}
		case <-t.look:
			read.Reset(t.readHosts(ctx, ""))
		}
	}
}

// keepLease renews the lease until that cannot be done in time, another leads, or ctx ends.
// It takes no lock: whatever else the leader does, its term does not end of it.
func (t *term) keepLease(ctx context.Context, log *slog.Logger) {
	renew := time.NewTimer(clock.RenewEvery(t.cfg.Lease)) // it has just been taken
	defer renew.Stop()
	for {
		left := clock.Instant(t.sent.Load()) + clock.Usable(t.cfg.Lease) - t.now()
		if left <= 0 {
			log.Warn("the leader's lease could not be renewed in time")
			return
		}
		over := time.NewTimer(left)
		select {
		case <-ctx.Done():
		case <-over.C:
		case <-renew.C:
			if !t.renew(ctx) {
				over.Stop()
				return
			}
			renew.Reset(clock.RenewEvery(t.cfg.Lease))
		}
		over.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// end ends the term. First it sends the hosts what was decided. It ends their sessions once
// they have it and the lease is free for another leader, or when this takes long.
func (t *term) end(ctx context.Context, log *slog.Logger) {
	patience := time.NewTimer(clock.RenewEvery(t.cfg.Lease) / 4)
	defer patience.Stop()
	t.lock()
	t.leader.Resign()
	var flushed []<-chan struct{}
	for id, h := range t.streams {
		if id != t.lease.Holder { // which knows
			flushed = append(flushed, h.out.Flushed())
		}
	}
	t.mu.Unlock()
	released := make(chan struct{})
	go func() {
		defer close(released)
		// If this fails the next leader waits for the lease's end.
		ctx, cancel := context.WithTimeout(ctx, t.cfg.Lease)
		defer cancel()
		if err := t.cfg.Store.ReleaseLease(ctx, t.lease); err != nil {
			log.Warn("the leader's lease was not released", "error", err)
		}
	}()
	for _, done := range append(flushed, released) {
		select {
		case <-done:
			continue
		case <-patience.C:
		}
		break
	}
	close(t.ended)
	t.lock()
	for _, h := range t.streams {
		h.end(protocol.ErrNotLeader)
	}
	t.mu.Unlock()
	<-released
}

// renew reports false if another leads.
func (t *term) renew(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Lease/2)
	defer cancel()
	sent := t.now()
	held, err := t.cfg.Store.RenewLease(ctx, t.lease, t.cfg.Lease)
	if err != nil {
		t.cfg.Logger.Warn("the leader's lease was not renewed", "epoch", t.lease.Epoch, "error", err)
		return true // as long as its count lasts
	}
	if held {
		t.sent.Store(int64(sent))
		select {
		case t.renewals <- struct{}{}:
		default:
		}
	}
	return held
}

// soon is the least pause between two readings of the hosts' rows.
const soon = 20 * time.Millisecond

// readHosts reads the hosts' rows, removes those that are over, and returns when to do
// so again. Where it is for the sake of one host, it does nothing if a reading that it
// waited for has found that one: so many hosts may come at once.
func (t *term) readHosts(ctx context.Context, sake actor.HostID) time.Duration {
	next := clock.RenewEvery(t.cfg.Lease)
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Lease/2) // with the wait: the term's loop renews its lease as well
	defer cancel()
	select {
	case t.reading <- struct{}{}:
		defer func() { <-t.reading }()
	case <-ctx.Done():
		return next / 4
	}
	if sake != "" && t.knows(sake) {
		return next
	}
	t.lock()
	known := t.tables.KnownHosts() // whose rows were there before
	t.mu.Unlock()
	hosts, now, err := t.cfg.Store.Hosts(ctx)
	if err != nil {
		t.cfg.Logger.Warn("the hosts of the cluster were not read", "error", err)
		return next / 4
	}
	rows := make(map[actor.HostID]actor.Host, len(hosts))
	ids := make([]actor.HostID, 0, len(hosts))
	for _, h := range hosts {
		rows[h.ID] = h
		ids = append(ids, h.ID)
	}
	t.lock()
	t.leader.Registered(ids)
	known = append(known, t.leader.Missing()...)
	leading := t.leader.Leading(t.now())
	t.mu.Unlock()
	// After a time without the database hosts are as quick to renew as this one was to
	// lead.
	if grace := t.began + clock.RenewEvery(t.cfg.Lease)/2 - t.now(); grace > 0 {
		leading, next = false, min(next, grace)
	}
	sticky := map[actor.HostID]int{} // what those that are removed owned, by their rows
	for _, h := range hosts {
		left := h.ExpiresAt.Sub(now)
		if left > 0 {
			next = min(next, left+time.Millisecond)
			continue
		}
		// It is over, or was when it was read.
		if !leading {
			continue
		}
		next = soon
		gone, err := t.cfg.Store.ClearHost(ctx, h.ID, leaderLease, t.lease.Epoch)
		if err != nil {
			t.cfg.Logger.Warn("the row of a host that is over was not removed", "host", h.ID, "error", err)
		}
		if gone {
			t.cfg.Logger.Warn("a host's lease has run out; what it held is free", "host", h.ID, "name", h.Name, "address", h.Address)
			delete(rows, h.ID)
			known = append(known, h.ID)
			sticky[h.ID] = h.Sticky
		}
	}
	t.lock()
	defer t.mu.Unlock()
	others, sessions := 0, 0
	for id, h := range rows {
		if id != t.lease.Holder && h.ExpiresAt.After(now) {
			others++
			if t.streams[id] != nil {
				sessions++
			}
		}
	}
	t.reach.saw(t.now(), others, sessions)
	for _, id := range known {
		if _, there := rows[id]; !there {
			t.cleared(id, sticky[id])
		}
	}
	changed := len(rows) != len(t.members)
	for id := range rows {
		if _, there := t.members[id]; !there {
			changed = true
		}
	}
	t.members = rows
	if changed {
		t.tellMembers()
	}
	t.plan()
	if len(t.leader.Missing()) > 0 || slices.ContainsFunc(ids, t.isLeaving) { // something waits for a row's end
		next = min(next, clock.RenewEvery(t.cfg.Lease)/8)
	}
	return max(next, soon)
}

// isLeaving reports whether a host has drained and gone, so that its row is about to. The
// caller has the lock.
func (t *term) isLeaving(id actor.HostID) bool {
	_, there := t.members[id]
	return there && t.streams[id] == nil && t.tables.Draining(id)
}

// unreached returns how many other hosts there are if none of them has reached this
// leader for long.
func (t *term) unreached() int {
	t.lock()
	defer t.mu.Unlock()
	now := t.now()
	if !t.reach.lost(now, t.cfg.Lease, t.leader.Granting(now)) {
		return 0
	}
	return t.reach.others
}

// granting reports whether the term may give anything away. The caller has the lock.
func (t *term) granting(now clock.Instant) bool { return t.leader.Granting(now) && t.reach.mayGrant() }

// cleared notes that a host's row is gone, with how many sticky actors it owned by that row.
// The caller has the lock, as everywhere below.
func (t *term) cleared(id actor.HostID, recorded int) {
	owned, known := t.leader.OwnedBy(id)
	if !known { // it ended together with an earlier leader
		owned = recorded
	}
	if owned > 0 && t.cfg.Events.StickyCleared != nil {
		t.cfg.Events.StickyCleared(owned)
	}
	t.leader.Cleared(id)
	t.tables.Cleared(id)
	t.heat.Gone(id)
	if h := t.streams[id]; h != nil {
		h.end(fmt.Errorf("host %s: %w", id, actor.ErrHostGone))
		delete(t.streams, id)
	}
}

// membership is a message with all hosts.
func (t *term) membership() *greenroomv1.ReportActorTypesResponse {
	m := &greenroomv1.ClusterMembers{}
	for _, id := range slices.Sorted(maps.Keys(t.members)) {
		m.Members = append(m.Members, protocol.ToMember(t.members[id], t.tables.Draining(id)))
	}
	return &greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Members{Members: m}}
}

// tellMembers tells all hosts who is a member.
func (t *term) tellMembers() {
	members := t.membership() // one for all, which nobody changes
	for _, h := range t.streams {
		h.out.Put(members)
	}
}

// plan sends what follows from what happened.
func (t *term) plan() {
	now := t.now()
	if !t.leader.Leading(now) {
		return
	}
	granting := t.granting(now)
	orders := map[actor.HostID][]protocol.Order{}
	for _, o := range t.tables.Plan(granting) {
		orders[o.To] = append(orders[o.To], o)
	}
	for id, orders := range orders {
		if h := t.streams[id]; h != nil {
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
	for id, h := range t.streams {
		if h.out.Len() > maxUnsent {
			h.end(fmt.Errorf("host %s takes nothing that it is sent", id))
		}
	}
}

// order sends orders, together.
func (h *hostSession) order(orders []protocol.Order) {
	if h.ungrouped == nil {
		for _, m := range protocol.ToOrders(orders) {
			h.out.Put(m)
		}
		return
	}
	for _, o := range orders {
		for _, one := range h.ungrouped.Orders(o) {
			h.out.Put(&greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Order{Order: protocol.ToOrder(one)}})
		}
	}
}

// acquire answers an acquisition, or keeps it until it can.
func (t *term) acquire(p pendingAcquisition) {
	policy, switching := t.tables.Policy(p.key.App, p.key.Type)
	answer, ok := ownership.Answer{}, true
	switch {
	case switching, !t.granting(t.now()):
		t.pending = append(t.pending, p)
		return
	case policy == abi.PlacementSticky:
		answer, ok = t.leader.Acquire(t.now(), p.from.session, p.key)
	}
	if ok {
		p.from.out.Put(&greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Acquisition{
			Acquisition: &greenroomv1.StickyAcquisitionResponse{CorrelationId: p.id, Granted: answer.Granted, Owner: string(answer.Owner)},
		}})
	}
}

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

// knows reports whether a host is a member, by the rows that were read last.
func (t *term) knows(id actor.HostID) bool {
	t.lock()
	defer t.mu.Unlock()
	_, there := t.members[id]
	return there
}

func (t *term) begin(h *hostSession, hello *greenroomv1.SchedulerHello) error {
	t.lock()
	defer t.mu.Unlock()
	if _, there := t.members[h.session.Host]; !there || t.leader.Gone(h.session.Host) {
		return fmt.Errorf("host %s: %w", h.session.Host, actor.ErrHostGone)
	}
	if !t.leader.Leading(t.now()) || !t.leader.Begin(h.session) {
		return protocol.ErrNotLeader
	}
	if old := t.streams[h.session.Host]; old != nil {
		old.end(errors.New("the host has begun another session"))
	}
	t.streams[h.session.Host] = h
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
	if t.streams[h.session.Host] == h {
		delete(t.streams, h.session.Host)
		t.tables.Disconnected(h.session.Host)
		t.plan()
		if t.isLeaving(h.session.Host) {
			select {
			case t.look <- struct{}{}:
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
	if t.streams[id] != h {
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
		t.heat.Reported(id, m.Heat, t.now())
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

// reported takes the types of a host, and tells who knows an older deployment.
func (t *term) reported(h *hostSession, types []protocol.Type) {
	id := h.session.Host
	news, behind := t.newest.reported(t.tables.TypesOf(id), types)
	t.tables.Reported(id, types)
	tell := func(h *hostSession, apps []string) {
		if len(apps) > 0 && h.protocol >= protocol.WithTypesOutdated {
			h.out.Put(&greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_TypesOutdated{TypesOutdated: &greenroomv1.TypesOutdated{Apps: apps}}})
		}
	}
	tell(h, behind)
	for other, session := range t.streams {
		if other != id {
			tell(session, news)
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

// drain has a host hand over: the one that asks for it, or another that it names.
func (t *term) drain(from, id actor.HostID) {
	if id == "" {
		id = from
	}
	t.tables.Drain(id)
	if h := t.streams[id]; h != nil && id != from {
		h.out.Put(&greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Drain{Drain: &greenroomv1.DrainOrder{Reason: "asked"}}})
	}
	t.tellMembers()
}

// answer says what only the leader knows.
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
			Draining: t.tables.Draining(id), Connected: t.streams[id] != nil, Weight: weights[id].Mean(),
		})
	}
	return &greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Answer{Answer: a}}
}

// cool moves what is hot, and tells of it. The caller has the lock.
func (t *term) cool() {
	step, app, typ, changed := t.tables.Cool(t.cfg.Cooling, t.heat, t.now())
	if !changed {
		return
	}
	kind := assignment.HeatKind(step)
	t.cfg.Logger.Info("a range moves because of its heat", "app", app, "type", typ, "kind", kind,
		"first", fmt.Sprintf("%#x", uint64(step.First)), "last", fmt.Sprintf("%#x", uint64(step.Last)), "from", step.From, "to", step.To, "moved", len(step.Moved))
	if t.cfg.Events.HeatMoved != nil {
		t.cfg.Events.HeatMoved(kind)
	}
}
