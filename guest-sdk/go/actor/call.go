package actor

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/protobuf"
)

// Remote is a method of an actor type, with the types of its input and output:
//
//	var deposit = actor.Remote[Amount, Balance]{Type: "Account", Method: "Deposit"}
//	…
//	balance, err := deposit.Call(ctx, "bob", Amount{Cents: 500})
type Remote[In, Out any] struct{ Type, Method string }

// Call is the function [Call] for an actor of the type.
func (r Remote[In, Out]) Call(ctx *Context, id string, in In, options ...CallOption) (Out, error) {
	return Call[Out](ctx, Ref{Type: r.Type, ID: id}, r.Method, in, options...)
}

// Tell is the function [Tell] for an actor of the type.
func (r Remote[In, Out]) Tell(ctx *Context, id string, in In, options ...SendOption) error {
	return Tell(ctx, Ref{Type: r.Type, ID: id}, r.Method, in, options...)
}

// Send is the function [Send] for an actor of the type.
func (r Remote[In, Out]) Send(ctx *Context, id string, in In, options ...SendOption) error {
	return Send(ctx, Ref{Type: r.Type, ID: id}, r.Method, in, options...)
}

// CallOption changes a call.
type CallOption func(*message)

// message is the frame that [Call] sends. committed is the pointer of [Committed], or nil.
type message struct {
	abi.Message
	committed *bool
}

// Timeout bounds how long a call may take, with the wait until the other actor is free. It is
// rounded up to whole milliseconds; a negative one is a millisecond, the shortest. 0: as long
// as the turn.
func Timeout(d time.Duration) CallOption {
	return func(m *message) {
		m.LimitMillis = 0
		if d != 0 {
			m.LimitMillis = uint32(min((max(d, 1)-1)/time.Millisecond+1, 1<<32-1))
		}
	}
}

// Atomic makes a call part of the caller's transaction, or fails it before it has run, with
// [ErrNotAtomic].
func Atomic() CallOption {
	return func(m *message) { m.Flags |= abi.MessageAtomic }
}

// Committed sets own to whether the called turn was committed on its own, at another server. Such
// a turn is not taken back if the caller's turn fails. own can be true although [Call] returns an
// error: that of a reply that could not be read.
func Committed(own *bool) CallOption {
	return func(m *message) { m.committed = own }
}

// Errors of calls that did not run, to compare with [errors.Is]. abi/SPEC.md section 5,
// Calls, has the codes of the others.
var (
	// ErrNotAtomic is a call of an actor that cannot be in one transaction with the caller.
	ErrNotAtomic = NewError(StatusFailedPrecondition, abi.CallNotAtomic, "the actor cannot be in one transaction with the caller")
	// ErrNotReentrant is a call of an actor whose turn waits for this call.
	ErrNotReentrant = NewError(StatusFailedPrecondition, abi.CallNotReentrant, "the actor waits for this call")
	// ErrBusy is a call of an actor that has no room for it.
	ErrBusy = NewError(StatusResourceExhausted, abi.CallBusy, "the actor or its host has no room for the call")
	// ErrCallTimeout is a call that did not end in time. Nothing of it was done.
	ErrCallTimeout = NewError(StatusDeadlineExceeded, abi.CallDeadline, "the call did not end in time")
)

// PerhapsRan reports whether err is of a call after which the callee may have run, or may run
// yet, and is committed then: the callee is at another server, whose answer was lost. After any
// other error of a call nothing of it remains, except after bad_reply: see [Call].
func PerhapsRan(err error) bool {
	e := find(err)
	return e != nil && (e.Code == abi.CallTimeout || e.Code == abi.CallUnavailable)
}

// Call runs a method of another actor of the app and returns its reply. The turn and all that
// it calls are one transaction: what they change is committed together, when this turn is,
// or not at all. At another server a call commits on its own, unless [Atomic] or the method's
// [RequireAtomic] refuses that, or a [CoLocate] group keeps both on one server. An error is the
// callee's own, or says why it did not run; what the callee has changed is taken back then,
// and this turn may go on. One that returns the error takes back everything. The code bad_reply
// says that the callee succeeded with a reply that is no Out: what it has changed stays.
//
// The input is as that of a reminder: a [Payload] or []byte as it is, nil or [None] for none,
// anything else as JSON. The callee may call back methods that are [Reentrant], and gets
// [ErrNotReentrant] for others. Read-only methods may call read-only ones, and get
// [ErrReadOnly] for others.
//
//	left, err := actor.Call[int](ctx, actor.Ref{Type: "Account", ID: "bob"}, "Withdraw", 5)
func Call[Out any](ctx *Context, to Ref, method string, in any, options ...CallOption) (out Out, err error) {
	m := message{Message: abi.Message{Method: method}}
	m.Type, m.ID, m.Service = to.parts()
	for _, option := range options {
		option(&m)
	}
	if m.committed != nil {
		*m.committed = false
	}
	if m.ContentType, m.Payload, err = ctx.live().values.input(in); err != nil {
		return out, err
	}
	data, code, err := callOther(ctx, abi.AppendMessage(nil, &m.Message))
	switch {
	case err != nil:
		return out, err
	case code == abi.CodeInvalid:
		return out, NewError(StatusInvalidArgument, abi.CallInvalid, "the actor or the method has text that is not UTF-8")
	case code < 0:
		return out, codeError(code)
	}
	var r abi.Result
	if err := abi.DecodeResult(data, &r); err != nil {
		return out, NewError(StatusInternal, "bad_frame", err.Error())
	}
	if m.committed != nil {
		*m.committed = r.Flags&abi.ResultCommitted != 0
	}
	if r.Status != 0 {
		return out, &Error{
			Status: Status(r.Status), Code: strings.Clone(r.Code), Message: strings.Clone(r.Message), Retryable: r.Retryable,
			RetryAfter: time.Duration(r.RetryAfterMillis) * time.Millisecond,
			Detail:     Payload{ContentType: strings.Clone(r.DetailContentType), Data: bytes.Clone(r.Detail)},
		}
	}
	switch out := any(&out).(type) {
	case *None:
	case *[]byte:
		*out = bytes.Clone(r.Payload)
	case *Payload:
		*out = Payload{ContentType: strings.Clone(r.ContentType), Data: bytes.Clone(r.Payload)}
		if out.ContentType == "" {
			out.ContentType = contentTypeJSON
		}
	case protobuf.Decoder:
		err := protobufType(r.ContentType, r.Payload)
		if err == nil {
			err = protobuf.Unmarshal(r.Payload, out)
		}
		if err != nil {
			return *new(Out), NewError(StatusInternal, "bad_reply", "the reply of "+to.Type+"."+method+", "+strconv.Itoa(len(r.Payload))+" bytes, is no such message: "+err.Error())
		}
	default:
		if len(r.Payload) == 0 {
			return *new(Out), NewError(StatusInternal, "bad_reply", to.Type+"."+method+" replied with nothing; give Call the type None")
		}
		if err := unmarshalInto(r.Payload, out); err != nil {
			return *new(Out), NewError(StatusInternal, "bad_reply", "the reply of "+to.Type+"."+method+", "+strconv.Itoa(len(r.Payload))+" bytes, "+jsonProblem(err))
		}
	}
	return out, nil
}

// callOther sends a message frame and returns the result frame. The callee may call this
// actor back if a method of it is reentrant: then the host knows the state struct as it is
// before, and the struct is what the callee has made of it after.
func callOther(ctx *Context, frame []byte) ([]byte, abi.Code, error) {
	in := ctx.live()
	if !ctx.typ.reentrant || ctx.readOnly || !ctx.shared {
		data, code := callActor(ctx, frame)
		return data, code, nil
	}
	if err := ctx.saveState(); err != nil {
		return nil, 0, err
	}
	before := in.host.StateRevision()
	data, code := callActor(ctx, frame)
	if after := in.host.StateRevision(); after != before {
		if err := ctx.reloadState(after); err != nil {
			return nil, 0, err
		}
	}
	return data, code, nil
}
