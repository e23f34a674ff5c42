package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/server/stream"
)

// newStreamConfig is what the server's streams have in common.
func newStreamConfig(s *Services) *stream.Config {
	return &stream.Config{
		Host:           s.Calls,
		Memory:         s.edge.StreamMemory,
		MaxInvocations: s.edge.Conf.Bounds.StreamInvocations,
		MaxBytes:       s.edge.Conf.Bounds.StreamBytes,
		WriteTimeout:   s.edge.Conf.Bounds.BodyTimeout,
		Draining:       s.draining,
		Counters:       metrics.Streams{Metrics: s.edge.Metrics},
		Logger:         s.edge.Log,
		Spans:          s.edge.Conf.Spans,
	}
}

// streamConn is a stream's connection: the [stream.Conn] over Connect.
type streamConn struct {
	x    *edge.Exchange
	conn connect.StreamingHandlerConn
}

func (c *streamConn) Receive(in *invokestream.Request) error {
	err := c.conn.Receive(in)
	c.x.MessageReceived()
	switch {
	case ended(err):
		return io.EOF
	case tooLarge(err):
		return edge.ErrMessageTooLarge(c.x.Route.MaxMessage)
	}
	return err
}

// tooLarge recognizes what Connect says of a message beyond the limit.
func tooLarge(err error) bool {
	var wire *connect.Error
	return errors.As(err, &wire) && wire.Code() == connect.CodeResourceExhausted && !failure.Mapped(wire)
}

func (c *streamConn) Send(out *invokestream.Response) error { return c.conn.Send(out) }

func (c *streamConn) EndReceive() {
	_ = c.x.Control.SetReadDeadline(time.Unix(1, 0)) // HTTP/2 always can
}

func (c *streamConn) EndSend() { _ = c.x.Control.SetWriteDeadline(time.Unix(1, 0)) }

// streamEdge is the [stream.Edge] of a stream that a client opened.
type streamEdge struct{ x *edge.Exchange }

// maxContentType is the bound of actor.proto, in bytes.
const maxContentType = 255

// Admit implements [stream.Edge]: it checks what protovalidate checks of unary calls,
// and what the route of a unary call needs.
func (e *streamEdge) Admit(in *invokestream.Invocation) (actor.Invocation, error) {
	inv := actor.Invocation{Key: in.Key, Method: in.Method, Payload: in.Payload, ReadOnly: in.ReadOnly, Token: e.x.Caller.Name, Trace: e.x.Trace}
	if r := e.x.Edge.Conf.Spans; in.Traceparent != "" {
		inv.Trace = r.Arrived(actor.ParseTrace(in.Traceparent, in.Tracestate))
	} else if r != nil { // a span each
		inv.Trace = r.Arrived(e.x.Trace)
	}
	inv.Key.App = edge.AppOf(in.Key.App)
	if err := inv.Key.Validate(); err != nil {
		return inv, err
	}
	if err := e.x.Caller.RequireApp(inv.Key.App); err != nil {
		return inv, err
	}
	if !in.ReadOnly {
		if err := e.x.Caller.Require(edge.RoleInvoke); err != nil {
			return inv, err
		}
	}
	if err := validateMethod(in); err != nil {
		return inv, err
	}
	if n := len(in.Payload.ContentType); n > maxContentType {
		return inv, &actor.ArgumentError{Field: "content_type", Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", n, maxContentType)}
	}
	if limit := e.x.Edge.Conf.MaxPayloadBytes; int64(len(in.Payload.Data)) > limit {
		return inv, edge.ErrPayloadTooLarge(limit)
	}
	switch in.Consistency {
	case greenroomv1.Consistency_CONSISTENCY_UNSPECIFIED:
	case greenroomv1.Consistency_CONSISTENCY_STRONG:
		inv.Consistency = actor.ConsistencyStrong
	default:
		return inv, &actor.ArgumentError{Field: "consistency", Problem: fmt.Sprintf("is %d; give one of the enum's values", in.Consistency)}
	}
	if in.IdempotencyKey == "" || in.ReadOnly {
		return inv, nil
	}
	inv.IdempotencyKey = in.IdempotencyKey
	return inv, actor.ValidateIdempotencyKey(in.IdempotencyKey)
}

// validateMethod checks the method of an invocation.
func validateMethod(in *invokestream.Invocation) error {
	if in.Method == actor.MethodAll && in.ReadOnly {
		return &actor.ArgumentError{Field: "read_only", Problem: "is set, and several calls in one are none that only reads"}
	}
	return actor.ValidateMethod(in.Method)
}

func (e *streamEdge) Describe(ctx context.Context, id string, inv *actor.Invocation, err error, out *invokestream.Reply) {
	f := e.x.Edge.FailTurn(ctx, id, err, inv)
	out.Error = &greenroomv1.StreamError{Code: uint32(f.Code), Message: f.Message, Detail: f.Detail}
}

// ended reports whether a stream's Receive ended because all was received.
func ended(err error) bool { return errors.Is(err, io.EOF) }
