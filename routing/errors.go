package routing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// RemoteError is the error that another host answered a call with, as a client of that host would
// see it. For [errors.Is] and [errors.As] it is also the [*actor.Condition] of its kind.
type RemoteError struct {
	// Code is the number of the Connect code.
	Code    uint32
	Message string
	// Detail is never nil.
	Detail *greenroomv1.ErrorDetail
}

// Error returns the text that the error has on its own host; it names the code of a guest's error.
func (e *RemoteError) Error() string {
	guest := actor.GuestError{Code: e.Detail.GetGuest().GetCode(), Message: e.Message}
	return guest.Error()
}

// Is makes it the condition of its kind.
func (e *RemoteError) Is(target error) bool {
	c, ok := target.(*actor.Condition)
	return ok && e.Detail.GetKind() == string(c.Kind())
}

// As makes it the condition of its kind, or what the guest's failure was at the other host.
func (e *RemoteError) As(target any) bool {
	switch to := target.(type) {
	case **actor.Condition:
		for _, c := range actor.Conditions() {
			if string(c.Kind()) == e.Detail.GetKind() {
				*to = c
				return true
			}
		}
	case **actor.GuestError:
		g := e.Detail.GetGuest()
		if g == nil {
			return false
		}
		*to = &actor.GuestError{
			Status: actor.Status(e.Code), Code: g.GetCode(), Message: e.Message, //nolint:gosec // a code
			Detail:    actor.Payload{ContentType: g.GetContentType(), Data: g.GetDetail()},
			Retryable: e.Detail.GetRetryable(), RetryAfter: time.Duration(e.Detail.GetRetryAfterMs()) * time.Millisecond,
		}
		return true
	case **actor.TrapError:
		switch kind := actor.TrapKind(e.Detail.GetKind()); kind {
		case actor.TrapUnreachable, actor.TrapStack, actor.TrapMemory, actor.TrapProtocol:
			*to = &actor.TrapError{Kind: kind, Message: e.Message}
			return true
		}
	}
	return false
}

// newRemoteError returns the error of a reply.
func newRemoteError(e *greenroomv1.StreamError) *RemoteError {
	r := &RemoteError{Code: e.GetCode(), Message: e.GetMessage(), Detail: e.GetDetail()}
	if r.Detail == nil {
		r.Detail = &greenroomv1.ErrorDetail{}
	}
	return r
}

// NotOwnerError refuses a call that another host sent here; the call has not begun. It wraps
// actor.ErrNotOwner.
type NotOwnerError struct {
	// Owner is the host that holds the actor, to the knowledge of this host; empty if unknown.
	Owner actor.HostID
}

func (e *NotOwnerError) Error() string { return actor.ErrNotOwner.Error() }

// Unwrap makes it actor.ErrNotOwner.
func (e *NotOwnerError) Unwrap() error { return actor.ErrNotOwner }

// HelloError is a session that was refused, by either side. Its text names what to
// change.
type HelloError struct{ text string }

func (e *HelloError) Error() string { return e.text }

// unsentError explains why calls were not sent.
type unsentError struct{ text string }

func (e *unsentError) Error() string { return e.text }

var errGone = &unsentError{"its host is not a member of the cluster any more"}

// lostError explains why the outcome of calls that were sent is unknown.
type lostError struct{ cause error }

func (e *lostError) Error() string {
	return fmt.Sprintf("the connection to its host broke: %v", e.cause)
}
func (e *lostError) Unwrap() error { return e.cause }

// isOver reports whether a call's context has ended, or its deadline has passed: the
// timer that ends the context may be later than a peer's.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// contextError translates the end of a call's context.
func contextError(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) || err == nil && isOver(ctx) {
		return actor.CallersDeadline(ctx)
	}
	return actor.ErrCanceled
}

// noOwner is [actor.ErrNoOwner] with what is known.
func noOwner(format string, args ...any) error {
	return fmt.Errorf("%w: %s; try again", actor.ErrNoOwner, fmt.Sprintf(format, args...))
}

// detailOf returns the detail that a peer's API gave with an error; nil if the error is not of
// the API.
func detailOf(err error) *greenroomv1.ErrorDetail {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return nil
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if detail, ok := v.(*greenroomv1.ErrorDetail); ok {
				return detail
			}
		}
	}
	return nil
}

// The kinds of a peer's refusals that are no conditions of package actor.
const (
	kindStreamFull = "stream_full"
	kindHostFull   = "host_full"

	kindPermissionDenied = "permission_denied"
	kindUnauthenticated  = "unauthenticated"
)

// hasNotBegun reports whether a peer refused a call for a reason of its own, which may pass while
// the call waits.
func hasNotBegun(kind string) bool {
	return kind == string(actor.ErrStopping.Kind()) || kind == kindStreamFull
}
