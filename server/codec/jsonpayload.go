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
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// Payloads that are JSON may be given, and asked for, as JSON instead of bytes. The
// codecs see to it, so that handlers know bytes only, and so that what came as text
// stays the text that it was: 64-bit numbers survive, which a Value would round.

// takeJSON makes the payloads of a request that gave JSON. text is the message in
// the JSON form; nil if it came in the binary one.
func takeJSON(msg proto.Message, text []byte) error {
	switch m := msg.(type) {
	case *greenroomv1.InvokeRequest:
		return takeJSONOf(&m.Payload, &m.Json, m.GetContentType(), text)
	case *greenroomv1.QueryRequest:
		return takeJSONOf(&m.Payload, &m.Json, m.GetContentType(), text)
	case *greenroomv1.InvokeAllRequest:
		for i, one := range elements(text, "calls", len(m.GetCalls())) {
			c := m.GetCalls()[i]
			if err := takeJSONOf(&c.Payload, &c.Json, c.GetContentType(), one); err != nil {
				return fmt.Errorf("call %d: %w", i+1, err)
			}
		}
	case *greenroomv1.SendRequest:
		for i, one := range elements(text, "messages", len(m.GetMessages())) {
			c := m.GetMessages()[i]
			if err := takeJSONOf(&c.Payload, &c.Json, c.GetContentType(), one); err != nil {
				return fmt.Errorf("message %d: %w", i+1, err)
			}
		}
	}
	return nil
}

// elements returns the texts of the n elements of a list in a message that was decoded from text;
// nil for each if it came in the binary form.
func elements(text []byte, list string, n int) []json.RawMessage {
	of := make([]json.RawMessage, n)
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) == nil { // it is none in the binary form
		_ = json.Unmarshal(members[list], &of)
	}
	return of
}

// takeJSONOf is takeJSON for one payload, of a message that has the given text.
func takeJSONOf(payload *[]byte, value **structpb.Value, contentType string, text []byte) error {
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

// advise says of an error of the JSON form which members there are, or how bytes are written there.
func advise(msg proto.Message, err error) error {
	if strings.Contains(err.Error(), "unknown field") {
		return fmt.Errorf("%w; known are %s", err, strings.Join(membersOf(msg.ProtoReflect().Descriptor()), ", "))
	}
	if !strings.Contains(err.Error(), "for bytes field") {
		return err
	}
	switch msg.(type) {
	case *greenroomv1.InvokeRequest, *greenroomv1.InvokeAllRequest, *greenroomv1.QueryRequest, *greenroomv1.SendRequest:
		return fmt.Errorf("%w; bytes are a string in base64: use json for a payload that is JSON", err)
	}
	return fmt.Errorf("%w; bytes are a string in base64", err)
}

// membersOf returns the members of a message in JSON, and in parentheses those of the messages of
// this API that are among them, but not of theirs.
func membersOf(d protoreflect.MessageDescriptor) []string {
	var names []string
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		name := f.JSONName()
		if of := f.Message(); of != nil && !f.IsMap() && of.ParentFile().Package() == d.ParentFile().Package() {
			var inner []string
			for j := range of.Fields().Len() {
				inner = append(inner, of.Fields().Get(j).JSONName())
			}
			name += " (" + strings.Join(inner, ", ") + ")"
		}
		names = append(names, name)
	}
	return names
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
	case *greenroomv1.CallReply:
		if m.GetJson() == asJSON {
			return &greenroomv1.CallReply{ContentType: m.GetContentType()}, m.GetPayload(), true
		}
	}
	return msg, nil, false
}

// appendJSON writes a message in the JSON form.
func appendJSON(dst []byte, msg proto.Message) ([]byte, error) {
	if all, ok := msg.(*greenroomv1.InvokeAllResponse); ok {
		dst = append(dst, `{"replies":[`...)
		for i, r := range all.GetReplies() {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendJSON(dst, r); err != nil {
				return nil, err
			}
		}
		return append(dst, "]}"...), nil
	}
	if rest, payload, ok := splitJSON(msg); ok {
		return appendJSONText(dst, rest, payload)
	}
	return protojson.MarshalOptions{}.MarshalAppend(dst, msg)
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

// withValues is a message in the binary form: payloads that it is to send as JSON are Values.
func withValues(msg proto.Message) (proto.Message, error) {
	if all, ok := msg.(*greenroomv1.InvokeAllResponse); ok {
		out := &greenroomv1.InvokeAllResponse{}
		for _, r := range all.GetReplies() {
			m, err := withValues(r)
			if err != nil {
				return nil, err
			}
			out.Replies = append(out.Replies, m.(*greenroomv1.CallReply)) //nolint:forcetypeassert // as it was
		}
		return out, nil
	}
	rest, payload, ok := splitJSON(msg)
	if !ok {
		return msg, nil
	}
	value := new(structpb.Value)
	if err := protojson.Unmarshal(payload, value); err != nil {
		return nil, err
	}
	switch m := rest.(type) {
	case *greenroomv1.InvokeResponse:
		m.Json = value
	case *greenroomv1.QueryResponse:
		m.Json = value
	case *greenroomv1.CallReply:
		m.Json = value
	}
	return rest, nil
}
