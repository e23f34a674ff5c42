package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/stream"
	"github.com/greenroom-run/greenroom/store"
)

// interconnect is InterconnectService: what other hosts of the cluster call.
type interconnect struct {
	s    *Services
	conf *stream.Config // of all channels; each has a Host of its own
}

var _ greenroomv1connect.InterconnectServiceHandler = (*interconnect)(nil)

// peerMessage bounds a message between hosts, beside what all messages may have: a
// payload that one host has admitted is not refused by another one of lower limits here,
// but there.
const peerMessage = 64 << 20

// newPeerServices registers what only hosts speak.
func newPeerServices(s *Services) edge.Service {
	conf := newStreamConfig(s)
	// Calls of peers never wait for the memory that clients' calls hold: those may wait
	// for calls that went to the same peers.
	conf.Memory = stream.NewMemory(s.edge.Conf.MaxStreamsBytes)
	// The host that sends gives each app its share of a channel's calls. Apps share the bytes here.
	conf.MaxInvocations = 2 * routing.DefaultMaxInFlight
	conf.MaxBytes = s.edge.Conf.MaxStreamsBytes
	opts := append(s.edge.StreamOptions(peerMessage, edge.ErrMessageTooLarge(peerMessage)), connect.WithReadMaxBytes(peerMessage))
	_, h := greenroomv1connect.NewInterconnectServiceHandler(&interconnect{s, conf}, opts...)
	channel := edge.Route{MaxBody: edge.Unbounded, LongLived: true, MaxMessage: peerMessage, Peer: true}
	var sv edge.Service
	sv.Serve(edge.RoleAdmin, channel, h, greenroomv1connect.InterconnectServiceExchangeProcedure)
	unary := edge.SmallRoute()
	unary.Peer = true
	_, h = greenroomv1connect.NewInterconnectServiceHandler(&interconnect{s, conf}, s.edge.HandlerOptions(s.edge.PayloadRoute())...)
	sv.Serve(edge.RoleAdmin, unary, h, greenroomv1connect.InterconnectServiceDeleteProcedure, greenroomv1connect.InterconnectServiceViewProcedure, greenroomv1connect.InterconnectServiceReachProcedure,
		greenroomv1connect.InterconnectServiceReleaseRemindersProcedure, greenroomv1connect.InterconnectServiceNoticeRemindersProcedure,
		greenroomv1connect.InterconnectServiceCountTurnsProcedure, greenroomv1connect.InterconnectServiceCancelQueuedProcedure)
	tail := edge.StreamRoute()
	tail.Peer = true
	sv.Serve(edge.RoleAdmin, tail, h, greenroomv1connect.InterconnectServiceTailLogsProcedure)
	timer := edge.Route{MaxBody: maxTimerMessage, BodyErr: edge.ErrMessageTooLarge(actor.MaxReminderPayload), Peer: true}
	sv.Serve(edge.RoleAdmin, timer, h, greenroomv1connect.InterconnectServiceTimerProcedure)
	for _, ps := range s.PeerServices {
		sv.Serve(edge.RoleAdmin, channel, ps.Handler, ps.Procedures...)
	}
	return sv
}

func (i *interconnect) Exchange(ctx context.Context, bidi *connect.BidiStream[greenroomv1.ExchangeRequest, greenroomv1.ExchangeResponse]) error {
	x := edge.ExchangeOf(ctx)
	conn := &streamConn{x, bidi.Conn()}
	var first invokestream.Request
	if err := conn.Receive(&first); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	accepted, answer, err := i.s.Interconnect.Accept(first.Hello)
	if err != nil {
		return err
	}
	ctx, done, err := accepted.Serve(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := conn.Send(&invokestream.Response{Hello: answer}); err != nil {
		return err
	}
	conf := *i.conf
	conf.Host = accepted
	err = stream.Serve(ctx, &conf, stream.Peer{RequestID: x.ID, Conn: conn, Edge: &peerEdge{x, accepted}})
	var replaced *routing.HelloError
	if errors.As(context.Cause(ctx), &replaced) {
		err = replaced
	}
	_ = x.Control.SetWriteDeadline(i.s.edge.BodyDeadline()) // of how the stream ended
	return err
}

func (i *interconnect) Delete(ctx context.Context, req *connect.Request[greenroomv1.ExchangeDeleteRequest]) (*connect.Response[greenroomv1.ExchangeDeleteResponse], error) {
	key := keyOf(req.Msg.GetActor())
	accepted, _, err := i.s.Interconnect.Accept(req.Msg.GetHello())
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

func (i *interconnect) Timer(ctx context.Context, req *connect.Request[greenroomv1.ExchangeTimerRequest]) (*connect.Response[greenroomv1.ExchangeTimerResponse], error) {
	key := keyOf(req.Msg.GetActor())
	accepted, _, err := i.s.Interconnect.Accept(req.Msg.GetHello())
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

func (i *interconnect) CountTurns(_ context.Context, req *connect.Request[greenroomv1.ExchangeTurnsRequest]) (*connect.Response[greenroomv1.ExchangeTurnsResponse], error) {
	if _, _, err := i.s.Interconnect.Accept(req.Msg.GetHello()); err != nil {
		return nil, err
	}
	counts := i.s.edge.Metrics.Recent.Of(edge.AppOf(req.Msg.GetApp()), time.Now())
	return connect.NewResponse(countsToProto(counts)), nil
}

func (i *interconnect) CancelQueued(_ context.Context, req *connect.Request[greenroomv1.ExchangeCancelRequest]) (*connect.Response[greenroomv1.ExchangeCancelResponse], error) {
	if _, _, err := i.s.Interconnect.Accept(req.Msg.GetHello()); err != nil {
		return nil, err
	}
	msg := &greenroomv1.ExchangeCancelResponse{}
	if i.s.Queues == nil {
		return nil, errNoQueues
	}
	c := i.s.Queues.CancelQueued(actor.Key{App: req.Msg.GetApp(), Type: req.Msg.GetType(), ID: req.Msg.GetId()})
	msg.Calls, msg.VolatileMessages, msg.Begun = uint32(c.Calls), uint32(c.Tells), mapped(c.Begun, actor.ReminderID.String) //nolint:gosec // bounded by the memory of calls
	return connect.NewResponse(msg), nil
}

func (i *interconnect) View(ctx context.Context, req *connect.Request[greenroomv1.ExchangeViewRequest]) (*connect.Response[greenroomv1.ExchangeViewResponse], error) {
	key := keyOf(req.Msg.GetActor())
	accepted, _, err := i.s.Interconnect.Accept(req.Msg.GetHello())
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
	return connect.NewResponse(&greenroomv1.ExchangeViewResponse{Actor: actorOf(v), Entries: entriesOf(v)}), nil
}

func (i *interconnect) Reach(ctx context.Context, req *connect.Request[greenroomv1.ExchangeReachRequest]) (*connect.Response[greenroomv1.ExchangeReachResponse], error) {
	accepted, _, err := i.s.Interconnect.Accept(req.Msg.GetHello())
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ExchangeReachResponse{Now: timestamppb.Now()}
	if ids := req.Msg.GetHostIds(); len(ids) > 0 {
		msg.Unreachable = unreachable(accepted.Unreached(ctx, mapped(ids, func(id string) actor.HostID { return actor.HostID(id) })))
	}
	return connect.NewResponse(msg), nil
}

func (i *interconnect) NoticeReminders(_ context.Context, req *connect.Request[greenroomv1.ExchangeNoticeRequest]) (*connect.Response[greenroomv1.ExchangeNoticeResponse], error) {
	if _, _, err := i.s.Interconnect.Accept(req.Msg.GetHello()); err != nil {
		return nil, err
	}
	if n := len(req.Msg.GetReminders()); n > reminder.MaxRelease {
		return nil, &actor.ArgumentError{Field: "reminders", Problem: fmt.Sprintf("are %d; at most %d are allowed", n, reminder.MaxRelease)}
	}
	var heads []store.ReminderHead
	for _, r := range req.Msg.GetReminders() {
		id, err := actor.ParseReminderID(r.GetId())
		if err != nil {
			return nil, err
		}
		heads = append(heads, store.ReminderHead{ID: id, FireAt: r.GetFireAt().AsTime()})
	}
	if r := i.s.Reminders; r != nil {
		r.Notice(heads)
	}
	return connect.NewResponse(&greenroomv1.ExchangeNoticeResponse{}), nil
}

func (i *interconnect) ReleaseReminders(ctx context.Context, req *connect.Request[greenroomv1.ExchangeReleaseRequest]) (*connect.Response[greenroomv1.ExchangeReleaseResponse], error) {
	if _, _, err := i.s.Interconnect.Accept(req.Msg.GetHello()); err != nil {
		return nil, err
	}
	msg := &greenroomv1.ExchangeReleaseResponse{}
	if i.s.Reminders == nil {
		return connect.NewResponse(msg), nil
	}
	r := reminder.ReleaseRequest{Subscriptions: mapped(req.Msg.GetSubscriptions(), keyOf), Limit: int(req.Msg.GetLimit()), Wait: time.Duration(req.Msg.GetWaitMs()) * time.Millisecond}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(i.s.draining, cancel)()
	ids, err := i.s.Reminders.Release(ctx, r)
	if errors.Is(err, context.Canceled) && i.s.draining.Err() != nil {
		err = failure.ErrStopping
	}
	msg.ReminderIds = mapped(ids, actor.ReminderID.String)
	return connect.NewResponse(msg), err
}

func (i *interconnect) TailLogs(ctx context.Context, req *connect.Request[greenroomv1.ExchangeTailRequest], stream *connect.ServerStream[greenroomv1.ExchangeTailResponse]) error {
	if _, _, err := i.s.Interconnect.Accept(req.Msg.GetHello()); err != nil {
		return err
	}
	return i.s.Logs.tail(ctx, req.Msg.GetTail(), func(m *greenroomv1.TailResponse) error {
		return stream.Send(&greenroomv1.ExchangeTailResponse{Tail: m})
	})
}

// withOwner says who holds the actor, if that is why the error is.
func (i *interconnect) withOwner(ctx context.Context, err error) error {
	var notOwner *routing.NotOwnerError
	if !errors.As(err, &notOwner) {
		return err
	}
	wire := i.s.edge.RPCError(ctx, err)
	wire.Meta().Set(routing.HeaderOwner, string(notOwner.Owner))
	return wire
}

// peerEdge is the [stream.Edge] of a channel. What comes over it another host has
// admitted: only its form is checked.
type peerEdge struct {
	x        *edge.Exchange
	accepted *routing.Accepted
}

// trace returns the trace of an invocation. The host that it comes from has decided whether it is
// sampled.
func (e *peerEdge) trace(in *invokestream.Invocation) *actor.Trace {
	if in.Traceparent == "" {
		return nil
	}
	return e.x.Edge.Conf.Spans.Arrived(actor.ParseTrace(in.Traceparent, in.Tracestate))
}

func (e *peerEdge) Admit(in *invokestream.Invocation) (actor.Invocation, error) {
	inv := actor.Invocation{
		ID: in.InvocationID, Key: in.Key, Method: in.Method, Payload: in.Payload,
		ReadOnly: in.ReadOnly, IdempotencyKey: in.IdempotencyKey, Token: in.Caller,
		Trace: e.trace(in),
	}
	if in.Consistency == greenroomv1.Consistency_CONSISTENCY_STRONG {
		inv.Consistency = actor.ConsistencyStrong
	}
	if err := inv.Key.Validate(); err != nil {
		return inv, err
	}
	if err := validateMethod(in); err != nil {
		return inv, err
	}
	if limit := e.x.Edge.Conf.MaxPayloadBytes; int64(len(in.Payload.Data)) > limit {
		return inv, edge.ErrPayloadTooLarge(limit)
	}
	var err error
	if inv.Firing, err = invokestream.DecodeFiring(in); err != nil {
		return inv, err
	}
	if inv.Origin, err = invokestream.DecodeOrigin(in); err != nil {
		return inv, err
	}
	if inv.Message, err = invokestream.DecodeTell(in); err != nil {
		return inv, err
	}
	e.accepted.NotHeldBy(inv.Key, actor.HostID(in.RefusedBy))
	if in.IdempotencyKey == "" {
		return inv, nil
	}
	return inv, actor.ValidateIdempotencyKey(in.IdempotencyKey)
}

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
	f := e.x.Edge.FailTurn(ctx, id, err, inv)
	out.Error = &greenroomv1.StreamError{Code: uint32(f.Code), Message: f.Message, Detail: f.Detail}
}
