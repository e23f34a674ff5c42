package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// Payloads that are JSON may be given, and asked for, as JSON instead of bytes. The
// codecs see to it, so that handlers know bytes only, and so that what came as text
// stays the text that it was: 64-bit numbers survive, which a Value would round.

// takeJSON makes the payload of a request that gave JSON. text is the message in
// the JSON form; nil if it came in the binary one.
func takeJSON(msg proto.Message, text []byte) error {
	var payload *[]byte
	var value **structpb.Value
	var contentType string
	switch m := msg.(type) {
	case *greenroomv1.InvokeRequest:
		payload, value, contentType = &m.Payload, &m.Json, m.GetContentType()
	case *greenroomv1.QueryRequest:
		payload, value, contentType = &m.Payload, &m.Json, m.GetContentType()
	default:
		return nil
	}
	switch {
	case *value == nil:
		return nil
	case len(*payload) > 0:
		return errors.New("it has payload and json; give one of them")
	case !actor.IsJSON(contentType):
		return fmt.Errorf("it has json, and its content_type is %q; leave it out, or give payload", contentType)
	}
	data, err := jsonOf(*value, text)
	*payload, *value = data, nil
	return err
}

// adviseBytes says of an error of the JSON form how bytes are written there.
func adviseBytes(msg proto.Message, err error) error {
	if !strings.Contains(err.Error(), "for bytes field") {
		return err
	}
	switch msg.(type) {
	case *greenroomv1.InvokeRequest, *greenroomv1.QueryRequest:
		return fmt.Errorf("%w; bytes are a string in base64: use json for a payload that is JSON", err)
	}
	return fmt.Errorf("%w; bytes are a string in base64", err)
}

func jsonOf(value *structpb.Value, text []byte) ([]byte, error) {
	if text == nil {
		return json.Marshal(value.AsInterface()) // protojson's text is not the same in every build
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, members["json"]); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// asJSON stands in an answer for its own payload, which its codec sends as JSON.
var asJSON = structpb.NewNullValue()

// JSONReply is what to put in an answer's json: asJSON if that was asked for and the
// reply is JSON.
func JSONReply(asked bool, p actor.Payload) *structpb.Value {
	if asked && actor.IsJSON(p.ContentType) && utf8.Valid(p.Data) && json.Valid(p.Data) {
		return asJSON
	}
	return nil
}

// splitJSON returns an answer without the payload that it is to send as JSON, and
// that payload; ok is false for others.
func splitJSON(msg proto.Message) (rest proto.Message, payload []byte, ok bool) {
	switch m := msg.(type) {
	case *greenroomv1.InvokeResponse:
		if m.GetJson() == asJSON {
			return &greenroomv1.InvokeResponse{ContentType: m.GetContentType(), Version: m.GetVersion()}, m.GetPayload(), true
		}
	case *greenroomv1.QueryResponse:
		if m.GetJson() == asJSON {
			return &greenroomv1.QueryResponse{ContentType: m.GetContentType(), Version: m.GetVersion()}, m.GetPayload(), true
		}
	}
	return msg, nil, false
}

// appendJSONText writes an answer in the JSON form, its payload as it is.
func appendJSONText(dst []byte, rest proto.Message, payload []byte) ([]byte, error) {
	dst, err := protojson.MarshalOptions{}.MarshalAppend(dst, rest)
	if err != nil {
		return nil, err
	}
	dst = dst[:len(dst)-1] // the brace at the end
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(append(dst, `"json":`...), payload...)
	return append(dst, '}'), nil
}

// withValue is an answer in the binary form, its payload as a Value.
func withValue(rest proto.Message, payload []byte) (proto.Message, error) {
	value := new(structpb.Value)
	if err := protojson.Unmarshal(payload, value); err != nil {
		return nil, err
	}
	switch m := rest.(type) {
	case *greenroomv1.InvokeResponse:
		m.Json = value
	case *greenroomv1.QueryResponse:
		m.Json = value
	}
	return rest, nil
}
