package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/server/stream"
)

// InvokeStream implements ActorService. The stream's messages are received and
// sent in the form of package invokestream.
func (a *actorService) InvokeStream(ctx context.Context, bidi *connect.BidiStream[greenroomv1.InvokeStreamRequest, greenroomv1.InvokeStreamResponse]) error {
	x := exchangeOf(ctx)
	if err := a.s.streams.enter(x.owner()); err != nil {
		return err
	}
	defer a.s.streams.leave(x.owner())
	err := stream.Serve(ctx, a.s.streamConf, stream.Peer{
		RequestID: x.id, App: x.owner(), Conn: &streamConn{x, bidi.Conn()}, Edge: &streamEdge{x},
	})
	_ = x.control.SetWriteDeadline(a.s.bodyDeadline()) // of how the stream ended
	return err
}

// newStreamConfig is what the server's streams have in common.
func (s *Server) newStreamConfig() *stream.Config {
	return &stream.Config{
		Host:           s.conf.Host,
		Memory:         stream.NewMemory(s.conf.MaxStreamsBytes),
		MaxInvocations: s.conf.bounds.streamInvocations,
		MaxBytes:       s.conf.bounds.streamBytes,
		WriteTimeout:   s.conf.bounds.bodyTimeout,
		Draining:       s.draining,
		Counters:       metrics.Streams{Metrics: s.metrics},
		Logger:         s.log,
	}
}

// streamConn is a stream's connection: the [stream.Conn] over Connect.
type streamConn struct {
	x    *exchange
	conn connect.StreamingHandlerConn
}

// Receive implements [stream.Conn].
func (c *streamConn) Receive(in *invokestream.Request) error {
	err := c.conn.Receive(in)
	c.x.messageReceived()
	switch {
	case ended(err):
		return io.EOF
	case tooLarge(err):
		return errMessageTooLarge(c.x.route.maxMessage)
	}
	return err
}

// tooLarge recognizes what Connect says of a message beyond the limit.
func tooLarge(err error) bool {
	var wire *connect.Error
	return errors.As(err, &wire) && wire.Code() == connect.CodeResourceExhausted && !failure.Mapped(wire)
}

// Send implements [stream.Conn].
func (c *streamConn) Send(out *invokestream.Response) error { return c.conn.Send(out) }

// EndReceive implements [stream.Conn].
func (c *streamConn) EndReceive() {
	_ = c.x.control.SetReadDeadline(time.Unix(1, 0)) // HTTP/2 always can
}

// EndSend implements [stream.Conn].
func (c *streamConn) EndSend() { _ = c.x.control.SetWriteDeadline(time.Unix(1, 0)) }

// streamEdge is the [stream.Edge] of a stream that a client opened.
type streamEdge struct{ x *exchange }

// maxContentType is the bound of actor.proto, in bytes.
const maxContentType = 255

// Admit implements [stream.Edge]: it checks what protovalidate checks of unary calls,
// and what the route of a unary call needs.
func (e *streamEdge) Admit(in *invokestream.Invocation) (actor.Invocation, error) {
	inv := actor.Invocation{Key: in.Key, Method: in.Method, Payload: in.Payload, ReadOnly: in.ReadOnly, Caller: e.x.caller.name, Trace: e.x.trace}
	if in.Traceparent != "" {
		inv.Trace = actor.ParseTrace(in.Traceparent, in.Tracestate).Child()
	}
	inv.Key.App = appOf(in.Key.App)
	if err := inv.Key.Validate(); err != nil {
		return inv, err
	}
	if err := e.x.caller.requireApp(inv.Key.App); err != nil {
		return inv, err
	}
	if !in.ReadOnly {
		if err := e.x.caller.require(RoleInvoke); err != nil {
			return inv, err
		}
	}
	if err := actor.ValidateName("method", in.Method); err != nil {
		return inv, err
	}
	if n := len(in.Payload.ContentType); n > maxContentType {
		return inv, &actor.ArgumentError{Field: "content_type", Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", n, maxContentType)}
	}
	if limit := e.x.server.conf.MaxPayloadBytes; int64(len(in.Payload.Data)) > limit {
		return inv, errPayloadTooLarge(limit)
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

// Describe implements [stream.Edge].
func (e *streamEdge) Describe(ctx context.Context, id string, inv *actor.Invocation, err error, out *invokestream.Reply) {
	f := e.x.server.failTurn(ctx, id, err, inv)
	out.Error = &greenroomv1.StreamError{Code: uint32(f.Code), Message: f.Message, Detail: f.Detail}
}

// messageBytes counts bytes of a stream's message that is not whole yet, and says why
// it is not read on. What is counted, messageReceived takes off.
func (x *exchange) messageBytes(n int) error {
	err := x.server.streamConf.Memory.Receive(x.owner(), int64(n), x.partial)
	x.partial += int64(n)
	return err
}

// messageReceived says that a message has been received, or will never be.
func (x *exchange) messageReceived() {
	x.server.streamConf.Memory.Release(x.owner(), x.partial)
	x.partial = 0
}

// unbounded is the size of a body without a limit.
const unbounded = math.MaxInt64 >> 1
