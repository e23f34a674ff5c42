package actor

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MethodAll is the method of an [Invocation] that asks for several calls, which have effect
// together or not at all: its payload is what [EncodeCalls] returns, and its reply's what
// [EncodePayloads] returns. Its actor is that of the first call. No guest has a method of
// that name.
const MethodAll = "*"

// ValidateMethod checks the method of an invocation: a guest's, or [MethodAll].
func ValidateMethod(name string) error {
	if name == MethodAll {
		return nil
	}
	return ValidateName("method", name)
}

// Bounds of the calls of [MethodAll].
const (
	MaxCalls     = 64
	MaxCallBytes = 4 << 20 // all of them, encoded
)

// Call is one call of [MethodAll].
type Call struct {
	Key     Key
	Method  string
	Payload Payload
}

// CallError is the failure of one call of [MethodAll], which is that of all.
type CallError struct {
	Index  int // from 0
	Key    Key
	Method string
	Err    error
}

func (e *CallError) Error() string {
	return fmt.Sprintf("call %d, of %s %s.%s: %v", e.Index+1, e.Key.Type, e.Key.ID, e.Method, e.Err)
}

// Unwrap returns what has failed.
func (e *CallError) Unwrap() error { return e.Err }

// The encoding is that of greenroom.v1.InvokeAllRequest and InvokeAllResponse: fields of
// bytes alone.
const (
	fieldCalls = 2 // of a request
	fieldReply = 1 // of a response

	fieldCallType        = 1
	fieldCallID          = 2
	fieldCallMethod      = 3
	fieldCallPayload     = 4
	fieldCallContentType = 5
	fieldCallJSON        = 6

	fieldReplyPayload     = 1
	fieldReplyContentType = 2
)

// ParseCalls returns the calls of actors of an app that a JSON text asks for, which people write:
// {"calls": [{"type": …, "id": …, "method": …, "data": JSON}]}, or the list alone. Their keys and
// methods are not checked. An error is an [*ArgumentError] of the field.
func ParseCalls(app, field string, text []byte) ([]Call, error) {
	var asked struct {
		Calls []struct {
			Type   string          `json:"type"`
			ID     string          `json:"id"`
			Method string          `json:"method"`
			Data   json.RawMessage `json:"data"`
		} `json:"calls"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // a misspelt data would be an empty payload
	var into any = &asked
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		into = &asked.Calls
	}
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the calls")
		}
	}
	if err != nil {
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return nil, &ArgumentError{Field: field, Problem: "has the unknown member " + name + "; known are calls, and in each call type, id, method and data"}
		}
		return nil, &ArgumentError{Field: field, Problem: "is not the JSON of calls: " + err.Error() + `; write {"calls": [{"type": …, "id": …, "method": …, "data": …}]}`}
	}
	calls := make([]Call, len(asked.Calls))
	for i, c := range asked.Calls {
		calls[i] = Call{Key: Key{App: app, Type: c.Type, ID: c.ID}, Method: c.Method, Payload: Payload{Data: c.Data}}
	}
	return calls, nil
}

// EncodeCalls returns the payload that asks for calls of actors of one app.
func EncodeCalls(calls []Call) []byte {
	var all, one []byte
	for i := range calls {
		c := &calls[i]
		one = appendField(one[:0], fieldCallType, c.Key.Type)
		one = appendField(one, fieldCallID, c.Key.ID)
		one = appendField(one, fieldCallMethod, c.Method)
		one = appendField(one, fieldCallPayload, c.Payload.Data)
		one = appendField(one, fieldCallContentType, c.Payload.ContentType)
		all = binary.AppendUvarint(append(all, fieldCalls<<3|2), uint64(len(one)))
		all = append(all, one...)
	}
	return all
}

// DecodeCalls returns the calls of actors of an app that an invocation's payload asks for, which
// they alias. An error is an [*ArgumentError].
func DecodeCalls(app string, data []byte) ([]Call, error) {
	if len(data) > MaxCallBytes {
		return nil, &ArgumentError{Field: "calls", Problem: fmt.Sprintf("have %d bytes; at most %d are allowed", len(data), MaxCallBytes)}
	}
	var calls []Call
	err := eachField(data, func(field uint64, value []byte) error {
		if field != fieldCalls {
			return nil
		}
		if len(calls) == MaxCalls {
			return &ArgumentError{Field: "calls", Problem: fmt.Sprintf("are more than %d", MaxCalls)}
		}
		c := Call{Key: Key{App: app}}
		err := eachField(value, func(field uint64, value []byte) error {
			switch field {
			case fieldCallType:
				c.Key.Type = string(value)
			case fieldCallID:
				c.Key.ID = string(value)
			case fieldCallMethod:
				c.Method = string(value)
			case fieldCallPayload:
				c.Payload.Data = value
			case fieldCallContentType:
				c.Payload.ContentType = string(value)
			case fieldCallJSON: // unary calls alone have it
				return &ArgumentError{Field: "json", Problem: "is only for unary calls; give payload"}
			}
			return nil
		})
		if err == nil {
			err = c.Key.Validate()
		}
		if err == nil {
			err = ValidateName("method", c.Method)
		}
		if err != nil {
			return &CallError{Index: len(calls), Key: c.Key, Method: c.Method, Err: err}
		}
		calls = append(calls, c)
		return nil
	})
	if err == nil && len(calls) == 0 {
		err = &ArgumentError{Field: "calls", Problem: "are none; give 1 to 64"}
	}
	return calls, err
}

// EncodePayloads returns the reply that has those of several calls.
func EncodePayloads(replies []Payload) []byte {
	var all, one []byte
	for i := range replies {
		one = appendField(one[:0], fieldReplyPayload, replies[i].Data)
		one = appendField(one, fieldReplyContentType, replies[i].ContentType)
		all = binary.AppendUvarint(append(all, fieldReply<<3|2), uint64(len(one)))
		all = append(all, one...)
	}
	return all
}

// DecodePayloads returns what EncodePayloads was given, as aliases of data.
func DecodePayloads(data []byte) ([]Payload, error) {
	var replies []Payload
	err := eachField(data, func(field uint64, value []byte) error {
		if field != fieldReply {
			return nil
		}
		var p Payload
		replies = append(replies, p)
		return eachField(value, func(field uint64, value []byte) error {
			p := &replies[len(replies)-1]
			switch field {
			case fieldReplyPayload:
				p.Data = value
			case fieldReplyContentType:
				p.ContentType = string(value)
			}
			return nil
		})
	})
	return replies, err
}

func appendField[T string | []byte](dst []byte, field byte, value T) []byte {
	if len(value) == 0 {
		return dst
	}
	return append(binary.AppendUvarint(append(dst, field<<3|2), uint64(len(value))), value...)
}

// eachField calls visit for every field of a message that has fields of bytes alone.
func eachField(data []byte, visit func(field uint64, value []byte) error) error {
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 || tag&7 != 2 {
			return &ArgumentError{Field: "payload", Problem: "is not the encoding of an InvokeAllRequest"}
		}
		size, m := binary.Uvarint(data[n:])
		if m <= 0 || size > uint64(len(data)-n-m) {
			return &ArgumentError{Field: "payload", Problem: "is not the encoding of an InvokeAllRequest"}
		}
		value := data[n+m:][:size:size]
		if err := visit(tag>>3, value); err != nil {
			return err
		}
		data = data[n+m+int(size):]
	}
	return nil
}
