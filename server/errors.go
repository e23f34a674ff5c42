package server

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server/stream"
)

// The kinds that are not conditions of package actor.
const (
	kindInvalidArgument  actor.Kind = "invalid_argument"
	kindInvalidModule    actor.Kind = "invalid_module"
	kindStateTooLarge    actor.Kind = "state_too_large"
	kindOutOfFuel        actor.Kind = "out_of_fuel"
	kindGuestError       actor.Kind = "guest_error"
	kindUnauthenticated  actor.Kind = "unauthenticated"
	kindPermissionDenied actor.Kind = "permission_denied"
	kindOriginRefused    actor.Kind = "origin_refused"
	kindHostRefused      actor.Kind = "host_refused"
	kindPathNotFound     actor.Kind = "path_not_found"
	kindServiceNotFound  actor.Kind = "service_not_found"
	kindMethodRefused    actor.Kind = "http_method_refused"
	kindBodyTimeout      actor.Kind = "body_timeout"
	kindNotImplemented   actor.Kind = "not_implemented"
	kindStreamFull       actor.Kind = "stream_full"
	kindInternal         actor.Kind = "internal"
)

// answer is where a kind lands: the Connect code, and the status of the plain
// HTTP form. Connect's own statuses follow from the code alone.
type answer struct {
	code   connect.Code
	status int
}

// answerOf is the map from kinds to codes; docs/errors.md shows it, and a test
// keeps the two the same. An unknown kind is internal.
//
// A limit that the same request would meet again is invalid_argument or
// failed_precondition, never resource_exhausted: clients back off and repeat
// that one.
func answerOf(kind actor.Kind) answer {
	switch kind {
	case kindInvalidArgument:
		return answer{connect.CodeInvalidArgument, http.StatusBadRequest}
	case kindInvalidModule:
		return answer{connect.CodeInvalidArgument, http.StatusUnprocessableEntity}
	case actor.ErrPayloadTooLarge.Kind(), actor.ErrModuleTooLarge.Kind():
		return answer{connect.CodeInvalidArgument, http.StatusRequestEntityTooLarge}
	case kindBodyTimeout:
		return answer{connect.CodeDeadlineExceeded, http.StatusRequestTimeout}
	case actor.ErrTypeNotFound.Kind(), actor.ErrMethodNotFound.Kind(), actor.ErrActorNotFound.Kind(),
		actor.ErrModuleNotFound.Kind(), actor.ErrNoGeneration.Kind(), actor.ErrSettingNotFound.Kind(), actor.ErrHostGone.Kind(),
		actor.ErrReminderNotFound.Kind(), actor.ErrTimerNotFound.Kind(), actor.ErrDeadLetterNotFound.Kind(), kindServiceNotFound:
		return answer{connect.CodeNotFound, http.StatusNotFound}
	case kindPathNotFound:
		return answer{connect.CodeUnimplemented, http.StatusNotFound}
	case kindMethodRefused:
		return answer{connect.CodeUnimplemented, http.StatusMethodNotAllowed}
	case kindNotImplemented:
		return answer{connect.CodeUnimplemented, http.StatusNotImplemented}
	case actor.ErrNotReadOnly.Kind():
		return answer{connect.CodeFailedPrecondition, http.StatusMethodNotAllowed}
	case kindStateTooLarge, kindOutOfFuel, actor.ErrSchemaNewer.Kind(), actor.ErrSchemaRollback.Kind(), actor.ErrModuleInUse.Kind(),
		actor.ErrNoSecretsKey.Kind():
		return answer{connect.CodeFailedPrecondition, http.StatusConflict}
	case actor.ErrKeyReused.Kind():
		return answer{connect.CodeFailedPrecondition, http.StatusUnprocessableEntity}
	case actor.ErrStale.Kind(), actor.ErrLeft.Kind(), actor.ErrKeyExists.Kind(), actor.ErrDeployConflict.Kind(),
		actor.ErrFiringTaken.Kind():
		return answer{connect.CodeAborted, http.StatusConflict}
	case actor.ErrMailboxFull.Kind(), actor.ErrHostFull.Kind(), kindStreamFull:
		return answer{connect.CodeResourceExhausted, http.StatusTooManyRequests}
	case actor.ErrOverloaded.Kind(), actor.ErrStopping.Kind(), actor.ErrUnavailable.Kind(), actor.ErrNoTokens.Kind(),
		actor.ErrNoOwner.Kind(), actor.ErrNotOwner.Kind():
		return answer{connect.CodeUnavailable, http.StatusServiceUnavailable}
	case actor.ErrDeadline.Kind():
		return answer{connect.CodeDeadlineExceeded, http.StatusGatewayTimeout}
	case actor.ErrCanceled.Kind():
		return answer{connect.CodeCanceled, statusClientClosedRequest}
	case actor.ErrAmbiguous.Kind():
		return answer{connect.CodeUnknown, http.StatusInternalServerError}
	case actor.ErrStateDamaged.Kind(), actor.ErrModuleDamaged.Kind():
		return answer{connect.CodeDataLoss, http.StatusInternalServerError}
	case kindUnauthenticated:
		return answer{connect.CodeUnauthenticated, http.StatusUnauthorized}
	case kindPermissionDenied, kindOriginRefused, kindHostRefused:
		return answer{connect.CodePermissionDenied, http.StatusForbidden}
	default: // the kinds of traps, and kindInternal
		return answer{connect.CodeInternal, http.StatusInternalServerError}
	}
}

// statusClientClosedRequest has no name in net/http; Connect answers it for
// canceled, too.
const statusClientClosedRequest = 499

// guestAnswer places an error that a guest returned on purpose, by the status
// that it chose. The HTTP statuses are those of the Connect protocol.
func guestAnswer(s actor.Status) answer {
	code := connect.Code(s)
	if code < connect.CodeCanceled || code > connect.CodeUnauthenticated {
		code = connect.CodeUnknown
	}
	switch code {
	case connect.CodeCanceled:
		return answer{code, statusClientClosedRequest}
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return answer{code, http.StatusBadRequest}
	case connect.CodeDeadlineExceeded:
		return answer{code, http.StatusGatewayTimeout}
	case connect.CodeNotFound:
		return answer{code, http.StatusNotFound}
	case connect.CodeAlreadyExists, connect.CodeAborted:
		return answer{code, http.StatusConflict}
	case connect.CodePermissionDenied:
		return answer{code, http.StatusForbidden}
	case connect.CodeResourceExhausted:
		return answer{code, http.StatusTooManyRequests}
	case connect.CodeUnimplemented:
		return answer{code, http.StatusNotImplemented}
	case connect.CodeUnavailable:
		return answer{code, http.StatusServiceUnavailable}
	case connect.CodeUnauthenticated:
		return answer{code, http.StatusUnauthorized}
	default:
		return answer{code, http.StatusInternalServerError}
	}
}

// failure is an error as callers see it.
type failure struct {
	answer
	message string
	detail  *greenroomv1.ErrorDetail
	// hidden is for the log and not for the caller; nil if the caller is told all.
	hidden error
}

// requestError is a failure of the server's own making. Its text is for users.
type requestError struct {
	kind actor.Kind
	text string
}

func (e *requestError) Error() string { return e.text }

// failureOf is the one map from errors to what callers see. showStack adds the
// Wasm stack of a trap.
func failureOf(err error, showStack bool) failure {
	var turn *actor.TurnError
	detail := &greenroomv1.ErrorDetail{}
	if errors.As(err, &turn) {
		detail.App, detail.ActorType, detail.ActorId = turn.Key.App, turn.Key.Type, turn.Key.ID
		detail.Method = turn.Method
		err = turn.Err
	}
	f := describe(err, detail, showStack)
	f.message = bounded(f.message, maxMessage)
	detail.Stack = bounded(detail.GetStack(), maxStack)
	f.detail = detail
	return f
}

const (
	// maxMessage, maxStack and maxFault are how much of a text an answer has, and
	// maxFaults how many faults: guests and uploads choose what stands in them.
	// In bytes.
	maxMessage = 8 << 10
	maxStack   = 64 << 10
	maxFault   = 1 << 10
	maxFaults  = 100
)

// bounded returns text, or the first limit bytes of it with a mark.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = " […]"
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}

// KindOf returns the kind of an error, and the message that its caller gets.
func KindOf(err error) (kind, message string) {
	f := failureOf(err, false)
	return f.detail.GetKind(), f.message
}

// describe fills in detail's kind and what belongs to it.
func describe(err error, detail *greenroomv1.ErrorDetail, showStack bool) failure {
	of := func(kind actor.Kind, message string) failure {
		detail.Kind = string(kind)
		return failure{answer: answerOf(kind), message: message}
	}

	var (
		guest    *actor.GuestError
		trap     *actor.TrapError
		argument *actor.ArgumentError
		tooLarge *actor.StateTooLargeError
		fuel     *actor.FuelError
		reason   *actor.ReasonError
		space    *actor.SpaceError
		readOnly *actor.UnwritableError
		away     *actor.HostAwayError
		invalid  *actor.InvalidModuleError
		full     *stream.FullError
		remote   *routing.RemoteError
		hello    *routing.HelloError
		request  *requestError
	)
	switch {
	case errors.As(err, &remote):
		return relayed(remote, detail, showStack)
	case errors.As(err, &hello):
		return of(kindPermissionDenied, hello.Error())
	case errors.As(err, &guest):
		f := of(kindGuestError, guest.Message)
		f.answer = guestAnswer(guest.Status)
		detail.Retryable = guest.Retryable
		if guest.Retryable {
			detail.RetryAfterMs = uint32(min(guest.RetryAfter.Milliseconds(), math.MaxUint32))
		}
		detail.Guest = &greenroomv1.GuestErrorDetail{
			Code: guest.Code, ContentType: guest.Detail.ContentType, Detail: guest.Detail.Data,
		}
		return f
	case errors.As(err, &trap):
		if showStack {
			detail.Stack = trap.Stack
		}
		return of(actor.Kind(trap.Kind), trap.Message)
	case errors.As(err, &argument):
		return of(kindInvalidArgument, argument.Error())
	case errors.As(err, &tooLarge):
		return of(kindStateTooLarge, tooLarge.Error())
	case errors.As(err, &fuel):
		return of(kindOutOfFuel, fuel.Error())
	case errors.As(err, &reason):
		detail.Retryable = reason.Condition.Retryable()
		return of(reason.Condition.Kind(), reason.Error())
	case errors.As(err, &space):
		detail.Retryable = true
		return of(actor.ErrUnavailable.Kind(), space.Error())
	case errors.As(err, &readOnly):
		detail.Retryable = true
		return of(actor.ErrUnavailable.Kind(), readOnly.Error())
	case errors.As(err, &away):
		detail.Retryable = true
		return of(actor.ErrNoOwner.Kind(), away.Error())
	case errors.As(err, &invalid):
		said := &actor.InvalidModuleError{}
		for _, fault := range invalid.Faults[:min(len(invalid.Faults), maxFaults)] {
			fault = actor.Fault{Code: bounded(fault.Code, maxFault), Message: bounded(fault.Message, maxFault)}
			said.Faults = append(said.Faults, fault)
			detail.Faults = append(detail.Faults, &greenroomv1.ModuleFault{Code: fault.Code, Message: fault.Message})
		}
		return of(kindInvalidModule, said.Error())
	case errors.As(err, &full):
		detail.Retryable = true
		return of(kindStreamFull, full.Error())
	case errors.As(err, &request):
		switch request.kind {
		case kindStreamFull, actor.ErrStopping.Kind(), actor.ErrUnavailable.Kind():
			detail.Retryable = true
		}
		return of(request.kind, request.text)
	}

	cond := actor.AsCondition(err)
	switch {
	case cond != nil:
	case errors.Is(err, context.DeadlineExceeded):
		cond = actor.ErrDeadline
	case errors.Is(err, context.Canceled):
		cond = actor.ErrCanceled
	default:
		f := of(kindInternal, "an internal error; the server's log has the details")
		f.hidden = err
		return f
	}
	f := of(cond.Kind(), err.Error())
	detail.Retryable = cond.Retryable()
	// What is wrapped around a failure of ours may name files, addresses and
	// statements; around one of the caller's it says what to change.
	if f.status >= http.StatusInternalServerError {
		f.message = cond.Error()
		if err.Error() != f.message {
			f.hidden = err
		}
	}
	return f
}

// relayed is what another host said, as it said it.
func relayed(e *routing.RemoteError, detail *greenroomv1.ErrorDetail, showStack bool) failure {
	proto.Reset(detail)
	proto.Merge(detail, e.Detail)
	if !showStack {
		detail.Stack = ""
	}
	// A code stands for a status by itself, unless the kind says more.
	a := guestAnswer(actor.Status(e.Code)) //nolint:gosec // guestAnswer takes what is no code for unknown
	if known := answerOf(actor.Kind(detail.GetKind())); detail.GetGuest() == nil && known.code == a.code {
		a = known
	}
	return failure{answer: a, message: e.Message}
}

// rpc returns f as Connect, gRPC and gRPC-Web send it.
func (f failure) rpc() *connect.Error {
	err := connect.NewError(f.code, errors.New(f.message))
	if d, detailErr := connect.NewErrorDetail(f.detail); detailErr == nil { // fails only for nil
		err.AddDetail(d)
	}
	if seconds := retryAfterOf(f.detail); seconds != "" {
		err.Meta().Set(headerRetryAfter, seconds)
	}
	return err
}

// retryAfterOf returns what Retry-After says of a failure, in whole seconds and
// rounded up; empty for one that is not retryable.
func retryAfterOf(d *greenroomv1.ErrorDetail) string {
	if !d.GetRetryable() {
		return ""
	}
	return strconv.FormatUint(max(minRetryAfter, (uint64(d.GetRetryAfterMs())+999)/1000), 10)
}
