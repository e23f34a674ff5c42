package typed

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/greenroom-run/greenroom/abi"
)

// positionField is the field of a streaming rpc's messages into which the host puts the position of
// the event. Its name is the declaration: no other field is called so by chance.
const positionField = "greenroom_position"

// maxEventName bounds the names of events, in bytes: SPEC.md section 5.
const maxEventName = 128

// Method is an rpc of a service.
type Method struct {
	Name string
	// NoSideEffects is the rpc's idempotency level: the method is read-only.
	NoSideEffects bool
	// Streaming says that the rpc has no method: its response is a stream of the actor's events
	// that have the rpc's name.
	Streaming     bool
	input, output protoreflect.MessageDescriptor
	id            protowire.Number // of the field with the actor's ID; 0: no field has it
	idField       string
	scalars       bool // see hasScalars, of input
	types         *dynamicpb.Types
	position      protowire.Number // of the output's positionField, if the rpc is streaming; 0: it has none
}

// Input is the full name of the message that the rpc takes.
func (m *Method) Input() string { return shorten(string(m.input.FullName())) }

// Output is the full name of the message that the rpc returns.
func (m *Method) Output() string { return shorten(string(m.output.FullName())) }

// check returns why a type cannot serve an rpc; empty if it can.
func (m *Method) check(t *abi.TypeSpec, rpc protoreflect.MethodDescriptor) string {
	if rpc.IsStreamingClient() {
		return "takes a stream, and an actor takes one request; make only the response a stream"
	}
	if m.Streaming {
		if problem := m.checkStream(t); problem != "" {
			return problem
		}
		return m.checkID(t)
	}
	at := slices.IndexFunc(t.Methods, func(spec abi.MethodSpec) bool { return spec.Name == m.Name })
	switch {
	case at < 0:
		return fmt.Sprintf("is no method of type %s; register the method, or remove the rpc", t.Name)
	case t.Methods[at].Private:
		return "is a private method; make it callable from outside, or remove the rpc"
	case m.NoSideEffects && !t.Methods[at].ReadOnly:
		return "has idempotency_level NO_SIDE_EFFECTS, and its method is not read-only; register it as read-only, or remove the option"
	}
	return m.checkID(t)
}

// checkStream returns why a type cannot serve a streaming rpc; empty if it can.
func (m *Method) checkStream(t *abi.TypeSpec) string {
	switch {
	case t.Placement == abi.PlacementStateless:
		return fmt.Sprintf("is streaming, and type %s is placed stateless, which publishes no events; place it otherwise, or remove the rpc", t.Name)
	case len(m.Name) > maxEventName:
		return fmt.Sprintf("is streaming, and its name is longer than that of an event, %d bytes; shorten it", maxEventName)
	}
	field := m.output.Fields().ByName(positionField)
	switch {
	case field == nil:
		return ""
	case field.Kind() != protoreflect.StringKind || field.Cardinality() == protoreflect.Repeated:
		return fmt.Sprintf("returns %s, whose field %s is not one string; the server puts the position of the event there, so make it one, or rename it", m.Output(), positionField)
	}
	m.position = field.Number()
	return ""
}

// checkID finds the field of the actor's ID. It returns why that cannot be.
func (m *Method) checkID(t *abi.TypeSpec) string {
	name := protoreflect.Name(t.Protobuf.IDField)
	if name == "" {
		return ""
	}
	field := m.input.Fields().ByName(name)
	if field == nil || field.Kind() != protoreflect.StringKind || field.Cardinality() == protoreflect.Repeated {
		return fmt.Sprintf("takes %s, which has no field %s of one string for the actor's ID; add it, or name no field for the ID and send the header Greenroom-Actor", shorten(string(m.input.FullName())), name)
	}
	m.id, m.idField = field.Number(), t.Protobuf.IDField
	return ""
}

// ID returns the actor's ID that a request in the binary form has, and the field that has it;
// empty if no field does.
func (m *Method) ID(request []byte) (id, field string, err error) {
	if m.id == 0 {
		return "", "", nil
	}
	for rest := request; len(rest) > 0; {
		number, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return "", "", fmt.Errorf("it is not Protobuf's binary form: %w", protowire.ParseError(n))
		}
		rest = rest[n:]
		if number == m.id && typ == protowire.BytesType {
			value, n := protowire.ConsumeString(rest)
			if n < 0 {
				return "", "", fmt.Errorf("its field %s is not Protobuf's binary form: %w", m.idField, protowire.ParseError(n))
			}
			id, rest = value, rest[n:] // the last one counts
			continue
		}
		if n = protowire.ConsumeFieldValue(number, typ, rest); n < 0 {
			return "", "", fmt.Errorf("it is not Protobuf's binary form: %w", protowire.ParseError(n))
		}
		rest = rest[n:]
	}
	return id, m.idField, nil
}
