package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/inbox"
)

// maxMessages is how many messages a turn may send.
const maxMessages = 256

// Outbox makes messages of what turns ask for. Its methods may be called concurrently.
type Outbox interface {
	// Message returns what a request asks for, if the receiver's inbox has room for it. It may
	// wait for the store. Errors are those of [inbox.Outbox.Message].
	Message(ctx context.Context, r *inbox.Request) (actor.ReminderSpec, error)
}

// Send implements [engine.Calls].
func (t *Turn) Send(m *abi.Message) (abi.Code, error) {
	t.reminders.problem = ""
	switch {
	case t.migrating, t.spec.ReadOnly:
		return abi.CodeReadOnly, nil
	}
	if m.Service != "" {
		if code := t.resolve(m); code != 0 {
			return code, nil
		}
	}
	switch {
	case m.Flags&abi.MessageVolatile != 0:
		return t.tell(m), nil
	case t.spec.Key.IsAnonymous():
		return mayKeep(t), nil
	case t.env.Outbox == nil || t.env.Reminders == nil:
		return t.refuse(abi.CodeNotReady, "this host has no messages"), nil
	case t.reminders.sent >= maxMessages:
		return t.refuse(abi.CodeTooMany, "a turn sends at most "+strconv.Itoa(maxMessages)+" messages"), nil
	}
	r, problem := requestOf(t.spec.Key, m)
	if problem != "" {
		return t.refuse(abi.CodeInvalid, problem), nil
	}
	spec, err := t.env.Outbox.Message(t.ctx, &r)
	if err != nil {
		return t.unsent(err)
	}
	spec.Link = t.spec.Trace.Link()
	unordered := r.Delayed() || t.spec.Stateless // no row of the sender orders it
	made, err := t.env.Reminders.Prepare(t.ctx, spec)
	if err != nil {
		return t.unsent(err)
	}
	t.tokens = append(t.tokens, made.ID)
	if unordered {
		made.Name = actor.UnorderedMessageName(made.ID)
	}
	size := int64(made.Size())
	if t.reminders.bytes+size > t.spec.ReminderBytes {
		return t.refuse(abi.CodeTooLarge, fmt.Sprintf("the messages and reminders of this turn have more than %d bytes; keep the data in the state, and name it in the message", t.spec.ReminderBytes)), nil
	}
	t.reminders.bytes += size
	t.reminders.sent++
	t.done.Reminders.Sets(&made)
	return 0, nil
}

// unsent returns what a guest gets whose message was refused with err.
func (t *Turn) unsent(err error) (abi.Code, error) {
	var invalid *actor.ArgumentError
	switch cond := actor.AsCondition(err); {
	case errors.Is(t.ctx.Err(), context.DeadlineExceeded):
		return 0, actor.ErrDeadline
	case t.ctx.Err() != nil:
		return 0, actor.ErrCanceled
	case errors.As(err, &invalid), cond == actor.ErrTypeNotFound, cond == actor.ErrMethodNotFound:
		return t.refuse(abi.CodeInvalid, err.Error()), nil
	case cond == actor.ErrPayloadTooLarge:
		return t.refuse(abi.CodeTooLarge, err.Error()), nil
	case cond == actor.ErrInboxFull:
		return t.refuse(abi.CodeFull, err.Error()), nil
	}
	t.Log(int32(slog.LevelWarn), "cannot send a message now: "+err.Error())
	return t.refuse(abi.CodeNotReady, "the host cannot send messages now"), nil
}

// requestOf returns what a message frame of an actor asks for, or what is wrong with it. The frame
// is the host's own.
func requestOf(self actor.Key, m *abi.Message) (r inbox.Request, problem string) {
	of := func(typ, id string) actor.Key { return actor.Key{App: self.App, Type: typ, ID: id} }
	switch {
	case m.Flags&^abi.MessageVolatile != 0:
		return r, "a message that is sent has no flag but volatile"
	case m.LimitMillis != 0:
		return r, "a message that is sent has no time limit; the type of its receiver says how old it may get"
	case m.DueUnixNano != 0 && m.DelayNano != 0:
		return r, "a message has a time or a delay; give one of them"
	case m.DelayNano < 0:
		return r, fmt.Sprintf("the delay of a message is %v; give 0 or more", time.Duration(m.DelayNano))
	}
	r = inbox.Request{
		To: of(m.Type, m.ID), Method: m.Method, Payload: actor.Payload{ContentType: m.ContentType, Data: m.Payload},
		At: instant(m.DueUnixNano), After: time.Duration(m.DelayNano),
		Message: actor.Message{From: self, Undelivered: m.Undelivered, Cookie: m.Cookie},
	}
	if m.ForwardType != "" || m.ForwardID != "" {
		r.Forward = of(m.ForwardType, m.ForwardID)
	}
	if m.OnBehalfType != "" || m.OnBehalfID != "" {
		r.From, r.By = of(m.OnBehalfType, m.OnBehalfID), self
	}
	return r, ""
}

// fillMessage fills in the frame of a turn that a message asks for.
func fillMessage(frame *abi.Turn, m *actor.Message) {
	frame.Failed = m.Failed
	switch {
	case m.Service != "":
		frame.Cause, frame.CauseName = abi.CauseServices, m.Service
	case m.Disconnected:
		frame.Cause = abi.CauseDisconnected
	case m.Failed != "":
		frame.Cause = abi.CauseUndelivered
	default:
		frame.Cause = abi.CauseMessage
	}
	frame.CallerType, frame.CallerID, frame.Cookie = m.From.Type, m.From.ID, m.Cookie
	if m.By.ID != "" {
		frame.ByType, frame.ByID = m.By.Type, m.By.ID
	}
}
