package cluster

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// leaderSpec says how many actors to grant, and what their IDs look like.
type leaderSpec struct {
	Entries  int
	IDFormat string // of one number
}

// asking is the leader's end of a session with a host that says what it must, and then
// asks for one sticky actor after the other. Messages are encoded and decoded, as
// between processes.
type asking struct {
	ctx   context.Context //nolint:containedctx // the session's
	spec  leaderSpec
	words chan *greenroomv1.ReportActorTypesRequest // beside acquisitions
	ready chan error                                // has a value when it holds its ranges
	begin chan struct{}                             // closed when it may ask
	done  chan error                                // has a value when all was granted

	asked, granted int
	updated        bool // it has been given its ranges
}

func newAsking(ctx context.Context, s leaderSpec) *asking {
	return &asking{ctx: ctx, spec: s, words: make(chan *greenroomv1.ReportActorTypesRequest, 16), ready: make(chan error, 1), begin: make(chan struct{}), done: make(chan error, 1)}
}

// greet has the session begin.
func (a *asking) greet(self actor.Host, epoch uint64) {
	a.words <- &greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Hello{Hello: &greenroomv1.SchedulerHello{
		Cluster: self.Cluster, HostId: string(self.ID), Session: 1, Epoch: epoch,
		MinProtocol: uint32(self.MinProtocol), MaxProtocol: uint32(self.MaxProtocol), //nolint:gosec // small
	}}}
	a.words <- &greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Types{Types: &greenroomv1.ActorTypesReport{
		Types: []*greenroomv1.HostedType{{App: actor.DefaultApp, Type: "Counter", Placement: abi.PlacementSticky, Generation: 1}},
	}}}
	a.words <- &greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_StickyClaims{StickyClaims: &greenroomv1.StickyClaimsReport{Complete: true}}}
}

// Receive implements [scheduler.ServerStream].
func (a *asking) Receive() (*greenroomv1.ReportActorTypesRequest, error) {
	select {
	case m := <-a.words:
		return m, nil
	default:
	}
	select {
	case m := <-a.words:
		return m, nil
	case <-a.ctx.Done():
		return nil, io.EOF
	case <-a.begin:
	}
	if a.asked == a.spec.Entries {
		<-a.ctx.Done()
		return nil, io.EOF
	}
	a.asked++
	text, err := proto.Marshal(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Acquisition{Acquisition: &greenroomv1.StickyAcquisition{
		CorrelationId: uint64(a.asked), App: actor.DefaultApp, Type: "Counter", Id: fmt.Sprintf(a.spec.IDFormat, a.asked), //nolint:gosec // positive
	}}})
	if err != nil {
		return nil, err
	}
	m := &greenroomv1.ReportActorTypesRequest{}
	return m, proto.Unmarshal(text, m)
}

func (a *asking) Send(m *greenroomv1.ReportActorTypesResponse) error {
	switch m := m.GetMessage().(type) {
	case *greenroomv1.ReportActorTypesResponse_Orders:
		for _, o := range m.Orders.GetOrders() {
			a.obey(o)
		}
	case *greenroomv1.ReportActorTypesResponse_Acquisition:
		if !m.Acquisition.GetGranted() {
			a.done <- fmt.Errorf("the leader refused acquisition %d", m.Acquisition.GetCorrelationId())
			return io.EOF
		}
		if a.granted++; a.granted == a.spec.Entries {
			a.done <- nil
		}
	}
	text, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return proto.Unmarshal(text, &greenroomv1.ReportActorTypesResponse{})
}

// obey performs an order. No order takes time. The host holds its ranges when the leader has
// answered its update.
func (a *asking) obey(o *greenroomv1.PlacementOrder) {
	switch o.GetKind() {
	case greenroomv1.PlacementOrder_KIND_LOCK:
		a.words <- &greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Released{Released: &greenroomv1.RangesReleased{
			Version: o.GetVersion(), Ranges: o.GetRanges(),
		}}}
	case greenroomv1.PlacementOrder_KIND_UPDATE:
		a.words <- &greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Updated{Updated: &greenroomv1.RangesUpdated{
			Version: o.GetVersion(),
		}}}
		a.updated = true
	case greenroomv1.PlacementOrder_KIND_UNLOCK:
		if !a.updated {
			return
		}
		select {
		case a.ready <- nil:
		default:
		}
	}
}
