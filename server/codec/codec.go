package codec

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/api/invokestream"
)

// Connect reports a message that cannot be decoded before any interceptor runs,
// and without details. The codecs here let such a message pass as an empty one
// that carries the error, and the interceptor of package edge reports it like every
// other: as a typed error. The carrier is an unknown field with the highest
// number there is; who sends that field fools nobody but themselves.
const undecodableField protowire.Number = protowire.MaxValidNumber

func carryError(m proto.Message, err error) {
	proto.Reset(m)
	raw := protowire.AppendTag(nil, undecodableField, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(raw, err.Error()))
}

// CarriedError returns the error that a codec put into msg; nil for a message
// that was decoded.
func CarriedError(msg any) error {
	m, ok := msg.(proto.Message)
	if !ok {
		return nil
	}
	raw := m.ProtoReflect().GetUnknown()
	if len(raw) == 0 {
		return nil
	}
	num, typ, n := protowire.ConsumeTag(raw)
	if n < 0 || num != undecodableField || typ != protowire.BytesType {
		return nil
	}
	text, _ := protowire.ConsumeString(raw[n:])
	return &actor.ArgumentError{Field: "request", Problem: "is not a message of this procedure: " + text}
}

// Binary is Protobuf's wire format, and that of InvokeStream's frames.
type Binary struct{}

// Name implements connect.Codec.
func (Binary) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (c Binary) Marshal(msg any) ([]byte, error) { return c.MarshalAppend(nil, msg) }

// MarshalAppend spares Connect a buffer.
func (Binary) MarshalAppend(dst []byte, msg any) ([]byte, error) {
	if f, ok := msg.(invokestream.Frame); ok {
		return f.Append(dst)
	}
	m, err := protoMessage(msg)
	if err != nil {
		return nil, err
	}
	if m, err = withValues(m); err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m)
}

// Unmarshal implements connect.Codec. A payload that is not as its message says is reported by
// the message, so that the handler answers it.
func (Binary) Unmarshal(data []byte, msg any) error {
	if f, ok := msg.(invokestream.Frame); ok {
		return f.Decode(data)
	}
	m, err := protoMessage(msg)
	if err != nil {
		return err
	}
	err = proto.Unmarshal(data, m)
	if err == nil {
		err = takeJSON(m, nil)
	}
	if err != nil {
		carryError(m, err)
	}
	return nil
}

// JSON is Protobuf's JSON form, under one of its names. A member that the message
// does not have is an error, since one that is misspelt would widen what a request is
// about: people write JSON. The binary form passes unknown fields over, so that newer
// clients can speak to older servers.
type JSON string

// Name implements connect.Codec.
func (c JSON) Name() string { return string(c) }

// Marshal implements connect.Codec.
func (c JSON) Marshal(msg any) ([]byte, error) { return c.MarshalAppend(nil, msg) }

// MarshalAppend spares Connect a buffer.
func (JSON) MarshalAppend(dst []byte, msg any) ([]byte, error) {
	if f, ok := msg.(invokestream.Frame); ok {
		return appendFrameJSON(dst, f)
	}
	m, err := protoMessage(msg)
	if err != nil {
		return nil, err
	}
	return appendJSON(dst, m)
}

// Unmarshal implements connect.Codec.
func (c JSON) Unmarshal(data []byte, msg any) error {
	if f, ok := msg.(invokestream.Frame); ok {
		return decodeFrameJSON(data, f)
	}
	m, err := protoMessage(msg)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		carryError(m, errors.New("the body is empty; the smallest message is {}"))
		return nil
	}
	err = protojson.Unmarshal(data, m)
	if err == nil {
		err = takeJSON(m, data)
	} else {
		err = advise(m, err)
	}
	if err != nil {
		carryError(m, err)
	}
	return nil
}

// Frames in JSON take the way over the generated messages: it is for people.

func appendFrameJSON(dst []byte, f invokestream.Frame) ([]byte, error) {
	data, err := f.Append(nil)
	if err != nil {
		return nil, err
	}
	m := f.Generated()
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{}.MarshalAppend(dst, m)
}

func decodeFrameJSON(data []byte, f invokestream.Frame) error {
	m := f.Generated()
	if err := protojson.Unmarshal(data, m); err != nil {
		return advise(m, err)
	}
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return f.Decode(data)
}

func protoMessage(msg any) (proto.Message, error) {
	m, ok := msg.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a Protobuf message", msg)
	}
	return m, nil
}
