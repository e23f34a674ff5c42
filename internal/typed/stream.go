package typed

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/greenroom-run/greenroom/abi"
)

// positionField is the field of a streaming rpc's messages into which the host puts the position of
// the event. Its name is the declaration: no other field is called so by chance.
const positionField = "greenroom_position"

// maxEventName bounds the names of events, in bytes: SPEC.md section 5.
const maxEventName = 128

// Output is the full name of the message that the rpc returns.
func (m *Method) Output() string { return shorten(string(m.output.FullName())) }

// Streams returns the names of the streaming rpcs of a type's service, in the order of the file; nil
// if the descriptor cannot be read. It costs less than [Parse], for lists of many types.
func Streams(t *abi.TypeSpec) (names []string) {
	var set descriptorpb.FileDescriptorSet
	if (proto.UnmarshalOptions{RecursionLimit: maxRecursion}).Unmarshal(t.Protobuf.Descriptor, &set) != nil {
		return nil
	}
	for _, f := range set.GetFile() {
		for _, s := range f.GetService() {
			if strings.TrimPrefix(f.GetPackage()+"."+s.GetName(), ".") != t.Protobuf.Service {
				continue
			}
			for _, m := range s.GetMethod() {
				if m.GetServerStreaming() {
					names = append(names, m.GetName())
				}
			}
		}
	}
	return names
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

// WithPosition returns a message of a streaming rpc, in the binary form, with the position of its
// event. It does not change the message that it is given.
func (m *Method) WithPosition(message []byte, position string) []byte {
	if m.position == 0 {
		return message
	}
	// The last value of a field is the one that counts.
	message = protowire.AppendTag(slices.Clip(message), m.position, protowire.BytesType)
	return protowire.AppendString(message, position)
}
