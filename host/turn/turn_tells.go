package turn

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// tell sends a volatile message, once the turn is answered.
func (t *Turn) tell(m *abi.Message) abi.Code {
	if code := t.mayTime(); code != 0 {
		return code
	}
	if problem := beyondTell(m); problem != "" {
		return t.refuse(abi.CodeInvalid, problem)
	}
	tell := actor.Tell{
		To: actor.Key{App: t.spec.Key.App, Type: m.Type, ID: m.ID}, Method: m.Method, Channel: m.Channel,
		Delay:   time.Duration(m.DelayNano),
		Message: actor.Message{From: t.spec.Key, Undelivered: m.Undelivered, Cookie: m.Cookie},
		Link:    t.spec.Trace.Link(),
	}
	if m.DueUnixNano != 0 {
		tell.Delay = max(0, instant(m.DueUnixNano).Sub(t.spec.Now))
	}
	if m.OnBehalfType != "" || m.OnBehalfID != "" {
		tell.Message.From, tell.Message.By = actor.Key{App: t.spec.Key.App, Type: m.OnBehalfType, ID: m.OnBehalfID}, t.spec.Key
		if t.spec.Key.IsAnonymous() {
			return t.refuse(abi.CodeInvalid, "a volatile child sends messages for itself alone")
		}
		if err := tell.Message.From.Validate(); err != nil {
			return t.refuse(abi.CodeInvalid, "the actor on whose behalf it is sent: "+err.Error())
		}
	}
	if problem := unrelated(t, tell.To); problem != "" {
		return t.refuse(abi.CodeInvalid, problem)
	}
	if err := actor.ValidateName("method", m.Method); err != nil {
		return t.refuse(abi.CodeInvalid, err.Error())
	}
	if m.Undelivered != "" {
		if problem := t.spec.Methods.MethodProblem("message", m.Undelivered); problem != "" {
			return t.refuse(abi.CodeInvalid, problem)
		}
	}
	// The frame may be far larger than the message, and is the guest's.
	tell.To.Type, tell.To.ID, tell.Method = strings.Clone(tell.To.Type), strings.Clone(tell.To.ID), strings.Clone(tell.Method)
	tell.Message.Undelivered = strings.Clone(tell.Message.Undelivered)
	tell.Payload = actor.Payload{ContentType: strings.Clone(m.ContentType), Data: bytes.Clone(m.Payload)}
	return t.addTell(&tell)
}

// unrelated says why the turn sends no volatile message to an actor, for people; empty if it may.
func unrelated(t *Turn, to actor.Key) string {
	switch {
	case !to.IsAnonymous() && !t.spec.Key.IsAnonymous():
		if err := to.Validate(); err != nil {
			return err.Error()
		}
		return ""
	case actor.ValidateName("actor type", to.Type) == nil && t.spec.Spawner.Related(to):
		return ""
	case t.spec.Key.IsAnonymous():
		return "a volatile child sends messages to its parent and to other children of it; have the parent send this one"
	default:
		return "that is no volatile child of this actor, or one of an earlier activation"
	}
}

// addTell adds a message, unless the turn has sent too many, or the host has no memory for one
// that waits.
func (t *Turn) addTell(tell *actor.Tell) abi.Code {
	size := t.done.TellBytes + tell.Size()
	switch {
	case len(t.done.Tells) >= actor.MaxTells:
		return t.refuse(abi.CodeTooMany, fmt.Sprintf("a turn sends at most %d volatile messages", actor.MaxTells))
	case size > actor.MaxTellBytes:
		return t.refuse(abi.CodeTooLarge, fmt.Sprintf("the volatile messages of this turn have more than %d bytes together", actor.MaxTellBytes))
	case tell.Delay > 0 && !t.env.Timers.Room(tell.To.App, 1, size):
		return t.refuse(abi.CodeNotReady, "the timers and delayed messages of this app take all the memory that the host gives them; try again later, or send a durable message")
	}
	t.done.Tells, t.done.TellBytes = append(t.done.Tells, *tell), size
	return 0
}

// beyondTell says what a frame has that volatile messages have not, for people; empty for nothing.
func beyondTell(m *abi.Message) string {
	switch {
	case m.ForwardType != "" || m.ForwardID != "":
		return "a volatile message is not forwarded; name a method that gets what was not delivered, or send a durable message"
	case m.Flags&^abi.MessageVolatile != 0:
		return fmt.Sprintf("a volatile message has the flag %d alone, and this one has %d", abi.MessageVolatile, m.Flags)
	case m.DelayNano < 0 || m.DelayNano > int64(actor.MaxReminderDuration):
		return fmt.Sprintf("the delay is %v; give 0 or more, and at most 290 years", time.Duration(m.DelayNano))
	case m.DelayNano != 0 && m.DueUnixNano != 0:
		return "the message has both a delay and a time; give one of them"
	case m.Channel > abi.MaxChannel:
		return fmt.Sprintf("the channel is %d; channels go from 0 to %d", m.Channel, abi.MaxChannel)
	case len(m.ContentType) > actor.MaxContentType:
		return fmt.Sprintf("the content type has %d bytes; at most %d are allowed", len(m.ContentType), actor.MaxContentType)
	}
	return ""
}
