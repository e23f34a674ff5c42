package actor

import (
	"errors"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/protobuf"
)

// Protobuf declares the Protobuf service by which clients may call the type: each rpc is the
// method of its name, and has the content type application/protobuf. The descriptor is a
// FileDescriptorSet. idField is the field of every request that has the actor's ID; if it is
// empty, clients send the header Greenroom-Actor. Code that greenroom generate writes calls it.
func Protobuf(service, descriptor, idField string) Part {
	return protobufPart{Service: service, Descriptor: []byte(descriptor), IDField: idField}
}

type protobufPart abi.Protobuf

func (p protobufPart) addTo(t *actorType) {
	if t.spec.Protobuf.Service != "" {
		panic("actor.Register(" + t.spec.Name + "): has the services " + t.spec.Protobuf.Service + " and " + p.Service + "; a type has one, make another type for the second")
	}
	t.spec.Protobuf = abi.Protobuf(p)
}

// decodeProtobuf decodes the turn's payload into a method's input.
func decodeProtobuf(c *Context, in protobuf.Decoder) error {
	err := protobufType(c.frame.ContentType, c.frame.Payload)
	if err == nil {
		err = protobuf.Unmarshal(c.frame.Payload, in)
	}
	if err != nil {
		return NewError(StatusInvalidArgument, "bad_protobuf", "the payload is no request of the method: "+err.Error())
	}
	return nil
}

// protobufType refuses a payload of another content type; none at all is an empty message.
func protobufType(contentType string, payload []byte) error {
	switch {
	case contentType == abi.ContentTypeProtobuf, len(payload) == 0:
		return nil
	case contentType == "":
		contentType = contentTypeJSON
	}
	return errors.New("it is " + contentType + ", where " + abi.ContentTypeProtobuf + " is needed; clients call the rpc of the method's service, which takes JSON as well")
}
