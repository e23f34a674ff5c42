package server

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/store"
)

// actorService is ActorService over the host. protovalidate has seen every
// request before its methods do.
type actorService struct{ s *Server }

var _ greenroomv1connect.ActorServiceHandler = (*actorService)(nil)

// minStreamMessage is what a message of an InvokeStream may have whatever the limit
// of a payload, in bytes: actor.proto says so, and clients send batches by it.
const minStreamMessage int64 = 4 << 20

func (s *Server) newActorService() service {
	sv := service{name: greenroomv1connect.ActorServiceName}
	payload := s.payloadRoute()
	_, h := greenroomv1connect.NewActorServiceHandler(&actorService{s}, s.handlerOptions(payload)...)
	sv.serve(RoleInvoke, payload, h, greenroomv1connect.ActorServiceInvokeProcedure)
	sv.serve(RoleRead, payload, h, greenroomv1connect.ActorServiceQueryProcedure)
	sv.serve(RoleRead, smallRoute(), h,
		greenroomv1connect.ActorServiceGetActorProcedure,
		greenroomv1connect.ActorServiceListActorsProcedure,
		greenroomv1connect.ActorServiceGetStateProcedure)
	sv.serve(RoleDeploy, smallRoute(), h, greenroomv1connect.ActorServiceDeleteActorProcedure)

	invocations := route{maxBody: unbounded, longLived: true, maxMessage: max(payload.maxBody, minStreamMessage)}
	_, h = greenroomv1connect.NewActorServiceHandler(&actorService{s}, s.streamOptions(invocations.maxMessage, errMessageTooLarge(invocations.maxMessage))...)
	// Invocations that are not read-only need more, each for itself.
	sv.serve(RoleRead, invocations, h, greenroomv1connect.ActorServiceInvokeStreamProcedure)
	return sv
}

// Invoke implements ActorService.
func (a *actorService) Invoke(ctx context.Context, req *connect.Request[greenroomv1.InvokeRequest]) (*connect.Response[greenroomv1.InvokeResponse], error) {
	idempotency, err := idempotencyKey(req.Header())
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
		Json: jsonReply(req.Msg.GetJsonReply(), reply.Payload),
	})
	setFuel(res.Header(), reply)
	return res, nil
}

// Query implements ActorService.
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
	res := connect.NewResponse(&greenroomv1.QueryResponse{
		Payload: reply.Payload.Data, ContentType: reply.Payload.ContentType, Version: reply.Version,
		Json: jsonReply(req.Msg.GetJsonReply(), reply.Payload),
	})
	setFuel(res.Header(), reply)
	noStore(res)
	return res, nil
}

func (a *actorService) invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	// Protovalidate speaks neither of control characters nor of sizes that the
	// server's limits set.
	if err := inv.Key.Validate(); err != nil {
		return actor.Reply{}, err
	}
	if int64(len(inv.Payload.Data)) > a.s.conf.MaxPayloadBytes {
		return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: errPayloadTooLarge(a.s.conf.MaxPayloadBytes)}
	}
	if x := exchangeOf(ctx); x != nil && int64(len(inv.Payload.Data)) > x.bodyBytes { // it came compressed
		if err := x.countBody(len(inv.Payload.Data)); err != nil {
			return actor.Reply{}, err
		}
	}
	inv.ID, inv.Caller, inv.Trace = requestID(ctx), callerName(ctx), traceOf(ctx)
	reply, err := a.s.conf.Host.Invoke(ctx, inv)
	if x := exchangeOf(ctx); x != nil {
		setHost(x.Header(), reply)
	}
	return reply, err
}

// GetActor implements ActorService.
func (a *actorService) GetActor(ctx context.Context, req *connect.Request[greenroomv1.GetActorRequest]) (*connect.Response[greenroomv1.GetActorResponse], error) {
	key := keyOf(req.Msg.GetActor())
	if err := key.Validate(); err != nil {
		return nil, err
	}
	v, err := a.s.conf.Host.View(ctx, key)
	if err != nil {
		return nil, err
	}
	res := connect.NewResponse(&greenroomv1.GetActorResponse{Actor: actorOf(v)})
	noStore(res)
	return res, nil
}

// ListActors implements ActorService.
func (a *actorService) ListActors(ctx context.Context, req *connect.Request[greenroomv1.ListActorsRequest]) (*connect.Response[greenroomv1.ListActorsResponse], error) {
	list := pageList{greenroomv1connect.ActorServiceListActorsProcedure, appOf(req.Msg.GetApp()), req.Msg.GetType()}
	after, err := parsePageToken(list, req.Msg.GetPageToken(), afterActor)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.Msg.GetPageSize())
	infos, next, err := a.s.conf.Actors.ListActors(ctx, store.ActorQuery{App: list.app, Type: list.typ, Prefix: req.Msg.GetPrefix(), After: after, Limit: size})
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
	res := connect.NewResponse(msg)
	noStore(res)
	return res, nil
}

// GetState implements ActorService.
func (a *actorService) GetState(ctx context.Context, req *connect.Request[greenroomv1.GetStateRequest]) (*connect.Response[greenroomv1.GetStateResponse], error) {
	key := keyOf(req.Msg.GetActor())
	if err := key.Validate(); err != nil {
		return nil, err
	}
	v, err := a.s.conf.Host.View(ctx, key)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.GetStateResponse{Version: v.Version, Entries: make([]*greenroomv1.StateEntry, len(v.Entries))}
	for i, e := range v.Entries {
		msg.Entries[i] = &greenroomv1.StateEntry{Key: e.Key, Value: e.Value, Json: e.Format == abi.FormatJSON}
	}
	res := connect.NewResponse(msg)
	noStore(res)
	return res, nil
}

// DeleteActor implements ActorService.
func (a *actorService) DeleteActor(ctx context.Context, req *connect.Request[greenroomv1.DeleteActorRequest]) (*connect.Response[greenroomv1.DeleteActorResponse], error) {
	key := keyOf(req.Msg.GetActor())
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if err := a.s.conf.Host.Delete(ctx, key); err != nil {
		return nil, err
	}
	return connect.NewResponse(&greenroomv1.DeleteActorResponse{}), nil
}

func keyOf(k *greenroomv1.ActorKey) actor.Key {
	return actor.Key{App: appOf(k.GetApp()), Type: k.GetType(), ID: k.GetId()}
}

func keyToProto(k actor.Key) *greenroomv1.ActorKey {
	return &greenroomv1.ActorKey{App: k.App, Type: k.Type, Id: k.ID}
}

// appOf fills in the app that a caller did not name.
func appOf(app string) string {
	if app == "" {
		return actor.DefaultApp
	}
	return app
}

// noStore keeps what may come by GET out of caches: state changes.
func noStore(res connect.AnyResponse) { res.Header().Set("Cache-Control", "no-store") }
