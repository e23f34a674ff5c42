package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/leader"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// follower keeps a session with the leader, and performs its orders.
type follower struct {
	*member
	registration *registration
	sticky       *sticky
	checkouts    *checkouts
	drainer      *drainer
	elector      *leader.Elector
}

// findLeader asks the store who leads, and where that is.
func (f *follower) findLeader(ctx context.Context) (actor.Host, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Lease)
	defer cancel()
	l, found, err := f.cfg.Store.Lease(ctx, leader.LeaseName)
	switch {
	case err != nil:
		return actor.Host{}, 0, err
	case !found:
		return actor.Host{}, 0, errNoLeader
	}
	if h, known := f.view.Load().members[l.Holder]; known {
		return h, l.Epoch, nil
	}
	hosts, _, err := f.cfg.Store.Hosts(ctx)
	if err != nil {
		return actor.Host{}, 0, err
	}
	if i := slices.IndexFunc(hosts, func(h actor.Host) bool { return h.ID == l.Holder }); i >= 0 {
		return hosts[i], l.Epoch, nil
	}
	return actor.Host{}, 0, errNoLeader // it has left, or was cleared
}

// connect begins the session: it sends the hello, the types, and all claims.
func (f *follower) connect(ss *session, to actor.Host, epoch uint64) bool {
	var types []protocol.Type
	if f.cfg.Types != nil {
		types = f.cfg.Types()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	next, owned, ok := f.ownership.Connect(epoch)
	if !ok {
		return false
	}
	ss.Session, f.session = next, ss
	f.leader = Leadership{Leader: to.ID, Epoch: epoch, Here: to.ID == f.self.ID, Connected: true}
	send := func(m *greenroomv1.ReportActorTypesRequest) { ss.out.Put(m) }
	send(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Hello{Hello: &greenroomv1.SchedulerHello{
		Cluster: f.self.Cluster, HostId: string(f.self.ID), Session: next.Number, Epoch: epoch,
		MinProtocol: uint32(f.self.MinProtocol), MaxProtocol: uint32(f.self.MaxProtocol), Draining: f.draining != "", //nolint:gosec // small
		LeaseMs: uint32(f.cfg.Lease.Milliseconds()), Processors: uint32(f.cfg.Resources.Processors), MemoryBytes: uint64(f.cfg.Resources.Memory), //nolint:gosec // small, or above 0
		Weight: f.cfg.Resources.Weight,
	}}})
	send(protocol.ToTypes(types))
	f.holdings.Connect(types)
	for _, c := range f.holdings.Claims(f.now()) {
		for _, claims := range protocol.ToClaims(c, min(to.MaxProtocol, f.self.MaxProtocol)) {
			send(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_RangeClaims{RangeClaims: claims}})
		}
	}
	for _, actors := range protocol.ToSticky(owned) {
		send(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_StickyClaims{StickyClaims: &greenroomv1.StickyClaimsReport{Actors: actors}}})
	}
	send(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_StickyClaims{StickyClaims: &greenroomv1.StickyClaimsReport{Complete: true}}})
	for key, a := range f.sticky.asked {
		f.sticky.ask(key, a)
	}
	return true
}

// disconnected ends a session. What was being handed over is held again.
func (f *follower) disconnected(ss *session) {
	ss.end(errors.New("the session is over"))
	f.elector.SessionEnded()
	f.mu.Lock()
	f.session = nil // nothing new is handed over
	if ss.met {
		f.registration.search.ended(f.now())
	} else {
		f.registration.search.last = f.now()
	}
	f.leader.Connected = false
	f.ownership.Disconnect(ss.Session)
	for _, to := range ss.queries {
		close(to)
	}
	f.mu.Unlock()
	ss.work.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.self.ID == ss.Host {
		f.holdings.Resume(f.now())
		f.publish(false)
	}
}

// reportTypes reports to the leader which types this host can run, whenever that changes.
func (f *follower) reportTypes(ctx context.Context, ss *session) {
	if f.cfg.Types == nil {
		return
	}
	known := map[protocol.TypeName]protocol.Type{} // what was sent with the claims may be older by now
	timer := time.NewTicker(clock.RenewEvery(f.cfg.Lease) / 2)
	defer timer.Stop()
	for {
		types := f.cfg.Types()
		now := make(map[protocol.TypeName]protocol.Type, len(types))
		for _, t := range types {
			now[t.TypeName()] = t
		}
		if !maps.Equal(now, known) {
			ss.out.Put(protocol.ToTypes(types))
			known = now
			f.mu.Lock()
			if f.session == ss {
				f.holdings.Reports(now)
			}
			f.publish(false) // calls may wait for another deployment
			f.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-f.typesChanged:
			if !clock.Pause(ctx, time.Millisecond) { // many calls may ask for it
				return
			}
		}
	}
}

// readTypes reads what another host knows already of an app's types, and has it reported.
func (f *follower) readTypes(ctx context.Context, app string) {
	if err := f.cfg.ReadTypes(ctx, app); err != nil && ctx.Err() == nil {
		f.cfg.Logger.Warn("newer deployments cannot be read now", "app", app, "error", err)
		return
	}
	f.TypesChanged()
}

// reportHeat reports to the leader what this host is asked for.
func (f *follower) reportHeat(ctx context.Context, ss *session) {
	last := f.now()
	for first := true; clock.Pause(ctx, f.cfg.HeatEvery); first = false {
		now, view := f.now(), f.view.Load()
		report := &greenroomv1.HeatReport{}
		for name := range view.types {
			t, c := view.of(name.App, name.Type)
			if total, cells := c.take(now-last, t != nil && placement.IsRing(t.Policy)); total > 0 {
				report.Types = append(report.Types, protocol.ToHeat(name, "", total, cells))
			}
		}
		last = now
		if !first { // that may have calls of the time between sessions
			ss.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Heat{Heat: report}})
		}
	}
}
