package invokestream

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// Request is greenroom.v1.InvokeStreamRequest, and, with what only hosts send each
// other, greenroom.v1.ExchangeRequest.
type Request struct {
	Invocations []Invocation
	Cancels     []uint64
	Hello       *greenroomv1.ExchangeHello // between hosts

	names names
}

// Invocation is greenroom.v1.StreamInvocation, with the same meaning of every
// field. Decoding checks the encoding only.
type Invocation struct {
	ID             uint64
	Key            actor.Key // an empty App stays empty
	Method         string
	Payload        actor.Payload
	TimeoutMS      uint32
	IdempotencyKey string
	ReadOnly       bool
	Consistency    greenroomv1.Consistency
	Traceparent    string
	Tracestate     string
	InvocationID   string // this and what follows: between hosts
	Caller         string
	RefusedBy      string
	Firing         []byte // as EncodeFiring has it; not looked at
	Origin         []byte // as EncodeOrigin has it; not looked at
	Tell           []byte // as EncodeTell has it; not looked at
}

// The numbers of the fields in actor.proto.
const (
	fieldInvocations protowire.Number = 1
	fieldCancels     protowire.Number = 2
	fieldHello       protowire.Number = 3

	fieldID             protowire.Number = 1
	fieldActor          protowire.Number = 2
	fieldMethod         protowire.Number = 3
	fieldPayload        protowire.Number = 4
	fieldContentType    protowire.Number = 5
	fieldTimeoutMS      protowire.Number = 6
	fieldIdempotencyKey protowire.Number = 7
	fieldReadOnly       protowire.Number = 8
	fieldConsistency    protowire.Number = 9
	fieldInvocationID   protowire.Number = 10
	fieldCaller         protowire.Number = 11
	fieldRefusedBy      protowire.Number = 12
	fieldFiring         protowire.Number = 13
	fieldTraceparent    protowire.Number = 14
	fieldTracestate     protowire.Number = 15
	fieldOrigin         protowire.Number = 16
	fieldTell           protowire.Number = 17

	fieldApp  protowire.Number = 1
	fieldType protowire.Number = 2
	fieldKey  protowire.Number = 3
)

// MaxEntries is how many invocations, and how many cancels, a message may have.
// Without a bound its bytes, as few as two for an invocation, would become
// hundreds of times as much memory.
const MaxEntries = 16_384

// keptEntries is for how many a message keeps its memory when it is used again.
const keptEntries = 2048

// errEntries is a message of too many.
var errEntries = fmt.Errorf("a message has more than %d invocations or cancels; send several", MaxEntries)

// Size is how many bytes an invocation adds to a message.
func (i *Invocation) Size() int { return sizeMessage(i.size()) }

func (i *Invocation) size() int {
	return sizeVarint(i.ID) + sizeMessage(sizeKey(i.Key)) + sizeBytes(len(i.Method)) +
		sizeBytes(len(i.Payload.Data)) + sizeBytes(len(i.Payload.ContentType)) +
		sizeVarint(uint64(i.TimeoutMS)) + sizeBytes(len(i.IdempotencyKey)) +
		sizeVarint(protowire.EncodeBool(i.ReadOnly)) + sizeVarint(uint64(i.Consistency)) +
		sizeBytes(len(i.InvocationID)) + sizeBytes(len(i.Caller)) + sizeBytes(len(i.RefusedBy)) + sizeBytes(len(i.Firing)) +
		sizeBytes(len(i.Traceparent)) + sizeBytes(len(i.Tracestate)) + sizeFar(len(i.Origin)) + sizeFar(len(i.Tell))
}

func sizeKey(k actor.Key) int {
	return sizeBytes(len(k.App)) + sizeBytes(len(k.Type)) + sizeBytes(len(k.ID))
}

// Append implements [Frame].
func (r *Request) Append(dst []byte) ([]byte, error) {
	for n := range r.Invocations {
		i := &r.Invocations[n]
		dst = appendMessage(dst, fieldInvocations, i.size())
		dst = appendVarint(dst, fieldID, i.ID)
		dst = appendMessage(dst, fieldActor, sizeKey(i.Key))
		dst = appendBytes(dst, fieldApp, i.Key.App)
		dst = appendBytes(dst, fieldType, i.Key.Type)
		dst = appendBytes(dst, fieldKey, i.Key.ID)
		dst = appendBytes(dst, fieldMethod, i.Method)
		dst = appendBytes(dst, fieldPayload, i.Payload.Data)
		dst = appendBytes(dst, fieldContentType, i.Payload.ContentType)
		dst = appendVarint(dst, fieldTimeoutMS, uint64(i.TimeoutMS))
		dst = appendBytes(dst, fieldIdempotencyKey, i.IdempotencyKey)
		dst = appendVarint(dst, fieldReadOnly, protowire.EncodeBool(i.ReadOnly))
		dst = appendVarint(dst, fieldConsistency, uint64(i.Consistency))
		dst = appendBytes(dst, fieldInvocationID, i.InvocationID)
		dst = appendBytes(dst, fieldCaller, i.Caller)
		dst = appendBytes(dst, fieldRefusedBy, i.RefusedBy)
		dst = appendBytes(dst, fieldFiring, i.Firing)
		dst = appendBytes(dst, fieldTraceparent, i.Traceparent)
		dst = appendBytes(dst, fieldTracestate, i.Tracestate)
		dst = appendBytes(dst, fieldOrigin, i.Origin)
		dst = appendBytes(dst, fieldTell, i.Tell)
	}
	return appendHello(r.appendCancels(dst), fieldHello, r.Hello)
}

func (r *Request) cancelsSize() (size int) {
	for _, id := range r.Cancels {
		size += protowire.SizeVarint(id)
	}
	return size
}

// appendCancels appends the IDs packed, as proto3 does.
func (r *Request) appendCancels(dst []byte) []byte {
	if len(r.Cancels) == 0 {
		return dst
	}
	dst = appendMessage(dst, fieldCancels, r.cancelsSize())
	for _, id := range r.Cancels {
		dst = protowire.AppendVarint(dst, id)
	}
	return dst
}

// decodeCancels takes IDs that are packed.
func (r *Request) decodeCancels(data []byte) error {
	for len(data) > 0 {
		id, n := protowire.ConsumeVarint(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := r.cancel(id); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (r *Request) cancel(id uint64) error {
	if len(r.Cancels) == MaxEntries {
		return errEntries
	}
	r.Cancels = append(r.Cancels, id)
	return nil
}

// Decode implements [Frame].
func (r *Request) Decode(data []byte) error {
	r.Reset()
	err := fields(data, func(f field) error {
		switch {
		case f.is(fieldInvocations, protowire.BytesType):
			if len(r.Invocations) == MaxEntries {
				return errEntries
			}
			r.Invocations = append(r.Invocations, Invocation{})
			return r.decodeInvocation(f.bytes, &r.Invocations[len(r.Invocations)-1])
		case f.is(fieldCancels, protowire.BytesType):
			return r.decodeCancels(f.bytes)
		case f.is(fieldCancels, protowire.VarintType):
			return r.cancel(f.varint)
		case f.is(fieldHello, protowire.BytesType):
			return mergeHello(&r.Hello, f.bytes)
		}
		return nil
	})
	if err != nil {
		r.Reset()
	}
	return err
}

func (r *Request) decodeInvocation(data []byte, i *Invocation) error {
	return fields(data, func(f field) (err error) {
		switch {
		case f.is(fieldID, protowire.VarintType):
			i.ID = f.varint
		case f.is(fieldActor, protowire.BytesType):
			err = r.decodeKey(f.bytes, &i.Key)
		case f.is(fieldMethod, protowire.BytesType):
			i.Method, err = r.names.text(f.bytes)
		case f.is(fieldPayload, protowire.BytesType):
			i.Payload.Data = clone(f.bytes)
		case f.is(fieldContentType, protowire.BytesType):
			i.Payload.ContentType, err = r.names.text(f.bytes)
		case f.is(fieldTimeoutMS, protowire.VarintType):
			i.TimeoutMS = uint32(f.varint) //nolint:gosec // as Protobuf has it
		case f.is(fieldIdempotencyKey, protowire.BytesType):
			i.IdempotencyKey, err = text(f.bytes)
		case f.is(fieldReadOnly, protowire.VarintType):
			i.ReadOnly = protowire.DecodeBool(f.varint)
		case f.is(fieldConsistency, protowire.VarintType):
			i.Consistency = greenroomv1.Consistency(f.varint) //nolint:gosec // as Protobuf has it
		case f.is(fieldInvocationID, protowire.BytesType):
			i.InvocationID, err = text(f.bytes)
		case f.is(fieldCaller, protowire.BytesType):
			i.Caller, err = r.names.text(f.bytes)
		case f.is(fieldRefusedBy, protowire.BytesType):
			i.RefusedBy, err = text(f.bytes)
		case f.is(fieldFiring, protowire.BytesType):
			i.Firing = clone(f.bytes)
		case f.is(fieldTraceparent, protowire.BytesType):
			i.Traceparent, err = text(f.bytes)
		case f.is(fieldTracestate, protowire.BytesType):
			i.Tracestate, err = text(f.bytes)
		case f.is(fieldOrigin, protowire.BytesType):
			i.Origin = clone(f.bytes)
		case f.is(fieldTell, protowire.BytesType):
			i.Tell = clone(f.bytes)
		}
		return err
	})
}

func (r *Request) decodeKey(data []byte, k *actor.Key) error {
	return fields(data, func(f field) (err error) {
		switch {
		case f.is(fieldApp, protowire.BytesType):
			k.App, err = r.names.text(f.bytes)
		case f.is(fieldType, protowire.BytesType):
			k.Type, err = r.names.text(f.bytes)
		case f.is(fieldKey, protowire.BytesType):
			k.ID, err = text(f.bytes)
		}
		return err
	})
}

// Reset implements [Frame].
func (r *Request) Reset() {
	if cap(r.Invocations) > keptEntries {
		r.Invocations = nil
	}
	if cap(r.Cancels) > keptEntries {
		r.Cancels = nil
	}
	clear(r.Invocations)
	r.Invocations, r.Cancels, r.Hello = r.Invocations[:0], r.Cancels[:0], nil
}

// Generated implements [Frame].
func (*Request) Generated() proto.Message { return &greenroomv1.InvokeStreamRequest{} }
