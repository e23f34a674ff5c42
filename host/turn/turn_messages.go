package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// maxMessages is how many messages a turn may send.
const maxMessages = 256

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
