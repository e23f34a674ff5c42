package routing

import (
	"context"
	"errors"
	"net"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
)

// HeaderOwner names, with an error of the kind not_owner, the host that holds the actor.
const HeaderOwner = "Greenroom-Owner"

func (p *peer) delete(ctx context.Context, key actor.Key, refusedBy actor.HostID) error {
	req := &greenroomv1.ExchangeDeleteRequest{Hello: p.hello(), Actor: protoKey(key)}
	if p.protocol >= protocolCaller {
		req.RefusedBy = string(refusedBy)
	}
	_, err := ask(ctx, p, p.unary.Delete, req)
	if err = p.unaryError(ctx, key, err); errors.As(err, new(*lostError)) {
		err = &actor.TurnError{Key: key, Err: actor.ErrAmbiguous}
	}
	return err
}

func (p *peer) view(ctx context.Context, key actor.Key) (host.View, error) {
	res, err := ask(ctx, p, p.unary.View, &greenroomv1.ExchangeViewRequest{Hello: p.hello(), Actor: protoKey(key)})
	if err != nil {
		return host.View{}, p.unaryError(ctx, key, err)
	}
	a := res.GetActor()
	v := host.View{
		Key: key, Version: a.GetVersion(), Generation: a.GetGeneration(), StateSchema: a.GetStateSchema(),
		StateSize: a.GetStateSize(), UpdatedAt: a.GetUpdatedAt().AsTime(), Active: a.GetActive(), QueueDepth: int(a.GetQueueDepth()),
	}
	for _, t := range a.GetTimers() {
		timer := actor.Timer{Due: t.GetDue().AsTime(), Left: t.GetLeft()}
		timer.Key, timer.Name, timer.Method, timer.Schedule.Every = key, t.GetName(), t.GetMethod(), t.GetEvery().AsDuration()
		v.Timers = append(v.Timers, timer)
	}
	for _, e := range res.GetEntries() {
		format := abi.FormatBytes
		if e.GetJson() {
			format = abi.FormatJSON
		}
		v.Entries = append(v.Entries, envelope.Entry{Key: e.GetKey(), Value: e.GetValue(), Format: format})
	}
	return v, nil
}

// ask makes a unary call to a peer, as this host, and in the trace of ctx.
func ask[Req, Res any](ctx context.Context, p *peer, call func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), msg *Req) (*Res, error) {
	req := connect.NewRequest(msg)
	p.authorize(req.Header())
	if parent, state := actor.TraceOf(ctx).Headers(); parent != "" {
		req.Header().Set("Traceparent", parent)
		if state != "" {
			req.Header().Set("Tracestate", state)
		}
	}
	res, err := call(ctx, req)
	if err != nil {
		return nil, err
	}
	return res.Msg, nil
}

func protoKey(k actor.Key) *greenroomv1.ActorKey {
	return &greenroomv1.ActorKey{App: k.App, Type: k.Type, Id: k.ID}
}

// unaryError converts the error of a unary call into the outcome of the call.
func (p *peer) unaryError(ctx context.Context, key actor.Key, err error) error {
	if err == nil {
		return nil
	}
	var wire *connect.Error
	if detail := detailOf(err); detail != nil && errors.As(err, &wire) {
		if detail.GetKind() == string(actor.ErrNotOwner.Kind()) {
			return &NotOwnerError{Owner: actor.HostID(wire.Meta().Get(HeaderOwner))}
		}
		if kind := detail.GetKind(); kind == kindPermissionDenied || kind == kindUnauthenticated {
			// The peer does not let this host in, or is another incarnation than the one that
			// was meant, as for a session that is not opened: what users may do was checked here.
			return &unsentError{"its host cannot be reached: " + wire.Message()}
		}
		return &RemoteError{Code: uint32(wire.Code()), Message: wire.Message(), Detail: detail} //nolint:gosec // a code
	}
	if ctx.Err() != nil {
		return &actor.TurnError{Key: key, Err: contextError(ctx)}
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" || isTLSError(err) {
		return &unsentError{"its host cannot be reached: " + explain(err, p.self.cfg.Cluster).Error()}
	}
	return &lostError{err}
}
