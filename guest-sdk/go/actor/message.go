package actor

import (
	"fmt"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

// SendOption changes a message.
type SendOption func(*outgoing)

// outgoing is the frame that [Send] sends. err says what of the options cannot be.
type outgoing struct {
	abi.Message
	err error
}

// Delay delivers a message after d instead of at once. Such a message has no order.
func Delay(d time.Duration) SendOption {
	return func(m *outgoing) { m.DelayNano, m.DueUnixNano = int64(d), 0 }
}

// At delivers a message at a time instead of at once. Such a message has no order.
func At(t time.Time) SendOption {
	return func(m *outgoing) {
		m.DelayNano = 0
		m.DueUnixNano, m.err = unixNano("At", t)
	}
}

// OnUndelivered has a method of the sender get the message back if nobody consumes it: what
// it had sent, as input, with a [Cause] of the kind [CauseUndelivered].
func OnUndelivered(method string) SendOption {
	return func(m *outgoing) { m.Undelivered = method }
}

// Forward sends the message on to another actor if nobody consumes it.
func Forward(to Ref) SendOption {
	return func(m *outgoing) { m.ForwardType, m.ForwardID = to.Type, to.ID }
}

// OnBehalf sends the message for another actor: that one is From in the receiver's [Cause],
// and gets what comes back; the sender is By.
func OnBehalf(of Ref) SendOption {
	return func(m *outgoing) { m.OnBehalfType, m.OnBehalfID = of.Type, of.ID }
}

// Cookie gives the message a number of the sender's own. The receiver finds it in its
// [Cause], and so does the sender if the message comes back.
func Cookie(n uint64) SendOption {
	return func(m *outgoing) { m.Cookie = n }
}

// Channel puts a message of [Tell] into one of the sender's ordering lanes, 0 to 255: messages of
// one sender, receiver and channel arrive in their order.
func Channel(n uint8) SendOption {
	return func(m *outgoing) { m.Channel = uint32(n) }
}

// Errors of messages, to compare with [errors.Is], beside [ErrReadOnly], [ErrTooMany],
// [ErrTooLarge] and [ErrNotReady].
var (
	// ErrInvalidMessage is a message that cannot be; its message says what to change.
	ErrInvalidMessage = NewError(StatusInvalidArgument, "invalid_message", "the message cannot be")
	// ErrInboxFull is a message to an actor that has as many as it may.
	ErrInboxFull = NewError(StatusResourceExhausted, "inbox_full", "the receiver has as many messages as it may").Retry(0)
)

// Send sends a durable message to an actor of the app: a turn of that actor runs the method,
// later and exactly once in effect. Like a change of the state it is part of the turn: when
// the turn fails, nothing was sent. Messages of one sender to one receiver arrive in the
// order in which they were sent, unless they have a [Delay].
//
// A turn of the receiver that fails is repeated, as its type's [MessagePolicy] says. A
// message that nobody consumes goes to the actor of [Forward], or becomes a dead letter and
// comes back to the method of [OnUndelivered]. The method may be private, and must not be
// read-only. The input is as that of a reminder, at most 65536 bytes.
//
//	actor.Send(ctx, actor.Ref{Type: "Depot", ID: "north"}, "Ship", order, actor.OnUndelivered("NotShipped"))
func Send(ctx *Context, to Ref, method string, in any, options ...SendOption) error {
	m := outgoing{Message: abi.Message{Method: method}}
	m.Type, m.ID, m.Service = to.parts()
	for _, option := range options {
		option(&m)
	}
	if m.err != nil {
		return sendFault(to, method, ErrInvalidMessage.Messagef("%v", m.err))
	}
	var err error
	if m.ContentType, m.Payload, err = ctx.live().values.input(in); err != nil {
		return sendFault(to, method, err)
	}
	switch code := sendMessage(ctx, abi.AppendMessage(nil, &m.Message)); code {
	case 0:
		return nil
	case abi.CodeInvalid:
		return sendFault(to, method, ErrInvalidMessage.Messagef("%s", or(problem(ctx), ErrInvalidMessage.Message)))
	default:
		return sendFault(to, method, effectError(ctx, code))
	}
}

// Tell sends a volatile message to an actor of the app: as fast as memory, and lost with a host
// that fails. It leaves when the turn has committed. Messages of one sender, receiver and
// [Channel] arrive in their order, at most once, and are not repeated: one that no turn of the
// receiver consumes, or whose turn fails, comes back to the method of [OnUndelivered]. That is
// certain as long as both actors are on one host, and likely otherwise. There is no [Forward].
// The input is at most as large as that of a call.
func Tell(ctx *Context, to Ref, method string, in any, options ...SendOption) error {
	return Send(ctx, to, method, in, append(options, func(m *outgoing) { m.Flags |= abi.MessageVolatile })...)
}

func sendFault(to Ref, method string, err error) error {
	return fmt.Errorf("send %s to %s: %w", method, to, err)
}

// effectError is the error of a code that a function of messages or of the actor's life has
// answered.
func effectError(ctx *Context, code abi.Code) error {
	var err *Error
	switch code {
	case abi.CodeNoState:
		err = ErrNoState
	case abi.CodeTooMany:
		err = ErrTooMany
	case abi.CodeTooLarge:
		err = ErrTooLarge
	case abi.CodeNotReady:
		err = ErrNotReady
	case abi.CodeFull:
		err = ErrInboxFull
	case abi.CodeTaken:
		err = ErrTaken
	case abi.CodeOver:
		err = ErrLifeOver
	case abi.CodeNotFound:
		err = ErrServiceNotFound
	default:
		return codeError(code)
	}
	return err.Messagef("%s", or(problem(ctx), err.Message))
}

// from returns the actors of a call or a message, which alias the frame.
func from(f *abi.Turn) (from, by Ref) {
	return Ref{Type: strings.Clone(f.CallerType), ID: strings.Clone(f.CallerID)}, Ref{Type: strings.Clone(f.ByType), ID: strings.Clone(f.ByID)}
}
