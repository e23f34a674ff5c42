package leader

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

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
