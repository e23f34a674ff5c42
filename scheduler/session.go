package scheduler

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
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// session is this host's end of a stream to the leader.
type session struct {
	protocol.Session
	ctx  context.Context //nolint:containedctx // the session's life, for its hand-overs
	end  context.CancelCauseFunc
	out  *protocol.Outbox[*greenroomv1.ReportActorTypesRequest]
	work sync.WaitGroup // hand-overs, and reads of types
	met  bool           // the leader has answered
}

// errNoLeader says that nobody leads now.
var errNoLeader = errors.New("nobody leads the cluster now")

// sessionLoop keeps a session with the leader.
func (s *Service) sessionLoop(ctx context.Context) {
	first := clock.RenewEvery(s.cfg.Lease) / 16
	wait, said, jitter := first, "", clock.NewJitter("session", s.Self())
	for ctx.Err() == nil {
		began := s.now()
		err := s.converse(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.now()-began > s.cfg.Lease {
			wait, said = first, ""
		}
		// A fault that lasts is logged once.
		if err.Error() != said && !errors.Is(err, errNoLeader) && !errors.Is(err, protocol.ErrNotLeader) {
			said = err.Error()
			s.cfg.Logger.Warn("no session with the leader of the cluster; what this host holds stays", "host", s.Self(), "error", err)
		}
		timer := time.NewTimer(wait + jitter.Below(wait))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.elected: // this process
		}
		timer.Stop()
		wait = min(2*wait, clock.RenewEvery(s.cfg.Lease)/2)
	}
}

// converse finds the leader, opens a session and performs it until it ends.
func (s *Service) converse(ctx context.Context) error {
	leader, epoch, err := s.findLeader(ctx)
	if err != nil {
		return err
	}
	s.seek(epoch)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var stream protocol.Stream
	if t := s.term.Load(); t != nil && t.lease.Epoch == epoch {
		stream = protocol.Pipe(ctx, s.Serve)
	} else if leader.ID == s.Self() {
		return errNoLeader // not any more, or not yet
	} else if s.cfg.Dial == nil {
		return fmt.Errorf("host %s leads, and this process cannot reach others: Config.Dial is nil", leader.ID)
	} else if stream, err = s.cfg.Dial(ctx, leader); err != nil {
		return fmt.Errorf("dial the leader %s at %s: %w", leader.ID, leader.Address, err)
	}
	defer func() { _ = stream.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer stop()

	ss := &session{ctx: ctx, end: end, out: protocol.NewOutbox[*greenroomv1.ReportActorTypesRequest]()}
	var sending sync.WaitGroup
	sending.Go(func() {
		if err := ss.out.Send(ctx, stream.Send); err != nil {
			end(fmt.Errorf("send to the leader: %w", err))
		}
	})
	defer sending.Wait()
	defer end(errors.New("the session is over"))
	if !s.connect(ss, leader, epoch) {
		return fmt.Errorf("the leader %s of epoch %d is of the past", leader.ID, epoch)
	}
	defer s.disconnected(ss)
	sending.Go(func() { s.reportTypes(ctx, ss) })
	sending.Go(func() { s.heartbeats(ctx, ss) })
	if s.cfg.hosts() {
		sending.Go(func() { s.reportHeat(ctx, ss) })
	}
	silent := time.AfterFunc(s.cfg.Lease, func() { end(errors.New("the leader is silent")) })
	defer silent.Stop()
	for {
		m, err := stream.Receive()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("session with the leader %s: %w", leader.ID, err)
		}
		silent.Reset(s.cfg.Lease)
		s.receive(ctx, ss, m)
	}
}

// findLeader asks the store who leads, and where that is.
func (s *Service) findLeader(ctx context.Context) (actor.Host, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Lease)
	defer cancel()
	l, found, err := s.cfg.Store.Lease(ctx, leaderLease)
	switch {
	case err != nil:
		return actor.Host{}, 0, err
	case !found:
		return actor.Host{}, 0, errNoLeader
	}
	if h, known := s.view.Load().members[l.Holder]; known {
		return h, l.Epoch, nil
	}
	hosts, _, err := s.cfg.Store.Hosts(ctx)
	if err != nil {
		return actor.Host{}, 0, err
	}
	if i := slices.IndexFunc(hosts, func(h actor.Host) bool { return h.ID == l.Holder }); i >= 0 {
		return hosts[i], l.Epoch, nil
	}
	return actor.Host{}, 0, errNoLeader // it has left, or was cleared
}

// connect begins the session: it sends the hello, the types, and all claims.
func (s *Service) connect(ss *session, leader actor.Host, epoch uint64) bool {
	var types []protocol.Type
	if s.cfg.Types != nil {
		types = s.cfg.Types()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next, owned, ok := s.member.Connect(epoch)
	if !ok {
		return false
	}
	ss.Session, s.session = next, ss
	s.leader = Leadership{Leader: leader.ID, Epoch: epoch, Here: leader.ID == s.self.ID, Connected: true}
	send := func(m *greenroomv1.ReportActorTypesRequest) { ss.out.Put(m) }
	send(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Hello{Hello: &greenroomv1.SchedulerHello{
		Cluster: s.self.Cluster, HostId: string(s.self.ID), Session: next.Number, Epoch: epoch,
		MinProtocol: uint32(s.self.MinProtocol), MaxProtocol: uint32(s.self.MaxProtocol), Draining: s.draining != "", //nolint:gosec // small
		LeaseMs: uint32(s.cfg.Lease.Milliseconds()), Processors: uint32(s.cfg.Resources.Processors), MemoryBytes: uint64(s.cfg.Resources.Memory), //nolint:gosec // small, or above 0
		Weight: s.cfg.Resources.Weight,
	}}})
	send(protocol.ToTypes(types))
	s.holdings.Connect(types)
	for _, c := range s.holdings.Claims(s.now()) {
		for _, claims := range protocol.ToClaims(c, min(leader.MaxProtocol, s.self.MaxProtocol)) {
			send(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_RangeClaims{RangeClaims: claims}})
		}
	}
	for _, actors := range protocol.ToSticky(owned) {
		send(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_StickyClaims{StickyClaims: &greenroomv1.StickyClaimsReport{Actors: actors}}})
	}
	send(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_StickyClaims{StickyClaims: &greenroomv1.StickyClaimsReport{Complete: true}}})
	for key, a := range s.asked {
		s.ask(key, a)
	}
	return true
}

// endSession makes a session end soon. The caller has the lock.
func (s *Service) endSession(why error) {
	if s.session != nil {
		s.session.end(why)
	}
}

// disconnected ends a session. What was being handed over is held again.
func (s *Service) disconnected(ss *session) {
	ss.end(errors.New("the session is over"))
	select {
	case s.leaderless <- struct{}{}: // perhaps: whoever may lead looks
	default:
	}
	s.mu.Lock()
	s.session = nil // nothing new is handed over
	if ss.met {
		s.search.ended(s.now())
	} else {
		s.search.looked(s.now())
	}
	s.leader.Connected = false
	s.member.Disconnect(ss.Session)
	for id, to := range s.queries {
		close(to)
		delete(s.queries, id)
	}
	s.mu.Unlock()
	ss.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.self.ID == ss.Host {
		s.holdings.Resume(s.now())
		s.publish(false)
	}
}

// ask asks the leader for a sticky actor, if there is a session. The caller has the lock.
func (s *Service) ask(key actor.Key, a *acquisition) {
	if s.session == nil {
		return
	}
	if _, ok := s.member.Ask(key); !ok {
		return
	}
	s.session.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Acquisition{Acquisition: &greenroomv1.StickyAcquisition{
		CorrelationId: a.id, App: key.App, Type: key.Type, Id: key.ID,
	}}})
}

// reportTypes tells the leader which types this host can run, when that changes.
func (s *Service) reportTypes(ctx context.Context, ss *session) {
	if s.cfg.Types == nil {
		return
	}
	known := map[protocol.TypeName]protocol.Type{} // what was sent with the claims may be older by now
	timer := time.NewTicker(clock.RenewEvery(s.cfg.Lease) / 2)
	defer timer.Stop()
	for {
		types := s.cfg.Types()
		now := make(map[protocol.TypeName]protocol.Type, len(types))
		for _, t := range types {
			now[t.TypeName()] = t
		}
		if !maps.Equal(now, known) {
			ss.out.Put(protocol.ToTypes(types))
			known = now
			s.mu.Lock()
			if s.session == ss {
				s.holdings.Reports(now)
			}
			s.publish(false) // calls may wait for another deployment
			s.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.kick:
			if !clock.Pause(ctx, time.Millisecond) { // many calls may ask for it
				return
			}
		}
	}
}

// readTypes reads what another host knows already of an app's types, and has it reported.
func (s *Service) readTypes(ctx context.Context, app string) {
	if err := s.cfg.ReadTypes(ctx, app); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("newer deployments cannot be read now", "app", app, "error", err)
		return
	}
	s.TypesChanged()
}

// heartbeats find out that the leader is there.
func (s *Service) heartbeats(ctx context.Context, ss *session) {
	for clock.Pause(ctx, clock.RenewEvery(s.cfg.Lease)) {
		ss.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Heartbeat{Heartbeat: &greenroomv1.SchedulerHeartbeat{}}})
	}
}

// receive takes a message of the leader.
func (s *Service) receive(ctx context.Context, ss *session, m *greenroomv1.ReportActorTypesResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != ss || s.self.ID != ss.Host {
		return
	}
	ss.met = true
	switch m := m.GetMessage().(type) {
	case *greenroomv1.ReportActorTypesResponse_Members:
		s.newMembers(m.Members)
	case *greenroomv1.ReportActorTypesResponse_Order:
		s.order(ctx, ss, protocol.FromOrder(m.Order))
	case *greenroomv1.ReportActorTypesResponse_Orders:
		orders := make([]protocol.Order, len(m.Orders.GetOrders()))
		for i, o := range m.Orders.GetOrders() {
			orders[i] = protocol.FromOrder(o)
		}
		s.order(ctx, ss, orders...)
	case *greenroomv1.ReportActorTypesResponse_Acquisition:
		s.answered(ss, m.Acquisition)
	case *greenroomv1.ReportActorTypesResponse_Refusal:
		s.refused(ctx, ss, protocol.FromSticky(m.Refusal.GetActors()))
	case *greenroomv1.ReportActorTypesResponse_Drain:
		life := s.drainContext // also when the session ends
		s.loops.Go(func() { _ = s.Drain(life, m.Drain.GetReason()) })
	case *greenroomv1.ReportActorTypesResponse_TypesOutdated:
		if s.cfg.ReadTypes != nil {
			for _, app := range m.TypesOutdated.GetApps() {
				ss.work.Go(func() { s.readTypes(ctx, app) })
			}
		}
	case *greenroomv1.ReportActorTypesResponse_Answer:
		if to := s.queries[m.Answer.GetCorrelationId()]; to != nil {
			delete(s.queries, m.Answer.GetCorrelationId())
			to <- answerOrEnd{m.Answer}
		}
	}
}

// newMembers takes over who is a member. The caller has the lock, as everywhere below.
func (s *Service) newMembers(m *greenroomv1.ClusterMembers) {
	members, drains := map[actor.HostID]actor.Host{s.self.ID: s.self}, map[actor.HostID]bool{}
	for _, member := range m.GetMembers() {
		h := protocol.FromMember(member)
		if h.ID == s.self.ID {
			continue // which knows itself
		}
		members[h.ID] = h
		drains[h.ID] = member.GetDraining()
	}
	s.members, s.drains = members, drains
	s.publish(false)
}

// order performs orders of the leader that came together.
func (s *Service) order(ctx context.Context, ss *session, orders ...protocol.Order) {
	orders = slices.DeleteFunc(orders, func(o protocol.Order) bool { return o.Kind == 0 || o.Group == 0 && len(o.Types) == 0 }) // of a newer protocol
	movings := make([]assignment.Moving, len(orders))
	for i, o := range orders {
		movings[i] = s.holdings.Order(o, s.now())
	}
	s.publish(false)
	for i, o := range orders {
		s.perform(ctx, ss, o, movings[i])
	}
}

// perform does what an order asks for beside what [assignment.Holdings] makes of it.
func (s *Service) perform(ctx context.Context, ss *session, o protocol.Order, moving assignment.Moving) {
	switch o.Kind {
	case protocol.Unlock:
		if placement.IsCheckout(o.Policy) {
			s.kickCheckout()
		}
		if moving.Arrived > 0 {
			s.cfg.Logger.Debug("ranges have arrived at other hosts", "types", o.About(), "ranges", moving.Arrived, "paused", moving.Paused.Round(time.Microsecond).String())
			if s.cfg.Events.RangesMoved != nil {
				s.cfg.Events.RangesMoved(moving.Arrived, moving.Paused)
			}
		}
	case protocol.Update:
		ss.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Updated{Updated: protocol.ToUpdated(o)}})
	case protocol.Lock:
		// A sticky type's ranges say who acquires: its actors stay where they are.
		switch {
		case len(moving.Ranges) == 0 && !o.WithSticky:
			ss.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Released{Released: protocol.ToReleased(o, nil)}})
		case o.Policy == abi.PlacementSticky && !o.WithSticky:
			s.released(ss, moving)
		default:
			ss.work.Go(func() { s.handOver(ctx, ss, moving) })
		}
	}
}

// handOver ends what moves and tells the leader, unless the session ends before.
func (s *Service) handOver(ctx context.Context, ss *session, moving assignment.Moving) {
	if !moving.Order.WithSticky {
		if s.ended(ctx, func(key actor.Key) bool { return moving.Contains(ss.Host, key) }) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.released(ss, moving)
		}
		return
	}
	// A step that began before may still take partitions, and then finds that it must not.
	select {
	case s.checkouts.step <- struct{}{}:
		<-s.checkouts.step
	case <-ctx.Done():
		return // the session is over
	}
	if !s.ended(ctx, moving.Concerns) {
		return
	}
	for _, name := range moving.Types() {
		s.checkInAll(ctx, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != ss {
		return
	}
	var keys []actor.Key
	for _, key := range s.member.Owned() {
		if moving.Concerns(key) {
			keys = append(keys, key)
		}
	}
	s.release(keys)
	s.released(ss, moving)
}

// ended has the activations of some actors ended, and of those whose place they are, and
// reports false if ctx ends first. It is called without the lock.
func (s *Service) ended(ctx context.Context, moving func(actor.Key) bool) bool {
	if s.cfg.Actors == nil {
		return true
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := s.cfg.Actors.HandOver(ctx, func(key actor.Key) bool {
			place := s.view.Load().placeKey(key)
			return moving(key) || place != key && moving(place)
		})
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			s.cfg.Logger.Warn("actors that move were not handed over", "error", err)
		}
		if !clock.Pause(ctx, wait) {
			return false
		}
	}
}

// released tells the leader that nothing of what moves is left here.
func (s *Service) released(ss *session, moving assignment.Moving) {
	if s.session != ss {
		return
	}
	moving = s.holdings.HandedOver(moving, s.now())
	s.publish(false)
	if len(moving.Ranges) > 0 {
		took := s.now() - moving.Since
		s.cfg.Logger.Debug("ranges were handed over", "types", moving.Order.About(), "version", moving.Order.Version, "ranges", len(moving.Ranges), "took", took.Round(time.Microsecond).String())
		if s.cfg.Events.HandedOver != nil {
			s.cfg.Events.HandedOver(took)
		}
	}
	ss.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Released{Released: protocol.ToReleased(moving.Order, moving.Ranges)}})
}

// release gives up sticky actors that have no activation left on this host.
func (s *Service) release(keys []actor.Key) {
	told := keys[:0]
	for _, key := range keys {
		if _, ok := s.member.Release(key); ok {
			told = append(told, key)
		}
		s.owned.remove(key)
	}
	if s.session != nil {
		for _, actors := range protocol.ToSticky(told) {
			s.session.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Release{Release: &greenroomv1.StickyRelease{Actors: actors}}})
		}
	}
	if s.cfg.Events.StickyReleased != nil && len(keys) > 0 {
		s.cfg.Events.StickyReleased(len(keys))
	}
}

// answered takes the answer to an acquisition.
func (s *Service) answered(ss *session, m *greenroomv1.StickyAcquisitionResponse) {
	key, found := s.asking[m.GetCorrelationId()]
	if !found {
		return
	}
	a := s.asked[key]
	delete(s.asking, a.id)
	delete(s.asked, key)
	defer close(a.done)
	if s.mayAsk != nil && len(s.asked) <= maxAsked*3/4 { // not one by one: all that wait look again
		close(s.mayAsk)
		s.mayAsk = nil
	}
	if m.GetGranted() {
		if s.member.Granted(ss.Session, key, s.now()) {
			s.owned.add(key)
			if s.owned.count.Load() > int64(s.cfg.MaxOwned) {
				s.releaseSome()
			}
		}
	} else {
		s.member.Refused(ss.Session, key)
		if owner := actor.HostID(m.GetOwner()); owner != "" && owner != s.self.ID {
			s.owners.Add(key, owner)
		}
	}
	if s.cfg.Events.StickyAcquired != nil {
		s.cfg.Events.StickyAcquired(m.GetGranted(), s.now()-a.since)
	}
}

// releaseSome gives up the sticky actors that were not used for the longest time: what
// is too much, and one in 64 of those that this host may own.
func (s *Service) releaseSome() {
	ss := s.session
	if ss == nil || s.releasing {
		return
	}
	excess := max(0, int(s.owned.count.Load())-s.cfg.MaxOwned)
	leaving := s.owned.leastUsed(excess + s.cfg.MaxOwned/64)
	if len(leaving) == 0 {
		return // all of them leave already, for another reason
	}
	s.releasing = true
	s.giveUp(ss, leaving, func() {
		s.releasing = false
		if s.session == ss && s.owned.count.Load() > int64(s.cfg.MaxOwned) {
			s.releaseSome() // more have come meanwhile
		}
	})
}

// giveUp hands sticky actors over that were marked as leaving, and releases them; if it
// cannot, they stay.
func (s *Service) giveUp(ss *session, leaving map[actor.Key]*ownedActor, then func()) {
	ss.work.Go(func() {
		ended := s.ended(ss.ctx, func(key actor.Key) bool { return leaving[key] != nil })
		s.mu.Lock()
		defer s.mu.Unlock()
		defer then()
		if !ended || s.session != ss {
			for _, a := range leaving {
				a.leaving.Store(false)
			}
			s.publish(false)
			return
		}
		s.release(slices.Collect(maps.Keys(leaving)))
		s.publish(false)
	})
}

// refused gives up actors that this host claimed and another owns, which is a bug
// somewhere, or a leader's that trusted a clock too far.
func (s *Service) refused(_ context.Context, ss *session, keys []actor.Key) {
	s.cfg.Logger.Error("another host owns sticky actors that this one claims: it gives them up", "host", s.self.ID, "actors", len(keys))
	leaving := map[actor.Key]*ownedActor{}
	for _, key := range keys {
		if a := s.owned.get(key); a != nil {
			a.leaving.Store(true)
			leaving[key] = a
		}
	}
	s.giveUp(ss, leaving, func() {})
}
