package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/server/failure"
)

// errorInterceptor sends every error of a handler, and of what is between it and
// the wire, through the map of package failure.
type errorInterceptor struct{ s *Server }

// WrapUnary implements [connect.Interceptor].
func (i *errorInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := errors.Join(carriedError(req.Any()), requireApp(ctx, req.Any())); err != nil {
			return nil, i.s.rpcError(ctx, err)
		}
		res, err := next(ctx, req)
		if err != nil {
			return nil, i.s.rpcError(ctx, err)
		}
		return res, nil
	}
}

// WrapStreamingClient implements [connect.Interceptor]; there are no clients here.
func (i *errorInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (i *errorInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := next(ctx, checkedConn{ctx, conn}); err != nil {
			return i.s.rpcError(ctx, err)
		}
		return nil
	}
}

// checkedConn finds messages that could not be decoded, or that are not for their
// caller to send.
type checkedConn struct {
	ctx context.Context
	connect.StreamingHandlerConn
}

func (c checkedConn) Receive(msg any) error {
	if err := c.StreamingHandlerConn.Receive(msg); err != nil {
		return err
	}
	if err := carriedError(msg); err != nil {
		return err
	}
	return requireApp(c.ctx, msg)
}

// requireApp refuses a message that speaks of another app than its caller may. A
// kind of message that it does not know is refused to callers of one app.
func requireApp(ctx context.Context, msg any) error {
	x := exchangeOf(ctx)
	if x == nil {
		return nil
	}
	switch m := msg.(type) {
	case interface{ GetApp() string }:
		return x.forApp(appOf(m.GetApp()))
	case interface{ GetActor() *greenroomv1.ActorKey }:
		return x.forApp(appOf(m.GetActor().GetApp()))
	case *greenroomv1.UploadRequest:
		if h := m.GetHeader(); h != nil { // which comes before all chunks
			return x.forApp(appOf(h.GetApp()))
		}
		return nil
	case *greenroomv1.ConnectRequest:
		if h := m.GetHello(); h != nil { // before which there is no other frame
			return x.forApp(appOf(h.GetApp()))
		}
		return nil
	case invokestream.Frame:
		return nil // each invocation is looked at on its own
	}
	if x.route.appless || x.caller.app == "" {
		return nil
	}
	return x.caller.requireEverywhere()
}

// rpcError is err as the protocols send it.
func (s *Server) rpcError(ctx context.Context, err error) *connect.Error {
	var wire *connect.Error
	if !errors.As(err, &wire) {
		return s.fail(ctx, requesterOf(ctx), err).RPC()
	}
	if failure.Mapped(wire) {
		return wire
	}
	// From Connect itself, or from protovalidate, whose details stay.
	kind := failure.KindInternal
	switch wire.Code() {
	case connect.CodeInvalidArgument:
		kind = failure.KindInvalidArgument
	case connect.CodeCanceled:
		kind = actor.ErrCanceled.Kind()
	case connect.CodeDeadlineExceeded:
		kind = actor.ErrDeadline.Kind()
	}
	if d, detailErr := connect.NewErrorDetail(&greenroomv1.ErrorDetail{Kind: string(kind)}); detailErr == nil {
		wire.AddDetail(d)
	}
	s.metrics.Failed(kind)
	return wire
}

// requester is how logs name a request.
type requester struct {
	id, token string // token is the name of the caller's
	trace     *actor.Trace
}

// requesterOf names the request that ctx belongs to.
func requesterOf(ctx context.Context) requester {
	return requester{requestID(ctx), callerName(ctx), traceOf(ctx)}
}

// fail is the failure that the caller of the request is answered with. It counts it, and
// logs what the caller is not told.
func (s *Server) fail(ctx context.Context, r requester, err error) failure.Failure {
	f := failure.Of(err, s.conf.ShowStacks)
	kind := actor.Kind(f.Detail.GetKind())
	s.metrics.Failed(kind)
	if f.Hidden == nil {
		return f
	}
	if kind == actor.ErrDeadline.Kind() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f.Message = actor.CallersDeadline(ctx).Error()
	}
	level := slog.LevelError
	if kind == actor.ErrDeadline.Kind() || kind == actor.ErrStopping.Kind() || kind == actor.ErrOverloaded.Kind() {
		level = slog.LevelDebug // nothing is broken
	}
	s.log.LogAttrs(ctx, level, "request failed", r.trace.AppendLog([]slog.Attr{
		slog.String("request_id", r.id), slog.String("token", r.token), slog.String("kind", string(kind)), slog.Any("error", f.Hidden),
		slog.String("app", f.Detail.GetApp()), slog.String("actor_type", f.Detail.GetActorType()),
		slog.String("actor_id", f.Detail.GetActorId()), slog.String("method", f.Detail.GetMethod()),
	})...)
	if kind == failure.KindInternal {
		f.Message = fmt.Sprintf("an internal error; the server's log has the details under %s", r.id)
	}
	return f
}

// failTurn is fail for an error that may not say whose it is.
func (s *Server) failTurn(ctx context.Context, id string, err error, inv *actor.Invocation) failure.Failure {
	f := s.fail(ctx, requester{id, inv.Caller, inv.Trace}, err)
	if f.Detail.ActorType == "" {
		f.Detail.App, f.Detail.ActorType, f.Detail.ActorId, f.Detail.Method = inv.Key.App, inv.Key.Type, inv.Key.ID, inv.Method
	}
	return f
}

// ended reports whether a stream's Receive ended because all was received.
func ended(err error) bool { return errors.Is(err, io.EOF) }
