package typed

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// RequestFromJSON returns a request in the binary form. A member that the message does not have is
// an error that names it, as in all requests of the API.
func (m *Method) RequestFromJSON(text []byte) (request []byte, err error) {
	defer recovered(&err)
	msg := dynamicpb.NewMessage(m.input)
	if err := (protojson.UnmarshalOptions{Resolver: m.types}).Unmarshal(text, msg); err != nil {
		return nil, errors.New(strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))) // its space is one of two
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(msg)
}

// ResponseToJSON returns a response in the JSON form.
func (m *Method) ResponseToJSON(response []byte) (text []byte, err error) {
	defer recovered(&err)
	msg := dynamicpb.NewMessage(m.output)
	if err := (proto.UnmarshalOptions{Resolver: m.types, RecursionLimit: protowire.DefaultRecursionLimit}).Unmarshal(response, msg); err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{Resolver: m.types}.Marshal(msg)
}

// recovered makes an error of a panic: protobuf-go panics for some messages that no encoder writes,
// such as an entry of a map that has a second key, of another wire type.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("a message that cannot be: %v", r)
	}
}

// anyMessage has another message as bytes, and in the JSON form as that message.
const anyMessage = googleProtobuf + ".Any"

// perMessage and perField are about what a message without fields, and a field of one, take in
// memory while they are translated, in bytes, beside their content.
const (
	perMessage = 512
	perField   = 64
)

// RequestWeight is about what translating a request takes in memory, in bytes.
func (m *Method) RequestWeight(text []byte) int {
	perValue := perField
	if m.scalars {
		perValue = perMessage
	}
	return len(text) + perMessage*(1+bytes.Count(text, []byte("{"))) + perValue*bytes.Count(text, []byte(","))
}

// hasScalars reports whether a message has others in it whose JSON form is no object, or any JSON:
// those of google.protobuf. seen has the messages that were looked at.
func hasScalars(d protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if d.FullName().Parent() == googleProtobuf {
		return true
	}
	if seen[d.FullName()] {
		return false
	}
	seen[d.FullName()] = true
	for i := range d.Fields().Len() {
		if inner := d.Fields().Get(i).Message(); inner != nil && hasScalars(inner, seen) {
			return true
		}
	}
	return false
}

// ResponseWeight is about what translating a response takes in memory, in bytes. It is an error if
// the response is not Protobuf's binary form.
func (m *Method) ResponseWeight(response []byte) (int, error) {
	if m.output.FullName() == anyMessage {
		return perMessage + perMessage/2*len(response), nil
	}
	return weigh(m.output, response, 0)
}

// weigh is ResponseWeight for a message inside others.
func weigh(d protoreflect.MessageDescriptor, data []byte, depth int) (int, error) {
	if depth > protowire.DefaultRecursionLimit {
		return 0, fmt.Errorf("it nests deeper than %d", protowire.DefaultRecursionLimit)
	}
	weight := perMessage
	for len(data) > 0 {
		number, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, typ, data); n < 0 {
			return 0, protowire.ParseError(n)
		}
		value := data[:n]
		data = data[n:]
		f := d.Fields().ByNumber(number)
		if f == nil {
			weight += len(value) // kept as it is
			continue
		}
		weight += perField + len(f.JSONName()) + 2*len(value)
		if typ == protowire.StartGroupType {
			weight += perMessage * len(value) // as if all messages in it were empty
		}
		if typ != protowire.BytesType {
			continue
		}
		content, _ := protowire.ConsumeBytes(value)
		switch {
		case f.Message() != nil && f.Message().FullName() == anyMessage:
			weight += perMessage / 2 * len(content) // as if all messages in it were empty
		case f.Message() != nil:
			inner, err := weigh(f.Message(), content, depth+1)
			if err != nil {
				return 0, err
			}
			weight += inner
		case f.IsList() && f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind:
			weight += perField * len(content) // packed, a byte each at least
			if f.Enum() != nil {
				weight += longestName(f.Enum()) * len(content)
			}
		case f.Kind() == protoreflect.StringKind:
			weight += 4 * len(content) // control characters are written as \u00xx
		}
	}
	return weight, nil
}

func longestName(e protoreflect.EnumDescriptor) int {
	longest := 0
	for i := range e.Values().Len() {
		longest = max(longest, len(e.Values().Get(i).Name()))
	}
	return longest
}
