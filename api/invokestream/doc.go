// Package invokestream has the messages of ActorService.InvokeStream as plain Go
// values, which are encoded and decoded without reflection and with one
// allocation or two per invocation. On the wire they are exactly
// greenroom.v1.InvokeStreamRequest and InvokeStreamResponse; tests hold them to
// what the generated code reads and writes.
//
// # Memory
//
// What is decoded owns its memory: nothing aliases the message's bytes, which
// transports use again, and no value keeps its neighbours alive. A stream has few
// names, and a message value shares them among everything that it decodes.
package invokestream

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Frame is a message of the stream: a [*Request] or a [*Response]. It is used by
// one goroutine at a time, and may be used again.
type Frame interface {
	// Append appends the encoded message.
	Append(dst []byte) ([]byte, error)
	// Decode replaces the message's content. After an error it is empty.
	Decode(data []byte) error
	// Reset empties the message and keeps its memory. A transport that meets a
	// message of no bytes may not call Decode: reset before receiving.
	Reset()
	// Generated returns an empty message of the generated type, for other
	// encodings than the binary one.
	Generated() proto.Message
}

// Codec is a Connect codec for frames, and for nothing else.
type Codec struct{}

// Name is the name of Protobuf's binary form.
func (Codec) Name() string { return "proto" }

// Marshal implements the codec interface of Connect.
func (c Codec) Marshal(msg any) ([]byte, error) { return c.MarshalAppend(nil, msg) }

// MarshalAppend spares Connect a buffer.
func (Codec) MarshalAppend(dst []byte, msg any) ([]byte, error) {
	f, err := frame(msg)
	if err != nil {
		return nil, err
	}
	return f.Append(dst)
}

// Unmarshal implements the codec interface of Connect.
func (Codec) Unmarshal(data []byte, msg any) error {
	f, err := frame(msg)
	if err != nil {
		return err
	}
	return f.Decode(data)
}

func frame(msg any) (Frame, error) {
	f, ok := msg.(Frame)
	if !ok {
		return nil, fmt.Errorf("%T is not a message of InvokeStream", msg)
	}
	return f, nil
}
