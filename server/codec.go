package server

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/server/failure"
)

// Connect reports a message that cannot be decoded before any interceptor runs,
// and without details. The codecs here let such a message pass as an empty one
// that carries the error, and the interceptor of interceptor.go tells it like every
// other: as a typed error. The carrier is an unknown field with the highest
// number there is; who sends that field fools nobody but themselves.
const undecodableField protowire.Number = protowire.MaxValidNumber

func carryError(m proto.Message, err error) {
	proto.Reset(m)
	raw := protowire.AppendTag(nil, undecodableField, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(raw, err.Error()))
}

// carriedError returns the error that a codec put into msg; nil for a message
// that was decoded.
func carriedError(msg any) error {
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

// binaryCodec is Protobuf's wire format, and that of InvokeStream's frames.
type binaryCodec struct{}

func (binaryCodec) Name() string { return "proto" }

func (c binaryCodec) Marshal(msg any) ([]byte, error) { return c.MarshalAppend(nil, msg) }

// MarshalAppend spares Connect a buffer.
func (binaryCodec) MarshalAppend(dst []byte, msg any) ([]byte, error) {
	if f, ok := msg.(invokestream.Frame); ok {
		return f.Append(dst)
	}
	m, err := protoMessage(msg)
	if err != nil {
		return nil, err
	}
	if rest, payload, ok := splitJSON(m); ok {
		if m, err = withValue(rest, payload); err != nil {
			return nil, err
		}
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m)
}

func (binaryCodec) Unmarshal(data []byte, msg any) error {
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

// jsonCodec is Protobuf's JSON form, under one of its names. A member that the message
// does not have is an error, since one that is misspelt would widen what a request is
// about: people write JSON. The binary form passes unknown fields over, so that newer
// clients can speak to older servers.
type jsonCodec string

func (c jsonCodec) Name() string { return string(c) }

func (c jsonCodec) Marshal(msg any) ([]byte, error) { return c.MarshalAppend(nil, msg) }

// MarshalAppend spares Connect a buffer.
func (jsonCodec) MarshalAppend(dst []byte, msg any) ([]byte, error) {
	if f, ok := msg.(invokestream.Frame); ok {
		return appendFrameJSON(dst, f)
	}
	m, err := protoMessage(msg)
	if err != nil {
		return nil, err
	}
	if rest, payload, ok := splitJSON(m); ok {
		return appendJSONText(dst, rest, payload)
	}
	return protojson.MarshalOptions{}.MarshalAppend(dst, m)
}

func (c jsonCodec) Unmarshal(data []byte, msg any) error {
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
		err = adviseBytes(m, err)
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
		return adviseBytes(m, err)
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

// boundedGzip decompresses at most limit bytes per message: a small body must not
// become a large message. It reports what is wrong as a typed error, and only
// from Read, whose errors Connect passes on as they are. What it has made of a
// message counts for the server until Close.
type boundedGzip struct {
	gzip.Reader
	server           *Server
	limit, remaining int64
	tooLarge         error
	resetErr         error
}

func (s *Server) newBoundedGzip(limit int64, tooLarge error) func() connect.Decompressor {
	return func() connect.Decompressor {
		return &boundedGzip{server: s, limit: limit, remaining: limit, tooLarge: tooLarge}
	}
}

// Reset implements [connect.Decompressor].
func (g *boundedGzip) Reset(r io.Reader) error {
	g.uncount()
	g.resetErr = g.Reader.Reset(r)
	return nil
}

// Read implements [io.Reader].
func (g *boundedGzip) Read(p []byte) (int, error) {
	if g.resetErr != nil {
		return 0, errNotGzip(g.resetErr)
	}
	n, err := g.Reader.Read(p)
	full := g.server.requests.bodies.Count("", int64(n)) // whose it is, is not known here
	if g.remaining -= int64(n); g.remaining < 0 {
		return n, failure.Of(g.tooLarge, false).RPC()
	}
	if full != nil && g.limit-g.remaining > alwaysReadBody {
		return n, failure.Of(errRequestsFull(full), false).RPC()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = errNotGzip(err)
	}
	return n, err
}

// Close implements [connect.Decompressor].
func (g *boundedGzip) Close() error { // gzip.Reader holds nothing that needs it
	g.uncount()
	return nil
}

func (g *boundedGzip) uncount() {
	g.server.requests.bodies.Give("", g.limit-g.remaining)
	g.remaining = g.limit
}

func errNotGzip(err error) error {
	return failure.Of(&actor.ArgumentError{Field: "request", Problem: "is not what its encoding gzip says: " + err.Error()}, false).RPC()
}

// compressAbove is the smallest answer worth the time that gzip takes, in bytes.
const compressAbove = 4 << 10

// handlerOptions are those of RPC handlers whose largest messages have the shape's
// size.
func (s *Server) handlerOptions(shape route) []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithInterceptors(&errorInterceptor{s}, s.validator),
		connect.WithCompressMinBytes(compressAbove),
		connect.WithHandlerOptions(s.codecs(shape.maxBody, shape.bodyErr)...),
	}
}

// streamOptions are those of InvokeStream, which validates by itself, and whose
// replies are not worth compressing: that would cost more than the turns.
func (s *Server) streamOptions(maxMessage int64, tooLarge error) []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithInterceptors(&errorInterceptor{s}),
		connect.WithReadMaxBytes(int(maxMessage)),
		connect.WithCompressMinBytes(math.MaxInt),
		connect.WithHandlerOptions(s.codecs(maxMessage, tooLarge)...),
	}
}

// codecs are the encodings that every handler reads and writes.
func (s *Server) codecs(maxMessage int64, tooLarge error) []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithCodec(binaryCodec{}),
		connect.WithCodec(jsonCodec("json")),
		connect.WithCodec(jsonCodec("json; charset=utf-8")),
		connect.WithCompression("gzip", s.newBoundedGzip(maxMessage, tooLarge), newGzip),
	}
}

func newGzip() connect.Compressor { return gzip.NewWriter(io.Discard) }
