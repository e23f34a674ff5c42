package actor

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/jsonplan"
	"github.com/greenroom-run/greenroom/guest-sdk/go/protobuf"
)

// prepare makes whatever reading and writing a T needs, when its method is
// registered: instances begin, with each change of actor, from the memory that
// they had then. No code of T runs.
func prepare[T any]() *jsonplan.Plan {
	switch any((*T)(nil)).(type) {
	case *None, *[]byte, *Payload, protobuf.Decoder:
		return nil // never JSON
	}
	typ := reflect.TypeFor[T]()
	plan := jsonplan.For(typ)
	if plan == nil && typ.Kind() != reflect.Interface {
		// A nil pointer is null, for which encoding/json makes all that a value would
		// take, and asks no marshaler.
		_, _ = json.Marshal((*T)(nil))
		return nil
	}
	if plan != nil {
		zero := reflect.New(typ)
		text, _ := plan.Append(nil, zero.UnsafePointer())
		_ = plan.Decode(text, zero.UnsafePointer())
	}
	return plan
}

// inputType is how a method's input is read.
type inputType struct {
	plan *jsonplan.Plan
	// optional says that no payload at all is the zero value: nothing in a struct
	// or a map is needed.
	optional bool
}

func prepareInput[T any]() inputType {
	in := inputType{plan: prepare[T]()}
	switch any((*T)(nil)).(type) {
	case json.Unmarshaler: // it may need something
	default:
		kind := reflect.TypeFor[T]().Kind()
		in.optional = kind == reflect.Struct || kind == reflect.Map
	}
	return in
}

// unmarshal reads JSON into v, a pointer to a zero value.
func unmarshal(plan *jsonplan.Plan, data []byte, v any) error {
	if plan != nil {
		at := reflect.ValueOf(v)
		if plan.Decode(data, at.UnsafePointer()) {
			return nil
		}
		at.Elem().SetZero()
	}
	return json.Unmarshal(data, v)
}

// unmarshalInto reads JSON into v, whatever it is, as encoding/json does: a value
// that is not zero keeps what the text does not have.
func unmarshalInto(data []byte, v any) error {
	if at := reflect.ValueOf(v); at.Kind() == reflect.Pointer && !at.IsNil() && at.Elem().IsZero() {
		return unmarshal(jsonplan.For(at.Type().Elem()), data, v)
	}
	return json.Unmarshal(data, v)
}

// jsonBuffer encodes values into memory that it keeps, without the escapes that
// only HTML needs.
type jsonBuffer struct {
	planned []byte
	buf     bytes.Buffer
	enc     *json.Encoder
}

// encode returns the JSON of what v points to, good until the next call. Without
// a plan, v is any value.
func (b *jsonBuffer) encode(plan *jsonplan.Plan, v any) ([]byte, error) {
	if plan != nil {
		var ok bool
		if b.planned, ok = plan.Append(b.planned[:0], reflect.ValueOf(v).UnsafePointer()); ok {
			return b.planned, nil
		}
	}
	if b.enc == nil {
		b.enc = json.NewEncoder(&b.buf)
		b.enc.SetEscapeHTML(false)
	}
	b.buf.Reset()
	if err := b.enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.buf.Bytes(), []byte("\n")), nil
}

// protobuf returns a message in Protobuf's binary form, good until the next call.
func (b *jsonBuffer) protobuf(m protobuf.Message) []byte {
	b.planned = m.AppendProtobuf(b.planned[:0])
	return b.planned
}

// input encodes what is given to a method: a Payload or bytes as they are, None and nil as
// nothing, a generated message in Protobuf's binary form, anything else as JSON, which is good until the next call.
func (b *jsonBuffer) input(v any) (contentType string, data []byte, err error) {
	switch v := v.(type) {
	case nil, None:
		return "", nil, nil
	case Payload:
		return v.ContentType, v.Data, nil
	case []byte:
		return contentTypeBytes, v, nil
	case protobuf.Message:
		return abi.ContentTypeProtobuf, v.AppendProtobuf(nil), nil
	}
	if data, err = b.encodeAny(v); err != nil {
		err = ErrNotJSON.Messagef("the input has no JSON form: %v", err)
	}
	return "", data, err
}

// encodeAny encodes a value, or what a pointer points to, by the plan of its type
// if it has one.
func (b *jsonBuffer) encodeAny(v any) ([]byte, error) {
	at := reflect.ValueOf(v)
	switch {
	case v == nil:
	case at.Kind() == reflect.Pointer:
		if plan := jsonplan.For(at.Type().Elem()); plan != nil && !at.IsNil() {
			return b.encode(plan, v)
		}
	default:
		if plan := jsonplan.For(at.Type()); plan != nil {
			copied := reflect.New(at.Type())
			copied.Elem().Set(at)
			return b.encode(plan, copied.Interface())
		}
	}
	return b.encode(nil, v)
}
