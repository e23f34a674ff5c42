package edge

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/server/codec"
)

// errorInterceptor sends every error of a handler, and of what is between it and
// the wire, through the map of package failure.
type errorInterceptor struct{ e *Edge }

// WrapUnary implements [connect.Interceptor].
func (i *errorInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := errors.Join(codec.CarriedError(req.Any()), requireApp(ctx, req.Any())); err != nil {
			return nil, i.e.RPCError(ctx, err)
		}
		res, err := next(ctx, req)
		if err != nil {
			return nil, i.e.RPCError(ctx, err)
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
			return i.e.RPCError(ctx, err)
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
	if err := codec.CarriedError(msg); err != nil {
		return err
	}
	return requireApp(c.ctx, msg)
}

// RequireApp refuses a message that speaks of another app than its caller may. A
// kind of message that it does not know is refused to callers of one app.
func requireApp(ctx context.Context, msg any) error {
	x := ExchangeOf(ctx)
	if x == nil {
		return nil
	}
	switch m := msg.(type) {
	case interface{ GetApp() string }:
		return x.ForApp(AppOf(m.GetApp()))
	case interface{ GetActor() *greenroomv1.ActorKey }:
		return x.ForApp(AppOf(m.GetActor().GetApp()))
	case interface {
		GetHeader() *greenroomv1.UploadHeader
	}:
		if h := m.GetHeader(); h != nil { // which comes before all chunks
			return x.ForApp(AppOf(h.GetApp()))
		}
		return nil
	case *greenroomv1.ConnectRequest:
		if h := m.GetHello(); h != nil { // before which there is no other frame
			return x.ForApp(AppOf(h.GetApp()))
		}
		return nil
	case invokestream.Frame:
		return nil // each invocation is looked at on its own
	case *codec.Raw:
		return nil // its app is in a header, at which the handler of the route has looked
	}
	if x.Route.AppLess || x.Caller.app == "" {
		return nil
	}
	return x.Caller.RequireEverywhere()
}

// requester is how logs name a request.
type requester struct {
	id, token string // token is the name of the caller's
	trace     *actor.Trace
}

// requesterOf names the request that ctx belongs to.
func requesterOf(ctx context.Context) requester {
	return requester{RequestID(ctx), CallerName(ctx), TraceOf(ctx)}
}

// AppOf fills in the app that a caller did not name.
func AppOf(app string) string {
	if app == "" {
		return actor.DefaultApp
	}
	return app
}
