package rpc

import (
	"context"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/server/codec"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/query"
	"github.com/greenroom-run/greenroom/server/reminders"
	"github.com/greenroom-run/greenroom/server/stream"
	"github.com/greenroom-run/greenroom/store"
)

// actorService is ActorService over the host. protovalidate has seen every
// request before its methods do.
type actorService struct{ s *Services }

var _ greenroomv1connect.ActorServiceHandler = (*actorService)(nil)

// minStreamMessage is what a message of an InvokeStream may have whatever the limit
// of a payload, in bytes: actor.proto says so, and clients send batches by it.
const minStreamMessage int64 = 4 << 20

func newActorService(s *Services) edge.Service {
	sv := edge.Service{Name: greenroomv1connect.ActorServiceName}
	payload := s.edge.PayloadRoute()
	_, h := greenroomv1connect.NewActorServiceHandler(&actorService{s}, s.edge.HandlerOptions(payload)...)
	sv.Serve(edge.RoleInvoke, payload, h, greenroomv1connect.ActorServiceInvokeProcedure, greenroomv1connect.ActorServiceInvokeAllProcedure,
		greenroomv1connect.ActorServiceSendProcedure)
	sv.Serve(edge.RoleRead, payload, h, greenroomv1connect.ActorServiceQueryProcedure)
	sv.Serve(edge.RoleRead, edge.SmallRoute(), h,
		greenroomv1connect.ActorServiceGetActorProcedure,
		greenroomv1connect.ActorServiceListActorsProcedure,
		greenroomv1connect.ActorServiceListMessagesProcedure,
		greenroomv1connect.ActorServiceListServicesProcedure,
		greenroomv1connect.ActorServiceListSubscriptionsProcedure,
		greenroomv1connect.ActorServiceGetStateProcedure)
	sv.Serve(edge.RoleDeploy, edge.SmallRoute(), h, greenroomv1connect.ActorServiceDeleteActorProcedure, greenroomv1connect.ActorServiceCancelQueuedProcedure)
	sv.Serve(edge.RoleRead, edge.StreamRoute(), h, greenroomv1connect.ActorServiceSubscribeProcedure, greenroomv1connect.ActorServiceWatchServicesProcedure)

	invocations := edge.Route{MaxBody: edge.Unbounded, LongLived: true, MaxMessage: max(payload.MaxBody, minStreamMessage)}
	_, h = greenroomv1connect.NewActorServiceHandler(&actorService{s}, s.edge.StreamOptions(invocations.MaxMessage, edge.ErrMessageTooLarge(invocations.MaxMessage))...)
	// Invocations that are not read-only need more, each for itself.
	sv.Serve(edge.RoleRead, invocations, h, greenroomv1connect.ActorServiceInvokeStreamProcedure)
	return sv
}

func (a *actorService) Invoke(ctx context.Context, req *connect.Request[greenroomv1.InvokeRequest]) (*connect.Response[greenroomv1.InvokeResponse], error) {
	idempotency, err := edge.IdempotencyKey(req.Header())
	if err != nil {
		return nil, err
	}
	reply, err := a.invoke(ctx, actor.Invocation{
		Key:            keyOf(req.Msg.GetActor()),
		Method:         req.Msg.GetMethod(),
		Payload:        actor.Payload{ContentType: req.Msg.GetContentType(), Data: req.Msg.GetPayload()},
		IdempotencyKey: idempotency,
	})
	if err != nil {
		return nil, err
	}
	res := connect.NewResponse(&greenroomv1.InvokeResponse{
		Payload: reply.Payload.Data, ContentType: reply.Payload.ContentType, Version: reply.Version,
		Json: codec.JSONReply(req.Msg.GetJsonReply(), reply.Payload),
	})
	edge.SetFuel(res.Header(), reply)
	return res, nil
}

func (a *actorService) InvokeAll(ctx context.Context, req *connect.Request[greenroomv1.InvokeAllRequest]) (*connect.Response[greenroomv1.InvokeAllResponse], error) {
	idempotency, err := edge.IdempotencyKey(req.Header())
	if err != nil {
		return nil, err
	}
	app := edge.AppOf(req.Msg.GetApp())
	var calls []actor.Call
	for _, c := range req.Msg.GetCalls() {
		calls = append(calls, actor.Call{
			Key: actor.Key{App: app, Type: c.GetType(), ID: c.GetId()}, Method: c.GetMethod(),
			Payload: actor.Payload{ContentType: c.GetContentType(), Data: c.GetPayload()},
		})
	}
	reply, err := a.invoke(ctx, actor.Invocation{
		Key: calls[0].Key, Method: actor.MethodAll, Payload: actor.Payload{Data: actor.EncodeCalls(calls)}, IdempotencyKey: idempotency,
	})
	if err != nil {
		return nil, err
	}
	replies, err := actor.DecodePayloads(reply.Payload.Data)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.InvokeAllResponse{}
	for i, r := range replies {
		asked := i < len(calls) && req.Msg.GetCalls()[i].GetJsonReply()
		msg.Replies = append(msg.Replies, &greenroomv1.CallReply{Payload: r.Data, ContentType: r.ContentType, Json: codec.JSONReply(asked, r)})
	}
	res := connect.NewResponse(msg)
	edge.SetFuel(res.Header(), reply)
	return res, nil
}

func (a *actorService) Query(ctx context.Context, req *connect.Request[greenroomv1.QueryRequest]) (*connect.Response[greenroomv1.QueryResponse], error) {
	inv := actor.Invocation{
		Key:      keyOf(req.Msg.GetActor()),
		Method:   req.Msg.GetMethod(),
		Payload:  actor.Payload{ContentType: req.Msg.GetContentType(), Data: req.Msg.GetPayload()},
		ReadOnly: true,
	}
	if req.Msg.GetConsistency() == greenroomv1.Consistency_CONSISTENCY_STRONG {
		inv.Consistency = actor.ConsistencyStrong
	}
	reply, err := a.invoke(ctx, inv)
	if err != nil {
		return nil, err
	}
	res := uncached(&greenroomv1.QueryResponse{
		Payload: reply.Payload.Data, ContentType: reply.Payload.ContentType, Version: reply.Version,
		Json: codec.JSONReply(req.Msg.GetJsonReply(), reply.Payload),
	})
	edge.SetFuel(res.Header(), reply)
	return res, nil
}

func (a *actorService) invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	// Protovalidate speaks neither of control characters nor of sizes that the
	// server's limits set.
	if err := inv.Key.Validate(); err != nil {
		return actor.Reply{}, err
	}
	if int64(len(inv.Payload.Data)) > a.s.edge.Conf.MaxPayloadBytes {
		return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: edge.ErrPayloadTooLarge(a.s.edge.Conf.MaxPayloadBytes)}
	}
	if x := edge.ExchangeOf(ctx); x != nil && int64(len(inv.Payload.Data)) > x.BodyBytes { // it came compressed
		if err := x.CountBody(len(inv.Payload.Data)); err != nil {
			return actor.Reply{}, err
		}
	}
	inv.ID, inv.Token, inv.Trace = edge.RequestID(ctx), edge.CallerName(ctx), edge.TraceOf(ctx)
	reply, err := a.s.Calls.Invoke(ctx, inv)
	if x := edge.ExchangeOf(ctx); x != nil {
		edge.SetHost(x.Header(), reply)
	}
	return reply, err
}

// sendsAtOnce is how many messages of a request are stored at the same time.
const sendsAtOnce = 64

// errNoMessages refuses messages where there are none.
var errNoMessages = &failure.Error{Kind: failure.KindNotImplemented, Text: "this server has no messages"}

// Send implements ActorService.
func (a *actorService) Send(ctx context.Context, req *connect.Request[greenroomv1.SendRequest]) (*connect.Response[greenroomv1.SendResponse], error) {
	if a.s.Messages == nil {
		return nil, errNoMessages
	}
	idempotency, err := edge.IdempotencyKey(req.Header())
	if err != nil {
		return nil, err
	}
	list := req.Msg.GetMessages()
	msg := &greenroomv1.SendResponse{Messages: make([]*greenroomv1.SentMessage, len(list))}
	app := edge.AppOf(req.Msg.GetApp())
	if len(list) == 1 {
		if idempotency != "" {
			list[0].IdempotencyKey = idempotency
		}
		r, err := a.prepare(ctx, app, list[0])
		if err == nil {
			msg.Messages[0], err = a.send(ctx, &r, list[0].GetIdempotencyKey())
		}
		return done(msg, err)
	}
	if idempotency != "" {
		return nil, &actor.ArgumentError{Field: "Idempotency-Key", Problem: "is for a request with one message; give each message a key of its own"}
	}
	places := make(chan struct{}, sendsAtOnce)
	var sending sync.WaitGroup
	for i, m := range list {
		refused := func(err error) *greenroomv1.SentMessage {
			inv := actor.Invocation{Key: actor.Key{App: app, Type: m.GetType(), ID: m.GetId()}, Method: m.GetMethod(), Token: edge.CallerName(ctx), Trace: edge.TraceOf(ctx)}
			f := a.s.edge.FailTurn(ctx, edge.RequestID(ctx), err, &inv)
			return &greenroomv1.SentMessage{Error: &greenroomv1.StreamError{Code: uint32(f.Code), Message: f.Message, Detail: f.Detail}}
		}
		r, err := a.prepare(ctx, app, m)
		if err != nil {
			msg.Messages[i] = refused(err)
			continue
		}
		places <- struct{}{}
		sending.Go(func() {
			defer func() { <-places }()
			sent, err := a.send(ctx, &r, m.GetIdempotencyKey())
			if err != nil {
				sent = refused(err)
			}
			msg.Messages[i] = sent
		})
	}
	sending.Wait()
	return connect.NewResponse(msg), nil
}

// prepare returns the message to store. The messages of a request are prepared one after the other,
// since they count in the memory of the request.
func (a *actorService) prepare(ctx context.Context, app string, m *greenroomv1.OutgoingMessage) (r inbox.Request, err error) {
	r = inbox.Request{
		To: actor.Key{App: app, Type: m.GetType(), ID: m.GetId()}, Method: m.GetMethod(),
		Payload: actor.Payload{ContentType: m.GetContentType(), Data: m.GetPayload()}, Message: actor.Message{Cookie: m.GetCookie()},
	}
	if r.At, err = timeOf("at", m.GetAt()); err != nil {
		return r, err
	}
	if r.After, err = durationOf("after", m.GetAfter()); err != nil {
		return r, err
	}
	if m.GetForwardType() != "" || m.GetForwardId() != "" {
		r.Forward = actor.Key{App: app, Type: m.GetForwardType(), ID: m.GetForwardId()}
	}
	if err := actor.ValidateIdempotencyKey(m.GetIdempotencyKey()); m.GetIdempotencyKey() != "" && err != nil {
		return r, err
	}
	if err := a.s.Calls.Prepare(ctx, &r); err != nil {
		return r, &actor.TurnError{Key: r.To, Method: r.Method, Err: err}
	}
	return r, nil
}

// send stores one message.
func (a *actorService) send(ctx context.Context, r *inbox.Request, idempotencyKey string) (*greenroomv1.SentMessage, error) {
	id, repeated, err := a.s.Messages.Send(ctx, r, idempotencyKey)
	if err != nil {
		return nil, &actor.TurnError{Key: r.To, Method: r.Method, Err: err}
	}
	return &greenroomv1.SentMessage{Id: id.String(), Repeated: repeated}, nil
}

// ListMessages implements ActorService.
func (a *actorService) ListMessages(ctx context.Context, req *connect.Request[greenroomv1.ListMessagesRequest]) (*connect.Response[greenroomv1.ListMessagesResponse], error) {
	if a.s.Messages == nil {
		return nil, errNoMessages
	}
	key := keyOf(req.Msg.GetActor())
	if err := key.Validate(); err != nil {
		return nil, err
	}
	list := pageList{greenroomv1connect.ActorServiceListMessagesProcedure, key.App, key.Type + "/" + key.ID}
	after, err := parsePageToken(list, req.Msg.GetPageToken(), afterMessage)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.Msg.GetPageSize())
	if req.Msg.GetPayloads() {
		size = min(size, reminders.PayloadPage)
	}
	msg := &greenroomv1.ListMessagesResponse{}
	for size > 0 {
		part, next, err := a.s.Messages.List(ctx, store.MessageQuery{Key: key, After: after, Limit: min(size, readReminders)})
		if err != nil {
			return nil, err
		}
		for i := range part {
			msg.Messages = append(msg.Messages, messageToProto(&part[i], req.Msg.GetPayloads()))
		}
		if next == "" {
			return uncached(msg), nil
		}
		after = next
		size -= len(part)
	}
	msg.NextPageToken = pageToken(list, after)
	return uncached(msg), nil
}

// InvokeStream implements ActorService. The stream's messages are received and
// sent in the form of package invokestream.
func (a *actorService) InvokeStream(ctx context.Context, bidi *connect.BidiStream[greenroomv1.InvokeStreamRequest, greenroomv1.InvokeStreamResponse]) error {
	x := edge.ExchangeOf(ctx)
	if err := a.s.Streams.Enter(x.Owner()); err != nil {
		return err
	}
	defer a.s.Streams.Leave(x.Owner())
	err := stream.Serve(ctx, a.s.streamConf, stream.Peer{
		RequestID: x.ID, App: x.Owner(), Conn: &streamConn{x, bidi.Conn()}, Edge: &streamEdge{x},
	})
	_ = x.Control.SetWriteDeadline(a.s.edge.BodyDeadline()) // of how the stream ended
	return err
}

func (a *actorService) view(ctx context.Context, k *greenroomv1.ActorKey) (host.View, error) {
	key := keyOf(k)
	if err := key.Validate(); err != nil {
		return host.View{}, err
	}
	return a.s.Host.View(ctx, key)
}

func (a *actorService) GetActor(ctx context.Context, req *connect.Request[greenroomv1.GetActorRequest]) (*connect.Response[greenroomv1.GetActorResponse], error) {
	v, err := a.view(ctx, req.Msg.GetActor())
	if err != nil {
		return nil, err
	}
	return uncached(&greenroomv1.GetActorResponse{Actor: actorOf(v)}), nil
}

func (a *actorService) ListActors(ctx context.Context, req *connect.Request[greenroomv1.ListActorsRequest]) (*connect.Response[greenroomv1.ListActorsResponse], error) {
	list := pageList{greenroomv1connect.ActorServiceListActorsProcedure, edge.AppOf(req.Msg.GetApp()), req.Msg.GetType()}
	after, err := parsePageToken(list, req.Msg.GetPageToken(), afterActor)
	if err != nil {
		return nil, err
	}
	if m := req.Msg; m.GetFilter() != "" || len(m.GetSelect()) > 0 || m.GetCount() {
		return a.queryActors(ctx, list, after, m)
	}
	size := pageSize(req.Msg.GetPageSize())
	infos, next, err := a.s.Actors.ListActors(ctx, store.ActorQuery{App: list.app, Type: list.typ, Prefix: req.Msg.GetPrefix(), After: after, Limit: size})
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ListActorsResponse{Actors: make([]*greenroomv1.Actor, len(infos))}
	for i, info := range infos {
		msg.Actors[i] = &greenroomv1.Actor{
			Key: keyToProto(info.Key), Version: info.Version, Generation: info.Generation,
			StateSchema: info.StateSchema, StateSize: info.StateSize, UpdatedAt: timestamppb.New(info.UpdatedAt),
		}
	}
	if next != "" {
		msg.NextPageToken = pageToken(list, next)
	}
	return uncached(msg), nil
}

// queryActors is ListActors where states are looked at. Apps take turns.
func (a *actorService) queryActors(ctx context.Context, list pageList, after string, m *greenroomv1.ListActorsRequest) (*connect.Response[greenroomv1.ListActorsResponse], error) {
	if m.GetPrefix() != "" {
		if err := actor.ValidateID(m.GetPrefix()); err != nil {
			return nil, err
		}
	}
	leave, err := a.s.queries.Enter(ctx, list.app, list.typ)
	if err != nil {
		return nil, err
	}
	defer leave()
	q, err := a.s.compiler.Compile(m.GetFilter(), m.GetSelect())
	if err != nil {
		return nil, err
	}
	page := query.Page{App: list.app, Type: list.typ, Prefix: m.GetPrefix(), After: after, AllowStale: m.GetAllowStale(), Now: time.Now}
	if !m.GetCount() {
		page.Size = pageSize(m.GetPageSize())
	}
	r, err := q.Run(ctx, a.s.Actors, page)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ListActorsResponse{
		Actors: mapped(r.Found, func(f query.Found) *greenroomv1.Actor {
			return &greenroomv1.Actor{
				Key: keyToProto(f.Key), Version: f.Version, Generation: f.Generation, StateSchema: f.StateSchema, StateSize: f.StateSize,
				UpdatedAt: timestamppb.New(f.UpdatedAt), MethodSet: f.MethodSet, Life: f.Life, Spawned: f.Spawned, Selected: f.Selected,
			}
		}),
		Scan: &greenroomv1.ActorScan{
			Examined: uint64(r.Examined), Matched: uint64(r.Matched), NotJson: uint64(r.NotJSON), Failed: uint64(r.Failed), Failure: r.Failure,
			Damaged: uint64(r.Damaged),
		},
	}
	if r.Next != "" {
		msg.NextPageToken = pageToken(list, r.Next)
	}
	return uncached(msg), nil
}

func (a *actorService) ListServices(ctx context.Context, req *connect.Request[greenroomv1.ListServicesRequest]) (*connect.Response[greenroomv1.ListServicesResponse], error) {
	list := pageList{greenroomv1connect.ActorServiceListServicesProcedure, edge.AppOf(req.Msg.GetApp()), ""}
	after, err := parsePageToken(list, req.Msg.GetPageToken(), func(_ pageList, name string) (string, error) { return name, actor.ValidateService(name) })
	if err != nil {
		return nil, err
	}
	size := pageSize(req.Msg.GetPageSize())
	found, err := a.s.Actors.ListServices(ctx, actor.ServiceQuery{App: list.app, Prefix: req.Msg.GetPrefix(), After: after, Limit: size})
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ListServicesResponse{Services: mapped(found, serviceToProto)}
	if len(found) == size {
		msg.NextPageToken = pageToken(list, found[size-1].Name)
	}
	return uncached(msg), nil
}

func serviceToProto(v actor.Service) *greenroomv1.Service {
	return &greenroomv1.Service{Name: v.Name, Actor: keyToProto(v.Actor), ClaimedAt: timestamppb.New(v.ClaimedAt)}
}

func (a *actorService) GetState(ctx context.Context, req *connect.Request[greenroomv1.GetStateRequest]) (*connect.Response[greenroomv1.GetStateResponse], error) {
	v, err := a.view(ctx, req.Msg.GetActor())
	if err != nil {
		return nil, err
	}
	return uncached(&greenroomv1.GetStateResponse{Version: v.Version, Entries: entriesOf(v)}), nil
}

func (a *actorService) DeleteActor(ctx context.Context, req *connect.Request[greenroomv1.DeleteActorRequest]) (*connect.Response[greenroomv1.DeleteActorResponse], error) {
	key := keyOf(req.Msg.GetActor())
	if err := key.Validate(); err != nil {
		return nil, err
	}
	return done(&greenroomv1.DeleteActorResponse{}, a.s.Host.Delete(ctx, key))
}

func messageToProto(r *actor.Reminder, payload bool) *greenroomv1.InboxMessage {
	m := &greenroomv1.InboxMessage{
		Id: r.ID.String(), Method: r.Method, ContentType: r.Payload.ContentType, PayloadSize: uint32(len(r.Payload.Data)), //nolint:gosec // at most 64 KiB
		Details: detailsOf(r), Due: timestamppb.New(r.Due), FireAt: timestamppb.New(r.FireAt), Failures: r.Failures, LastError: r.LastError,
		SentAt: timeToProto(r.CreatedAt), ExpiresAt: timeToProto(r.Schedule.Until),
	}
	if payload {
		m.Payload = r.Payload.Data
	}
	return m
}

// CancelQueued implements ActorService. The mailboxes come first: they say which messages' turns have
// begun, and give back the others, so that those find their rows gone.
func (a *actorService) CancelQueued(ctx context.Context, req *connect.Request[greenroomv1.CancelQueuedRequest]) (*connect.Response[greenroomv1.CancelQueuedResponse], error) {
	if a.s.Queues == nil {
		return nil, errNoQueues
	}
	of := actor.Key{App: edge.AppOf(req.Msg.GetApp()), Type: req.Msg.GetType(), ID: req.Msg.GetId()}
	if of.ID != "" {
		if err := actor.ValidateID(of.ID); err != nil {
			return nil, err
		}
	}
	msg := &greenroomv1.CancelQueuedResponse{}
	all := []host.Cancelled{a.s.Queues.CancelQueued(of)}
	elsewhere, missing := a.cancelElsewhere(ctx, of)
	msg.Missing = missing
	cancel := reminder.CancelRequest{To: of, DeadLetter: req.Msg.GetDeadLetter()}
	for _, c := range append(all, elsewhere...) {
		msg.Calls += uint32(c.Calls)            //nolint:gosec // bounded by the memory of calls
		msg.VolatileMessages += uint32(c.Tells) //nolint:gosec // likewise
		cancel.Except = append(cancel.Except, c.Begun...)
	}
	if a.s.Messages == nil {
		return done(msg, nil)
	}
	n, more, err := a.s.Messages.Cancel(ctx, cancel)
	msg.Messages, msg.More = uint32(n), more //nolint:gosec // at most reminder.MaxCancel, and a page
	return done(msg, err)
}

// cancelElsewhere cancels what waits at the other servers of the cluster, and returns the names of those
// that did not answer.
func (a *actorService) cancelElsewhere(ctx context.Context, of actor.Key) (all []host.Cancelled, missing []string) {
	if a.s.Cluster == nil || a.s.Interconnect == nil {
		return nil, nil
	}
	others := a.s.Cluster.Others()
	all = make([]host.Cancelled, len(others))
	failed := make([]bool, len(others))
	var asking sync.WaitGroup
	for i, h := range others {
		asking.Go(func() {
			var err error
			all[i], err = a.s.Interconnect.CancelQueued(ctx, h.ID, of)
			failed[i] = err != nil
		})
	}
	asking.Wait()
	for i := range others {
		if failed[i] {
			missing = append(missing, others[i].Name)
		}
	}
	slices.Sort(missing)
	return all, missing
}
