package server

import (
	"context"
	"errors"
	"io"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server/stream"
)

// interconnect is InterconnectService: what other hosts of the cluster call.
type interconnect struct {
	s    *Server
	conf *stream.Config // of all channels; each has a Host of its own
}

var _ greenroomv1connect.InterconnectServiceHandler = (*interconnect)(nil)

// peerMessage bounds a message between hosts, beside what all messages may have: a
// payload that one host has admitted is not refused by another one of lower limits here,
// but there.
const peerMessage = 64 << 20

// peerServices registers what only hosts speak.
func (s *Server) peerServices() []service {
	peers := s.conf.Peers
	if peers == nil {
		return nil
	}
	conf := s.newStreamConfig()
	// Calls of peers never wait for the memory that clients' calls hold: those may wait
	// for calls that went to the same peers.
	conf.Memory = stream.NewMemory(s.conf.MaxStreamsBytes)
	opts := append(s.streamOptions(peerMessage, errMessageTooLarge(peerMessage)), connect.WithReadMaxBytes(peerMessage))
	_, h := greenroomv1connect.NewInterconnectServiceHandler(&interconnect{s, conf}, opts...)
	channel := route{maxBody: unbounded, longLived: true, maxMessage: peerMessage, peer: true}
	var sv service
	sv.serve(RoleAdmin, channel, h, greenroomv1connect.InterconnectServiceExchangeProcedure)
	unary := smallRoute()
	unary.peer = true
	_, h = greenroomv1connect.NewInterconnectServiceHandler(&interconnect{s, conf}, s.handlerOptions(s.payloadRoute())...)
	sv.serve(RoleAdmin, unary, h, greenroomv1connect.InterconnectServiceDeleteProcedure, greenroomv1connect.InterconnectServiceViewProcedure, greenroomv1connect.InterconnectServiceReachProcedure,
		greenroomv1connect.InterconnectServiceReleaseRemindersProcedure, greenroomv1connect.InterconnectServiceNoticeRemindersProcedure)
	tail := streamRoute()
	tail.peer = true
	sv.serve(RoleAdmin, tail, h, greenroomv1connect.InterconnectServiceTailLogsProcedure)
	timer := route{maxBody: maxTimerMessage, bodyErr: errMessageTooLarge(actor.MaxReminderPayload), peer: true}
	sv.serve(RoleAdmin, timer, h, greenroomv1connect.InterconnectServiceTimerProcedure)
	for _, ps := range peers.Services {
		sv.serve(RoleAdmin, channel, ps.Handler, ps.Procedures...)
	}
	return []service{sv}
}

// Exchange implements InterconnectService.
func (i *interconnect) Exchange(ctx context.Context, bidi *connect.BidiStream[greenroomv1.ExchangeRequest, greenroomv1.ExchangeResponse]) error {
	x := exchangeOf(ctx)
	conn := &streamConn{x, bidi.Conn()}
	var first invokestream.Request
	if err := conn.Receive(&first); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	accepted, answer, err := i.s.conf.Peers.Interconnect.Accept(first.Hello)
	if err != nil {
		return err
	}
	if err := conn.Send(&invokestream.Response{Hello: answer}); err != nil {
		return err
	}
	conf := *i.conf
	conf.Host = accepted
	err = stream.Serve(ctx, &conf, stream.Peer{RequestID: x.id, Conn: conn, Edge: &peerEdge{x, accepted}})
	_ = x.control.SetWriteDeadline(i.s.bodyDeadline()) // of how the stream ended
	return err
}

// Delete implements InterconnectService.
func (i *interconnect) Delete(ctx context.Context, req *connect.Request[greenroomv1.ExchangeDeleteRequest]) (*connect.Response[greenroomv1.ExchangeDeleteResponse], error) {
	key := keyOf(req.Msg.GetActor())
	accepted, _, err := i.s.conf.Peers.Interconnect.Accept(req.Msg.GetHello())
	if err == nil {
		err = key.Validate()
	}
	if err == nil {
		accepted.NotHeldBy(key, actor.HostID(req.Msg.GetRefusedBy()))
		err = accepted.Delete(ctx, key)
	}
	if err != nil {
		return nil, i.withOwner(ctx, err)
	}
	return connect.NewResponse(&greenroomv1.ExchangeDeleteResponse{}), nil
}

// maxTimerMessage is above any message with a timer: base64 of its payload, and the rest.
const maxTimerMessage = 2 * actor.MaxReminderPayload

// Timer implements InterconnectService.
func (i *interconnect) Timer(ctx context.Context, req *connect.Request[greenroomv1.ExchangeTimerRequest]) (*connect.Response[greenroomv1.ExchangeTimerResponse], error) {
	key := keyOf(req.Msg.GetActor())
	accepted, _, err := i.s.conf.Peers.Interconnect.Accept(req.Msg.GetHello())
	if err == nil {
		err = key.Validate()
	}
	msg := &greenroomv1.ExchangeTimerResponse{}
	if err == nil {
		accepted.NotHeldBy(key, actor.HostID(req.Msg.GetRefusedBy()))
		if name := req.Msg.GetName(); req.Msg.GetRead() {
			var t actor.Timer
			if t, err = accepted.GetTimer(ctx, key, name); err == nil {
				now := time.Now()
				msg.Existed, msg.Timer, msg.Due, msg.Left = true, routing.EncodeTimer(&t.TimerSpec, now), durationpb.New(t.Due.Sub(now)), t.Left
			}
		} else {
			msg.Existed, err = accepted.Timer(ctx, key, name, routing.DecodeTimer(key, name, req.Msg.GetSet(), time.Now()))
		}
	}
	if err != nil {
		return nil, i.withOwner(ctx, err)
	}
	return connect.NewResponse(msg), nil
}

// View implements InterconnectService.
func (i *interconnect) View(ctx context.Context, req *connect.Request[greenroomv1.ExchangeViewRequest]) (*connect.Response[greenroomv1.ExchangeViewResponse], error) {
	key := keyOf(req.Msg.GetActor())
	accepted, _, err := i.s.conf.Peers.Interconnect.Accept(req.Msg.GetHello())
	if err == nil {
		err = key.Validate()
	}
	var v host.View
	if err == nil {
		v, err = accepted.View(ctx, key)
	}
	if err != nil {
		return nil, i.withOwner(ctx, err)
	}
	msg := &greenroomv1.ExchangeViewResponse{Actor: actorOf(v)}
	for _, e := range v.Entries {
		msg.Entries = append(msg.Entries, &greenroomv1.StateEntry{Key: e.Key, Value: e.Value, Json: e.Format == abi.FormatJSON})
	}
	return connect.NewResponse(msg), nil
}

// Reach implements InterconnectService.
func (i *interconnect) Reach(ctx context.Context, req *connect.Request[greenroomv1.ExchangeReachRequest]) (*connect.Response[greenroomv1.ExchangeReachResponse], error) {
	accepted, _, err := i.s.conf.Peers.Interconnect.Accept(req.Msg.GetHello())
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ExchangeReachResponse{Now: timestamppb.Now()}
	if ids := req.Msg.GetHostIds(); len(ids) > 0 {
		msg.Unreachable = unreachable(accepted.Unreached(ctx, hostIDs(ids)))
	}
	return connect.NewResponse(msg), nil
}

// TailLogs implements InterconnectService.
func (i *interconnect) TailLogs(ctx context.Context, req *connect.Request[greenroomv1.ExchangeTailRequest], stream *connect.ServerStream[greenroomv1.ExchangeTailResponse]) error {
	if _, _, err := i.s.conf.Peers.Interconnect.Accept(req.Msg.GetHello()); err != nil {
		return err
	}
	return i.s.conf.Logs.tail(ctx, req.Msg.GetTail(), func(m *greenroomv1.TailResponse) error {
		return stream.Send(&greenroomv1.ExchangeTailResponse{Tail: m})
	})
}

func hostIDs(ids []string) []actor.HostID {
	hosts := make([]actor.HostID, len(ids))
	for i, id := range ids {
		hosts[i] = actor.HostID(id)
	}
	return hosts
}

func unreachable(hosts []routing.Unreachable) []*greenroomv1.UnreachableHost {
	var all []*greenroomv1.UnreachableHost
	for _, u := range hosts {
		all = append(all, &greenroomv1.UnreachableHost{HostId: string(u.Host), Address: u.Address, Why: u.Why})
	}
	return all
}

// withOwner says who holds the actor, if that is why the error is.
func (i *interconnect) withOwner(ctx context.Context, err error) error {
	var notOwner *routing.NotOwnerError
	if !errors.As(err, &notOwner) {
		return err
	}
	wire := i.s.rpcError(ctx, err)
	wire.Meta().Set(routing.HeaderOwner, string(notOwner.Owner))
	return wire
}

// actorOf is what is told of an actor.
func actorOf(v host.View) *greenroomv1.Actor {
	return &greenroomv1.Actor{
		Key: keyToProto(v.Key), Version: v.Version, Generation: v.Generation,
		StateSchema: v.StateSchema, StateSize: v.StateSize,
		UpdatedAt: timestamppb.New(v.UpdatedAt),
		Active:    v.Active, QueueDepth: int32(v.QueueDepth), //nolint:gosec // bounded by the mailbox
	}
}

// peerEdge is the [stream.Edge] of a channel. What comes over it another host has
// admitted: only its form is checked.
type peerEdge struct {
	x        *exchange
	accepted *routing.Accepted
}

// Admit implements [stream.Edge].
func (e *peerEdge) Admit(in *invokestream.Invocation) (actor.Invocation, error) {
	inv := actor.Invocation{
		ID: in.InvocationID, Key: in.Key, Method: in.Method, Payload: in.Payload,
		ReadOnly: in.ReadOnly, IdempotencyKey: in.IdempotencyKey, Caller: in.Caller,
		Trace: actor.ParseTrace(in.Traceparent, in.Tracestate).Child(),
	}
	if in.Consistency == greenroomv1.Consistency_CONSISTENCY_STRONG {
		inv.Consistency = actor.ConsistencyStrong
	}
	if err := inv.Key.Validate(); err != nil {
		return inv, err
	}
	if err := actor.ValidateName("method", in.Method); err != nil {
		return inv, err
	}
	if limit := e.x.server.conf.MaxPayloadBytes; int64(len(in.Payload.Data)) > limit {
		return inv, errPayloadTooLarge(limit)
	}
	var err error
	if inv.Firing, err = invokestream.DecodeFiring(in); err != nil {
		return inv, err
	}
	e.accepted.NotHeldBy(inv.Key, actor.HostID(in.RefusedBy))
	if in.IdempotencyKey == "" {
		return inv, nil
	}
	return inv, actor.ValidateIdempotencyKey(in.IdempotencyKey)
}

// Describe implements [stream.Edge].
func (e *peerEdge) Describe(ctx context.Context, id string, inv *actor.Invocation, err error, out *invokestream.Reply) {
	var notOwner *routing.NotOwnerError
	if errors.As(err, &notOwner) {
		// Seldom seen by anybody, and often said while a table changes.
		out.Owner = string(notOwner.Owner)
		out.Error = &greenroomv1.StreamError{
			Code: uint32(connect.CodeUnavailable), Message: notOwner.Error(), Detail: &greenroomv1.ErrorDetail{Kind: string(actor.ErrNotOwner.Kind()), Retryable: true},
		}
		return
	}
	f := e.x.server.failTurn(ctx, id, err, inv)
	out.Error = &greenroomv1.StreamError{Code: uint32(f.Code), Message: f.Message, Detail: f.Detail}
}
