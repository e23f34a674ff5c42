package invokestream

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// Response is greenroom.v1.InvokeStreamResponse, and, with what only hosts send each
// other, greenroom.v1.ExchangeResponse.
type Response struct {
	Replies []Reply
	Hello   *greenroomv1.ExchangeHello // between hosts

	names names
}

// Reply is greenroom.v1.StreamReply, with the same meaning of every field.
type Reply struct {
	ID        uint64
	Payload   actor.Payload
	Version   uint64
	Fuel      uint64
	Error     *greenroomv1.StreamError // nil: the turn succeeded
	Host      string
	Owner     string // between hosts
	Joined    string // between hosts
	Callbacks bool   // between hosts
	Marked    bool   // between hosts
}

// The numbers of the fields in actor.proto.
const (
	fieldReplies protowire.Number = 1

	fieldReplyID          protowire.Number = 1
	fieldReplyPayload     protowire.Number = 2
	fieldReplyContentType protowire.Number = 3
	fieldReplyVersion     protowire.Number = 4
	fieldReplyError       protowire.Number = 5
	fieldReplyFuel        protowire.Number = 6
	fieldReplyHost        protowire.Number = 7
	fieldReplyOwner       protowire.Number = 8
	fieldReplyJoined      protowire.Number = 9
	fieldReplyCallbacks   protowire.Number = 10
	fieldReplyMarked      protowire.Number = 11

	fieldReplyHello protowire.Number = 2
)

// Size is how many bytes a reply adds to a message.
func (r *Reply) Size() int { return sizeMessage(r.size()) }

func (r *Reply) size() int {
	n := sizeVarint(r.ID) + sizeBytes(len(r.Payload.Data)) + sizeBytes(len(r.Payload.ContentType)) + sizeVarint(r.Version) + sizeVarint(r.Fuel) +
		sizeBytes(len(r.Host)) + sizeBytes(len(r.Owner)) + sizeBytes(len(r.Joined)) + sizeBool(r.Callbacks) + sizeBool(r.Marked)
	if r.Error != nil {
		n += sizeMessage(proto.Size(r.Error))
	}
	return n
}

// Append implements [Frame].
func (r *Response) Append(dst []byte) ([]byte, error) {
	for n := range r.Replies {
		reply := &r.Replies[n]
		dst = appendMessage(dst, fieldReplies, reply.size())
		dst = appendVarint(dst, fieldReplyID, reply.ID)
		dst = appendBytes(dst, fieldReplyPayload, reply.Payload.Data)
		dst = appendBytes(dst, fieldReplyContentType, reply.Payload.ContentType)
		dst = appendVarint(dst, fieldReplyVersion, reply.Version)
		if reply.Error != nil {
			dst = appendMessage(dst, fieldReplyError, proto.Size(reply.Error))
			var err error
			if dst, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(dst, reply.Error); err != nil {
				return nil, fmt.Errorf("encode the error of invocation %d: %w", reply.ID, err)
			}
		}
		dst = appendVarint(dst, fieldReplyFuel, reply.Fuel)
		dst = appendBytes(dst, fieldReplyHost, reply.Host)
		dst = appendBytes(dst, fieldReplyOwner, reply.Owner)
		dst = appendBytes(dst, fieldReplyJoined, reply.Joined)
		dst = appendBool(dst, fieldReplyCallbacks, reply.Callbacks)
		dst = appendBool(dst, fieldReplyMarked, reply.Marked)
	}
	return appendHello(dst, fieldReplyHello, r.Hello)
}

// Decode implements [Frame].
func (r *Response) Decode(data []byte) error {
	r.Reset()
	err := fields(data, func(f field) error {
		if f.is(fieldReplyHello, protowire.BytesType) {
			return mergeHello(&r.Hello, f.bytes)
		}
		if !f.is(fieldReplies, protowire.BytesType) {
			return nil
		}
		r.Replies = append(r.Replies, Reply{})
		return r.decodeReply(f.bytes, &r.Replies[len(r.Replies)-1])
	})
	if err != nil {
		r.Reset()
	}
	return err
}

func (r *Response) decodeReply(data []byte, reply *Reply) error {
	return fields(data, func(f field) (err error) {
		switch {
		case f.is(fieldReplyID, protowire.VarintType):
			reply.ID = f.varint
		case f.is(fieldReplyPayload, protowire.BytesType):
			reply.Payload.Data = clone(f.bytes)
		case f.is(fieldReplyContentType, protowire.BytesType):
			reply.Payload.ContentType, err = r.names.text(f.bytes)
		case f.is(fieldReplyVersion, protowire.VarintType):
			reply.Version = f.varint
		case f.is(fieldReplyFuel, protowire.VarintType):
			reply.Fuel = f.varint
		case f.is(fieldReplyError, protowire.BytesType):
			if reply.Error == nil {
				reply.Error = &greenroomv1.StreamError{}
			}
			err = proto.UnmarshalOptions{Merge: true}.Unmarshal(f.bytes, reply.Error)
		case f.is(fieldReplyHost, protowire.BytesType):
			reply.Host, err = r.names.text(f.bytes)
		case f.is(fieldReplyOwner, protowire.BytesType):
			reply.Owner, err = r.names.text(f.bytes)
		case f.is(fieldReplyJoined, protowire.BytesType):
			reply.Joined, err = r.names.text(f.bytes)
		case f.is(fieldReplyCallbacks, protowire.VarintType):
			reply.Callbacks = f.varint != 0
		case f.is(fieldReplyMarked, protowire.VarintType):
			reply.Marked = f.varint != 0
		}
		return err
	})
}

// Reset implements [Frame].
func (r *Response) Reset() {
	clear(r.Replies)
	r.Replies, r.Hello = r.Replies[:0], nil
}

// Generated implements [Frame].
func (*Response) Generated() proto.Message { return &greenroomv1.InvokeStreamResponse{} }
