package transcode

import (
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

// isJSON reports whether a payload is JSON. What is in Protobuf's form, as most calls of rpcs are,
// is not looked at closely.
func isJSON(p actor.Payload) bool {
	return p.ContentType != abi.ContentTypeProtobuf && actor.IsJSON(p.ContentType)
}
