package typed

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/greenroom-run/greenroom/abi"
)

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
