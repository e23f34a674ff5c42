package invokestream

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// EncodeTell returns a volatile message as [Invocation].Tell, whose invocation has the rest.
func EncodeTell(m *actor.Message) ([]byte, error) {
	data, err := proto.Marshal(forwardedMessage(m))
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return data, nil
}

// DecodeTell returns the volatile message that asks for the turn of an invocation; nil if none
// does.
func DecodeTell(i *Invocation) (*actor.Message, error) {
	if len(i.Tell) == 0 {
		return nil, nil //nolint:nilnil // no message asks for it
	}
	var m greenroomv1.ForwardedMessage
	if err := proto.Unmarshal(i.Tell, &m); err != nil {
		return nil, fmt.Errorf("decode message: %w", err)
	}
	if m.From == nil && m.Service == "" {
		return nil, &actor.ArgumentError{Field: "message", Problem: "has no sender"}
	}
	return messageOf(i.Key.App, &m)
}

// forwardedMessage returns what the receiver of a message sees of it.
func forwardedMessage(m *actor.Message) *greenroomv1.ForwardedMessage {
	return &greenroomv1.ForwardedMessage{From: forwardedActor(m.From), By: forwardedActor(m.By), Failed: m.Failed, Cookie: m.Cookie, Disconnected: m.Disconnected, Service: m.Service}
}

// messageOf returns the message to an actor of an app.
func messageOf(app string, f *greenroomv1.ForwardedMessage) (*actor.Message, error) {
	m := &actor.Message{From: keyOfForwarded(app, f.From), By: keyOfForwarded(app, f.By), Failed: f.Failed, Cookie: f.Cookie, Disconnected: f.Disconnected, Service: f.Service}
	if m.Service != "" {
		if err := actor.ValidateService(m.Service); err != nil {
			return nil, err
		}
	}
	for _, k := range []actor.Key{m.From, m.By} {
		if k == (actor.Key{}) {
			continue
		}
		if err := k.Validate(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func forwardedActor(k actor.Key) *greenroomv1.ForwardedActor {
	if k.ID == "" {
		return nil
	}
	return &greenroomv1.ForwardedActor{Type: k.Type, Id: k.ID}
}

// keyOfForwarded returns the key of an actor of an app; the zero Key if there is none.
func keyOfForwarded(app string, a *greenroomv1.ForwardedActor) actor.Key {
	if a == nil {
		return actor.Key{}
	}
	return actor.Key{App: app, Type: a.Type, ID: a.Id}
}
