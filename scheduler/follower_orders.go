package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// receive takes a message of the leader.
func (f *follower) receive(ctx context.Context, ss *session, m *greenroomv1.ReportActorTypesResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != ss || f.self.ID != ss.Host {
		return
	}
	ss.met = true
	switch m := m.GetMessage().(type) {
	case *greenroomv1.ReportActorTypesResponse_Members:
		f.setMembers(m.Members.GetMembers())
	case *greenroomv1.ReportActorTypesResponse_Order:
		f.order(ctx, ss, protocol.FromOrder(m.Order))
	case *greenroomv1.ReportActorTypesResponse_Orders:
		orders := make([]protocol.Order, len(m.Orders.GetOrders()))
		for i, o := range m.Orders.GetOrders() {
			orders[i] = protocol.FromOrder(o)
		}
		f.order(ctx, ss, orders...)
	case *greenroomv1.ReportActorTypesResponse_Acquisition:
		f.sticky.answered(ss, m.Acquisition)
	case *greenroomv1.ReportActorTypesResponse_Refusal:
		f.sticky.refused(ss, protocol.FromSticky(m.Refusal.GetActors()))
	case *greenroomv1.ReportActorTypesResponse_Drain:
		f.loops.Go(func() { _ = f.drainer.Drain(f.ctx, m.Drain.GetReason()) })
	case *greenroomv1.ReportActorTypesResponse_TypesOutdated:
		if f.cfg.ReadTypes != nil {
			for _, app := range m.TypesOutdated.GetApps() {
				ss.work.Go(func() { f.readTypes(ctx, app) })
			}
		}
	case *greenroomv1.ReportActorTypesResponse_Answer:
		if to := ss.queries[m.Answer.GetCorrelationId()]; to != nil {
			delete(ss.queries, m.Answer.GetCorrelationId())
			to <- answerOrEnd{m.Answer}
		}
	}
}

// order performs orders of the leader that came together. The caller has the lock.
func (f *follower) order(ctx context.Context, ss *session, orders ...protocol.Order) {
	orders = slices.DeleteFunc(orders, func(o protocol.Order) bool { return o.Kind == 0 || o.Group == 0 && len(o.Types) == 0 }) // of a newer protocol
	movings := make([]assignment.Moving, len(orders))
	for i, o := range orders {
		movings[i] = f.holdings.Order(o, f.now())
	}
	f.publish(false)
	for i, o := range orders {
		f.perform(ctx, ss, o, movings[i])
	}
}

// perform does what an order asks for beside what [assignment.Holdings] makes of it.
func (f *follower) perform(ctx context.Context, ss *session, o protocol.Order, moving assignment.Moving) {
	switch o.Kind {
	case protocol.Unlock:
		if placement.IsCheckout(o.Policy) {
			f.checkouts.kick()
		}
		if moving.Arrived > 0 {
			f.cfg.Logger.Debug("ranges have arrived at other hosts", "types", o.About(), "ranges", moving.Arrived, "paused", moving.Paused.Round(time.Microsecond).String())
			if f.cfg.Events.RangesMoved != nil {
				f.cfg.Events.RangesMoved(moving.Arrived, moving.Paused)
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
			f.released(ss, moving)
		default:
			ss.work.Go(func() { f.handOver(ctx, ss, moving) })
		}
	}
}

// handOver ends what moves and reports it to the leader, unless the session ends before.
func (f *follower) handOver(ctx context.Context, ss *session, moving assignment.Moving) {
	if !moving.Order.WithSticky {
		if f.endActivations(ctx, func(key actor.Key) bool { return moving.Contains(ss.Host, key) }) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.released(ss, moving)
		}
		return
	}
	if !f.checkouts.awaitStep(ctx) || !f.endActivations(ctx, moving.Concerns) {
		return
	}
	for _, name := range moving.Types() {
		f.checkouts.checkInAll(ctx, name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != ss {
		return
	}
	var keys []actor.Key
	for _, key := range f.ownership.Owned() {
		if moving.Concerns(key) {
			keys = append(keys, key)
		}
	}
	f.sticky.release(keys)
	f.released(ss, moving)
}

// released reports to the leader that nothing of what moves is left here. The caller has the
// lock.
func (f *follower) released(ss *session, moving assignment.Moving) {
	if f.session != ss {
		return
	}
	moving = f.holdings.HandedOver(moving, f.now())
	f.publish(false)
	if len(moving.Ranges) > 0 {
		took := f.now() - moving.Since
		f.cfg.Logger.Debug("ranges were handed over", "types", moving.Order.About(), "version", moving.Order.Version, "ranges", len(moving.Ranges), "took", took.Round(time.Microsecond).String())
		if f.cfg.Events.HandedOver != nil {
			f.cfg.Events.HandedOver(took)
		}
	}
	ss.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Released{Released: protocol.ToReleased(moving.Order, moving.Ranges)}})
}
