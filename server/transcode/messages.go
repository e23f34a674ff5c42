package transcode

import (
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/typed"
	"github.com/greenroom-run/greenroom/server/failure"
)

// Count counts memory that a translation takes, in bytes, or refuses it.
type Count func(bytes int) error

// Request returns the binary form of a request in JSON.
func Request(m *typed.Method, text []byte, count Count) ([]byte, error) {
	if err := count(m.RequestWeight(text)); err != nil {
		return nil, err
	}
	request, err := m.RequestFromJSON(text)
	if err != nil {
		return nil, &actor.ArgumentError{Field: "request", Problem: "is not the JSON form of " + m.Input() + ": " + err.Error()}
	}
	return request, nil
}

// Response returns the JSON form of a response. Its errors are of a turn that was committed: none
// is to be tried again.
func Response(m *typed.Method, data []byte, count Count) ([]byte, error) {
	weight, err := m.ResponseWeight(data)
	if err != nil {
		return nil, BadResponse(err.Error())
	}
	if err := count(weight); err != nil {
		return nil, &failure.Error{Kind: actor.ErrPayloadTooLarge.Kind(), Text: "the turn is committed, and the server has no memory left to write its response in the JSON form; ask for the binary form"}
	}
	text, err := m.ResponseToJSON(data)
	if err != nil {
		return nil, BadResponse(err.Error())
	}
	return text, nil
}

// BadResponse is what the caller of an rpc gets whose method replied with something else than the
// rpc's response.
func BadResponse(why string) error {
	return &actor.TrapError{Kind: actor.TrapProtocol, Message: "the turn is committed, and the method's reply is not the response of its rpc: " + why}
}

// badEvent is an event that is no message of its rpc.
type badEvent struct{ *actor.TrapError }

func (e badEvent) Unwrap() error { return e.TrapError }

// IsBadEvent reports whether [Message] returned an error because the event is no message of the rpc.
func IsBadEvent(err error) bool {
	var bad badEvent
	return errors.As(err, &bad)
}

// Message returns an event as a message of a streaming rpc, in the binary form or in JSON.
func Message(m *typed.Method, e *actor.Event, json bool, count Count) ([]byte, error) {
	bad := func(why string) error {
		return badEvent{&actor.TrapError{Kind: actor.TrapProtocol, Message: fmt.Sprintf(
			"the event at %s is no %s: %s; continue after that position to leave the event out", e.Position, m.Output(), why)}}
	}
	data := e.Payload.Data
	if ct := e.Payload.ContentType; len(data) > 0 && ct != abi.ContentTypeProtobuf {
		return nil, bad("its content type is " + ct + " instead of " + abi.ContentTypeProtobuf)
	}
	// Clients of the binary form need this, too: their own decoders do not know the event's position.
	weight, err := m.ResponseWeight(data)
	if err != nil {
		return nil, bad(err.Error())
	}
	data = m.WithPosition(data, e.Position.String())
	if !json {
		return data, nil
	}
	if err := count(weight); err != nil {
		return nil, err
	}
	text, err := m.ResponseToJSON(data)
	if err != nil {
		return nil, bad(err.Error())
	}
	return text, nil
}

// isJSON reports whether a payload is JSON. What is in Protobuf's form, as most calls of rpcs are,
// is not looked at closely.
func isJSON(p actor.Payload) bool {
	return p.ContentType != abi.ContentTypeProtobuf && actor.IsJSON(p.ContentType)
}
