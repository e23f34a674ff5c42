package protobuf

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// Message is a generated message.
type Message interface {
	// AppendProtobuf appends the message in Protobuf's binary form.
	AppendProtobuf(b []byte) []byte
}

// Wire types.
const (
	Varint  = 0
	Fixed64 = 1
	Bytes   = 2
	Fixed32 = 5

	startGroup = 3
	endGroup   = 4
)

// AppendTag appends the number of a field and its wire type.
func AppendTag(b []byte, number, wireType uint32) []byte {
	return binary.AppendUvarint(b, uint64(number)<<3|uint64(wireType))
}

// AppendVarint appends a number of the types int32, int64, uint32, uint64 and of enumerations.
func AppendVarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// AppendZigzag appends a number of the types sint32 and sint64.
func AppendZigzag(b []byte, v int64) []byte {
	return binary.AppendUvarint(b, uint64(v)<<1^uint64(v>>63))
}

// AppendBool appends a bool.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendFixed32 appends a number of the types fixed32 and sfixed32.
func AppendFixed32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }

// AppendFixed64 appends a number of the types fixed64 and sfixed64.
func AppendFixed64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// AppendFloat appends a float.
func AppendFloat(b []byte, v float32) []byte { return AppendFixed32(b, math.Float32bits(v)) }

// AppendDouble appends a double.
func AppendDouble(b []byte, v float64) []byte { return AppendFixed64(b, math.Float64bits(v)) }

// AppendString appends a string, with its length before it.
func AppendString(b []byte, v string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// AppendBytes appends bytes, with their length before them.
func AppendBytes(b, v []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(v))), v...) }

// AppendMessage appends a message, with its length before it.
func AppendMessage(b []byte, m Message) []byte {
	return AppendPacked(b, m.AppendProtobuf)
}

// AppendPacked appends what content appends, with its length before it.
func AppendPacked(b []byte, content func([]byte) []byte) []byte {
	start := len(b)
	b = content(append(b, 0))
	n := len(b) - start - 1
	if n < 1<<7 { // in nearly all cases
		b[start] = byte(n)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	used := binary.PutUvarint(length[:], uint64(n))
	return slices.Replace(b, start, start+1, length[:used]...)
}

// SortedKeys returns the keys of a map in ascending order: a message has one binary form.
func SortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
