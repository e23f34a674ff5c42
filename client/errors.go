package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// The kinds of errors that are the client's own; docs/errors.md lists the
// server's.
const (
	// KindUnreachable: no server took the call.
	KindUnreachable = "unreachable"
	// KindConnectionLost: the connection broke before the answer came, or
	// something on the way, like a gateway, answered in the server's place.
	KindConnectionLost = "connection_lost"
	// KindNoStream: the server, or what stands before it, has no streams, and
	// [Config.StreamOnly] refuses other ways. Nothing was sent.
	KindNoStream = "no_stream"
	// KindClosed: the client was closed.
	KindClosed = "client_closed"
	// KindDeadline and KindCanceled: the call's context ended.
	KindDeadline = "deadline"
	KindCanceled = "canceled"

	// Kinds of the server.
	kindAmbiguous  = "ambiguous"
	kindStopping   = "stopping"
	kindStreamFull = "stream_full"
	kindHostFull   = "host_full"
)

// Error is why a call failed. Every error of a call is one, or wraps one.
type Error struct {
	// Code is the Connect code.
	Code connect.Code
	// Kind is the stable name of the failure; branch on it.
	Kind string
	// Message is for people.
	Message string
	// Retryable says that the call had no effect and may succeed later. The
	// client has repeated it as often as it was allowed to.
	Retryable bool
	// RetryAfter is how long the actor asks to wait before the next attempt; 0: it
	// does not say. The client has waited as long, where the context let it.
	RetryAfter time.Duration
	// OutcomeUnknown says that the call may have taken effect, or may yet. It is
	// set whatever the Kind when an attempt before the last one was lost: what
	// the server answers to a repetition says nothing of the attempt before it,
	// unless it is the recorded reply. It is never set for queries, which have no
	// effect.
	OutcomeUnknown bool
	// Guest is set for errors that the actor returned on purpose.
	Guest *Guest
	// Stack is the Wasm stack of an actor that trapped, if the server shows it.
	Stack string

	cause error
}

// Guest is what an actor said of an error that it returned on purpose.
type Guest struct {
	// Code is the application's own name for the failure.
	Code string
	// Detail is opaque to Greenroom; ContentType is its media type.
	ContentType string
	Detail      []byte
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code.String() + ": " + e.Message }

// Unwrap returns the context's error, that of the connection, or that the client was
// closed, if one is the cause.
func (e *Error) Unwrap() error { return e.cause }

// errorOf makes an Error of an answer.
func errorOf(code connect.Code, message string, d *greenroomv1.ErrorDetail) *Error {
	e := &Error{Code: code, Kind: d.GetKind(), Message: message, Retryable: d.GetRetryable(), Stack: d.GetStack()}
	e.RetryAfter = time.Duration(d.GetRetryAfterMs()) * time.Millisecond
	e.OutcomeUnknown = e.Kind == kindAmbiguous
	if g := d.GetGuest(); g != nil {
		e.Guest = &Guest{Code: g.GetCode(), ContentType: g.GetContentType(), Detail: g.GetDetail()}
	}
	return e
}

// afterAttempts completes the error of the last attempt: once the outcome of an
// earlier one is unknown, no error of a later one makes it known.
func (e *Error) afterAttempts(earlierUnknown bool) *Error {
	if earlierUnknown && !e.OutcomeUnknown {
		e.OutcomeUnknown, e.Retryable = true, false
		e.Message += "; an attempt before this one was lost, and whether it took effect is unknown"
	}
	return e
}

// settleQuery corrects the error of a query: a query has no effect, so it
// may be repeated whatever its outcome.
func (e *Error) settleQuery() {
	if e.OutcomeUnknown {
		e.OutcomeUnknown = false
		e.Retryable = e.Kind == KindConnectionLost
	}
}

// errorOfRPC makes an Error of what a request, or a stream as a whole, ended
// with. answered reports whether the server's API said it, which its ErrorDetail
// shows: an error without one may be of anything on the way, also of a gateway
// that passed the request on and did not wait for the answer.
func errorOfRPC(err error) (e *Error, answered bool) {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return errLost(err), false
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if detail, ok := v.(*greenroomv1.ErrorDetail); ok {
				return errorOf(ce.Code(), ce.Message(), detail), true
			}
		}
	}
	if refuses(ce) {
		return &Error{Code: ce.Code(), Kind: ce.Code().String(), Message: ce.Message(), cause: ce}, false
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return errUnreachable(err), false
	}
	e = errLost(err)
	if connect.IsWireError(err) {
		e.Code = ce.Code()
	}
	return e, false
}

// refuses tells of errors that say that a request was not taken, whoever answers
// with them: it was not permitted, or there is nothing that would take it. All
// others are also what gateways say after they passed a request on.
func refuses(err *connect.Error) bool {
	switch err.Code() {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeUnimplemented:
		return true
	case connect.CodeNotFound, connect.CodeInvalidArgument:
		// Connect says the latter itself of an answer that it cannot decode.
		return connect.IsWireError(err)
	}
	return false
}

func errUnreachable(cause error) *Error {
	return &Error{
		Code: connect.CodeUnavailable, Kind: KindUnreachable, Retryable: true, cause: cause,
		Message: fmt.Sprintf("the server cannot be reached: %v", cause),
	}
}

func errLost(cause error) *Error {
	return &Error{
		Code: connect.CodeUnknown, Kind: KindConnectionLost, OutcomeUnknown: true, cause: cause,
		Message: fmt.Sprintf("the server's answer did not come, and whether the call took effect is unknown: %v", cause),
	}
}

func errStreamOnly() *Error {
	return &Error{
		Code: connect.CodeUnimplemented, Kind: KindNoStream,
		Message: "the server does not take InvokeStream over HTTP/2, and Config.StreamOnly refuses unary calls; let HTTP/2 through to a server that has it, or leave StreamOnly false",
	}
}

func errClosed() *Error {
	return &Error{
		Code: connect.CodeCanceled, Kind: KindClosed, OutcomeUnknown: true,
		Message: "the client was closed",
	}
}

// errContext is a call whose context ended; sent reports whether the server may
// know of the call.
func errContext(err error, sent bool) *Error {
	e := &Error{Code: connect.CodeCanceled, Kind: KindCanceled, Message: "the call's context was cancelled", OutcomeUnknown: sent, cause: err}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Code, e.Kind, e.Message = connect.CodeDeadlineExceeded, KindDeadline, "the call's deadline passed"
	}
	return e
}

// connectCode is a code as the stream sends it.
func connectCode(n uint32) connect.Code {
	if c := connect.Code(n); c >= connect.CodeCanceled && c <= connect.CodeUnauthenticated {
		return c
	}
	return connect.CodeUnknown
}
