package turn

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/inbox"
)

// Outbox makes messages of what turns ask for. Its methods may be called concurrently.
type Outbox interface {
	// Message returns what a request asks for, if the receiver's inbox has room for it. It may
	// wait for the store. Errors are those of [inbox.Outbox.Message].
	Message(ctx context.Context, r *inbox.Request) (actor.ReminderSpec, error)
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
