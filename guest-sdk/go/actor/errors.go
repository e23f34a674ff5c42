package actor

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

// Status is the kind of an error, as gRPC and Connect number them.
type Status uint16

// The statuses that a method may choose.
const (
	StatusCanceled           = Status(abi.StatusCanceled)
	StatusUnknown            = Status(abi.StatusUnknown)
	StatusInvalidArgument    = Status(abi.StatusInvalidArgument)
	StatusDeadlineExceeded   = Status(abi.StatusDeadlineExceeded)
	StatusNotFound           = Status(abi.StatusNotFound)
	StatusAlreadyExists      = Status(abi.StatusAlreadyExists)
	StatusPermissionDenied   = Status(abi.StatusPermissionDenied)
	StatusResourceExhausted  = Status(abi.StatusResourceExhausted)
	StatusFailedPrecondition = Status(abi.StatusFailedPrecondition)
	StatusAborted            = Status(abi.StatusAborted)
	StatusOutOfRange         = Status(abi.StatusOutOfRange)
	StatusUnimplemented      = Status(abi.StatusUnimplemented)
	StatusInternal           = Status(abi.StatusInternal)
	StatusUnavailable        = Status(abi.StatusUnavailable)
	StatusDataLoss           = Status(abi.StatusDataLoss)
	StatusUnauthenticated    = Status(abi.StatusUnauthenticated)
)

// Error is an error that reaches the caller as it is. A method may return it
// wrapped; the caller then gets the whole text with this status, code and
// detail. Any other error reaches the caller as [StatusUnknown] with its text.
//
// An Error is a value: what derives from it is a copy, so that an application
// can keep its errors in package variables. [errors.Is] compares two of them by
// status and code.
type Error struct {
	Status Status
	// Code is the application's own name for the error: "out_of_stock". At
	// most 128 bytes.
	Code string
	// Message is for people. At most 4096 bytes.
	Message string
	// Retryable says that the same call may succeed later.
	Retryable bool
	// RetryAfter is how long to wait before that; 0: as the caller sees fit. It
	// reaches callers in whole milliseconds, and counts with Retryable alone.
	RetryAfter time.Duration
	// Detail is for programs. At most 65536 bytes.
	Detail Payload
}

// NewError returns an error for callers.
func NewError(status Status, code, message string) *Error {
	return &Error{Status: status, Code: code, Message: message}
}

// Errorf returns an error of status [StatusFailedPrecondition] with the application's
// code for it and a formatted message: the everyday refusal.
func Errorf(code, format string, args ...any) *Error {
	return NewError(StatusFailedPrecondition, code, fmt.Sprintf(format, args...))
}

// Error returns code and message.
func (e *Error) Error() string {
	if e == nil {
		return "no error"
	}
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// Is reports whether target is an Error of the same status and code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	if !ok || e == nil || t == nil {
		return ok && e == t
	}
	return t.Status == e.Status && t.Code == e.Code
}

// Messagef returns a copy of e with another message.
func (e *Error) Messagef(format string, args ...any) *Error {
	c := *e
	c.Message = fmt.Sprintf(format, args...)
	return &c
}

// WithDetail returns a copy of e that carries v: a [Payload] as it is, []byte as
// bytes, anything else as JSON. If v has no JSON form, the result is another
// error that says so, of status [StatusInternal] and with the code "bad_detail". A
// detail of more than 65536 bytes is left out, and the message says so.
func (e *Error) WithDetail(v any) *Error {
	c := *e
	switch v := v.(type) {
	case Payload:
		c.Detail = v
	case []byte:
		c.Detail = Payload{ContentType: contentTypeBytes, Data: v}
	default:
		data, err := json.Marshal(v)
		if err != nil {
			return NewError(StatusInternal, "bad_detail", "the detail of the error "+strconv.Quote(e.Error())+" has no JSON form: "+err.Error())
		}
		c.Detail = Payload{ContentType: contentTypeJSON, Data: data}
	}
	return &c
}

// Retry returns a copy of e that tells the caller that trying again may help, and
// after how long; 0 leaves that to the caller. Over HTTP it is Retry-After.
func (e *Error) Retry(after time.Duration) *Error {
	c := *e
	c.Retryable, c.RetryAfter = true, max(after, 0)
	return &c
}

// Errors of [State], to compare with [errors.Is].
var (
	// ErrReadOnly is a write in a read-only method.
	ErrReadOnly = NewError(StatusFailedPrecondition, "read_only", "a read-only method may not change anything")
	// ErrNoState is a use of state in a stateless type, and what a volatile child does that is
	// stored beside a state.
	ErrNoState = NewError(StatusFailedPrecondition, "no_state", "actors of a stateless type have no state")
	// ErrInvalidKey is a key that is empty, over 512 bytes or not UTF-8.
	ErrInvalidKey = NewError(StatusInvalidArgument, "invalid_key", "a state key must have 1 to 512 bytes of UTF-8")
	// ErrTooLarge is a value or a reply above the host's limit.
	ErrTooLarge = NewError(StatusResourceExhausted, "too_large", "larger than the host's limit")
	// ErrBadState is stored state that does not fit the Go type it is read into.
	ErrBadState = NewError(StatusFailedPrecondition, "bad_state", "the stored state does not fit the type")
	// ErrNotJSON is a value for the state that has no JSON form.
	ErrNotJSON = NewError(StatusInternal, "not_json", "the value has no JSON form")
)

// codeError returns the error of a host function's code.
func codeError(code abi.Code) error {
	switch code {
	case abi.CodeReadOnly:
		return ErrReadOnly
	case abi.CodeNoState:
		return ErrNoState
	case abi.CodeInvalid:
		return ErrInvalidKey
	case abi.CodeTooLarge:
		return ErrTooLarge
	case abi.CodeOver:
		return ErrLifeOver
	}
	return NewError(StatusInternal, "host_error", "the host answered with code "+strconv.Itoa(int(code)))
}

// failed reports whether a method returned an error. A nil *Error in a variable of
// type error is none, whatever Go thinks: who returns one means that all is well.
func failed(err error) bool {
	e, ours := err.(*Error)
	return err != nil && (!ours || e != nil)
}

// errorFrame returns the frame of a method's error.
func errorFrame(err error) []byte {
	f := abi.Error{Status: abi.StatusUnknown, Message: err.Error()}
	if e := find(err); e != nil {
		f = abi.Error{
			Status: uint16(e.Status), Code: strings.ToValidUTF8(e.Code, "\uFFFD"), Message: f.Message, Retryable: e.Retryable,
			RetryAfterMillis:  uint32(min((max(e.RetryAfter, 0)+time.Millisecond-1)/time.Millisecond, 1<<32-1)),
			DetailContentType: strings.ToValidUTF8(e.Detail.ContentType, "\uFFFD"), Detail: e.Detail.Data,
		}
		if !e.Retryable {
			f.RetryAfterMillis = 0
		}
		if err == error(e) {
			f.Message = e.Message
		}
	}
	f.Message = strings.ToValidUTF8(f.Message, "\uFFFD")
	if len(f.Detail) > abi.MaxErrorDetailLen {
		f.Message += " (its detail of " + strconv.Itoa(len(f.Detail)) + " bytes was left out: at most " +
			strconv.Itoa(abi.MaxErrorDetailLen) + " are allowed)"
		f.Detail, f.DetailContentType = nil, ""
	}
	return abi.AppendError(nil, &f)
}

// find returns the first Error that err is or wraps, as errors.As does; that one
// needs more reflection than TinyGo 0.40 has.
func find(err error) *Error {
	for err != nil {
		switch e := err.(type) {
		case *Error:
			return e // nil, too
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				if found := find(inner); found != nil {
					return found
				}
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}
