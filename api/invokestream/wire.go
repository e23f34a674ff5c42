package invokestream

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// field is one field as it was found; varint or bytes is set, by its type, and
// neither for types that no field here has.
type field struct {
	number protowire.Number
	typ    protowire.Type
	varint uint64
	bytes  []byte // aliases the message
}

func (f *field) is(number protowire.Number, typ protowire.Type) bool {
	return f.number == number && f.typ == typ
}

// fields calls visit for every field of a message, known or not, until it errs.
func fields(data []byte, visit func(field) error) error {
	for len(data) > 0 {
		number, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if number > protowire.MaxValidNumber { // which ConsumeTag lets through
			return errNumber
		}
		data = data[n:]
		f := field{number: number, typ: typ}
		switch typ {
		case protowire.VarintType:
			f.varint, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(data)
		default:
			n = protowire.ConsumeFieldValue(number, typ, data)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// Fields with their zero value are left out, as proto3 does. Numbers below 16 have tags of
// one byte; [sizeFar] is for the others.

func sizeVarint(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}

func sizeBool(v bool) int {
	if v {
		return 2
	}
	return 0
}

func sizeBytes(n int) int {
	if n == 0 {
		return 0
	}
	return sizeMessage(n)
}

// sizeFar is sizeBytes of a field whose number is 16 or more.
func sizeFar(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + sizeMessage(n)
}

func sizeMessage(n int) int { return 1 + protowire.SizeBytes(n) }

func appendVarint(dst []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), v)
}

func appendBool(dst []byte, number protowire.Number, v bool) []byte {
	if !v {
		return dst
	}
	return appendVarint(dst, number, 1)
}

func appendBytes[T string | []byte](dst []byte, number protowire.Number, v T) []byte {
	if len(v) == 0 {
		return dst
	}
	return append(appendMessage(dst, number, len(v)), v...)
}

// appendMessage begins a field of size bytes.
func appendMessage(dst []byte, number protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.BytesType), uint64(size)) //nolint:gosec // a length
}

// appendHello appends a hello, nil for none.
func appendHello(dst []byte, number protowire.Number, h *greenroomv1.ExchangeHello) ([]byte, error) {
	if h == nil {
		return dst, nil
	}
	data, err := proto.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode the hello: %w", err)
	}
	return append(appendMessage(dst, number, len(data)), data...), nil
}

// mergeHello adds what an encoded hello says to h, as Protobuf does.
func mergeHello(h **greenroomv1.ExchangeHello, data []byte) error {
	if *h == nil {
		*h = &greenroomv1.ExchangeHello{}
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(data, *h)
}

var (
	errUTF8   = errors.New("a string is not valid UTF-8")
	errNumber = errors.New("a field has a number that no field can have")
)

func text(b []byte) (string, error) {
	if !utf8.Valid(b) {
		return "", errUTF8
	}
	return string(b), nil
}

// clone is like bytes.Clone, but nil for nothing.
func clone(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

const (
	// maxNames bounds what a peer can make a stream remember, together with
	// maxName, the longest of all names and content types in bytes.
	maxNames = 256
	maxName  = 255
)

// names shares the strings that repeat: apps, types, methods, content types.
type names map[string]string

func (n *names) text(b []byte) (string, error) {
	if s, ok := (*n)[string(b)]; ok {
		return s, nil
	}
	s, err := text(b)
	if err != nil || len(s) > maxName || len(*n) >= maxNames {
		return s, err
	}
	if *n == nil {
		*n = make(names)
	}
	(*n)[s] = s
	return s, nil
}
