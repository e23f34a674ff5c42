package failure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server/stream"
)

// Failure is an error as callers see it.
type Failure struct {
	Answer
	Message string
	Detail  *greenroomv1.ErrorDetail
	// Hidden is the error for the log, if the caller must not see it; otherwise nil.
	Hidden error
}

// Error is a failure of the server's own making. Its text is for users.
type Error struct {
	Kind actor.Kind
	Text string
}

func (e *Error) Error() string { return e.Text }

// ErrStopping ends the long-lived streams of a server that stops.
var ErrStopping = &Error{actor.ErrStopping.Kind(), "the server is stopping"}

// Of is the one map from errors to what callers see. showStack adds the
// Wasm stack of a trap.
func Of(err error, showStack bool) Failure {
	var turn *actor.TurnError
	detail := &greenroomv1.ErrorDetail{}
	if errors.As(err, &turn) {
		detail.App, detail.ActorType, detail.ActorId = turn.Key.App, turn.Key.Type, turn.Key.ID
		detail.Method = turn.Method
		err = turn.Err
	}
	var one *actor.CallError
	if errors.As(err, &one) {
		detail.App, detail.ActorType, detail.ActorId, detail.Method = one.Key.App, one.Key.Type, one.Key.ID, one.Method
		err = one.Err
	}
	f := describe(err, detail, showStack)
	if one != nil {
		f.Message = fmt.Sprintf("call %d: %s", one.Index+1, f.Message)
	}
	f.Message = Bounded(f.Message, MaxMessage)
	detail.Stack = Bounded(detail.GetStack(), maxStack)
	f.Detail = detail
	return f
}

const (
	// MaxMessage bounds the message of an answer, in bytes, as maxStack and maxFault bound
	// other texts, and maxFaults their number: guests and uploads choose what is in them.
	MaxMessage = 8 << 10
	maxStack   = 64 << 10
	maxFault   = 1 << 10
	maxFaults  = 100
)

// Bounded returns text, or the first limit bytes of it with a mark.
func Bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = " […]"
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}

// KindOf returns the kind of an error, and the message that its caller gets.
func KindOf(err error) (kind, message string) {
	f := Of(err, false)
	return f.Detail.GetKind(), f.Message
}

// describe fills in detail's kind and what belongs to it.
func describe(err error, detail *greenroomv1.ErrorDetail, showStack bool) Failure {
	of := func(kind actor.Kind, message string) Failure {
		detail.Kind = string(kind)
		return Failure{Answer: AnswerOf(kind), Message: message}
	}

	var (
		guest    *actor.GuestError
		trap     *actor.TrapError
		argument *actor.ArgumentError
		tooLarge *actor.StateTooLargeError
		fuel     *actor.FuelError
		reason   *actor.ReasonError
		limit    *actor.LimitError
		space    *actor.SpaceError
		readOnly *actor.UnwritableError
		away     *actor.HostAwayError
		invalid  *actor.InvalidModuleError
		full     *stream.FullError
		remote   *routing.RemoteError
		hello    *routing.HelloError
		request  *Error
	)
	switch {
	case errors.As(err, &remote):
		return relayed(remote, detail, showStack)
	case errors.As(err, &hello):
		return of(KindPermissionDenied, hello.Error())
	case errors.As(err, &guest):
		f := of(KindGuestError, guest.Message)
		f.Answer = guestAnswer(guest.Status)
		detail.Retryable = guest.Retryable
		if guest.Retryable {
			detail.RetryAfterMs = milliseconds(guest.RetryAfter)
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
		return of(KindInvalidArgument, argument.Error())
	case errors.As(err, &tooLarge):
		return of(kindStateTooLarge, tooLarge.Error())
	case errors.As(err, &fuel):
		return of(kindOutOfFuel, fuel.Error())
	case errors.As(err, &reason):
		detail.Retryable = reason.Condition.Retryable()
		return of(reason.Condition.Kind(), reason.Error())
	case errors.As(err, &limit):
		detail.Retryable = true
		detail.RetryAfterMs = milliseconds(limit.RetryAfter)
		return of(limit.Condition.Kind(), limit.Error())
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
			fault = actor.Fault{Code: Bounded(fault.Code, maxFault), Message: Bounded(fault.Message, maxFault)}
			said.Faults = append(said.Faults, fault)
			detail.Faults = append(detail.Faults, &greenroomv1.ModuleFault{Code: fault.Code, Message: fault.Message})
		}
		return of(KindInvalidModule, said.Error())
	case errors.As(err, &full):
		detail.Retryable = true
		return of(KindStreamFull, full.Error())
	case errors.As(err, &request):
		switch request.Kind {
		case KindStreamFull, actor.ErrStopping.Kind(), actor.ErrUnavailable.Kind():
			detail.Retryable = true
		}
		return of(request.Kind, request.Text)
	}

	cond := actor.AsCondition(err)
	switch {
	case cond != nil:
	case errors.Is(err, context.DeadlineExceeded):
		cond = actor.ErrDeadline
	case errors.Is(err, context.Canceled):
		cond = actor.ErrCanceled
	default:
		f := of(KindInternal, "an internal error; the server's log has the details")
		f.Hidden = err
		return f
	}
	f := of(cond.Kind(), err.Error())
	detail.Retryable = cond.Retryable()
	// What is wrapped around a failure of ours may name files, addresses and
	// statements; around one of the caller's it says what to change.
	if f.Status >= http.StatusInternalServerError {
		f.Message = cond.Error()
		if err.Error() != f.Message {
			f.Hidden = err
		}
	}
	return f
}

// milliseconds rounds a wait up, for who would be early otherwise.
func milliseconds(d time.Duration) uint32 {
	return uint32(min((d + time.Millisecond - 1).Milliseconds(), math.MaxUint32))
}

// relayed is what another host said, as it said it.
func relayed(e *routing.RemoteError, detail *greenroomv1.ErrorDetail, showStack bool) Failure {
	proto.Reset(detail)
	proto.Merge(detail, e.Detail)
	if !showStack {
		detail.Stack = ""
	}
	// A code stands for a status by itself, unless the kind says more.
	a := guestAnswer(actor.Status(e.Code)) //nolint:gosec // guestAnswer takes what is no code for unknown
	if known := AnswerOf(actor.Kind(detail.GetKind())); detail.GetGuest() == nil && known.Code == a.Code {
		a = known
	}
	return Failure{Answer: a, Message: e.Message}
}

// RPC returns f as Connect, gRPC and gRPC-Web send it.
func (f Failure) RPC() *connect.Error {
	err := connect.NewError(f.Code, errors.New(f.Message))
	if d, detailErr := connect.NewErrorDetail(f.Detail); detailErr == nil { // fails only for nil
		err.AddDetail(d)
	}
	if seconds := retryAfterOf(f.Detail); seconds != "" {
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

// Mapped reports whether an error passed the map of Of where it arose.
func Mapped(err *connect.Error) bool {
	return slices.ContainsFunc(err.Details(), func(d *connect.ErrorDetail) bool { return d.Type() == errorDetailName })
}

var errorDetailName = string((&greenroomv1.ErrorDetail{}).ProtoReflect().Descriptor().FullName())

// headerRetryAfter is of retryable failures, in every protocol.
const headerRetryAfter = "Retry-After"

// minRetryAfter is the least that Retry-After says, in seconds. Retryable failures
// of ours pass quickly or not at all; a guest may know better.
const minRetryAfter = 1
