package protobuf

import (
	"encoding/binary"
	"errors"
	"math"
	"unicode/utf8"
)

// Decoder is a pointer to a generated message.
type Decoder interface {
	// DecodeProtobuf reads fields until the reader has no more, over what the message has.
	DecodeProtobuf(r *Reader)
}

// Unmarshal reads a message from Protobuf's binary form. The message has bytes of its own.
func Unmarshal(data []byte, m Decoder) error {
	r := Reader{data: data, end: len(data)}
	m.DecodeProtobuf(&r)
	return r.err
}

// maxDepth is how deep messages may be nested, as in other implementations.
const maxDepth = 100

var (
	errCut   = errors.New("it ends within a field")
	errTag   = errors.New("it has a field of an unknown wire type, or without a number")
	errUTF8  = errors.New("it has text that is not UTF-8")
	errDepth = errors.New("its messages are nested too deep")
)

// Reader reads the fields of a message, one after another. After an error, [Reader.Next] reports
// false, and all values are zero.
type Reader struct {
	data     []byte
	pos, end int // of data; end is that of the message that is read
	tag      uint64
	depth    int
	err      error
}

// Next reads the tag of the next field of the message, and reports whether there is one. Its value
// is to be read, or passed over by [Reader.Skip], before the next one.
func (r *Reader) Next() bool {
	if r.err != nil || r.pos >= r.end {
		return false
	}
	tag := r.Varint()
	if r.err == nil && (tag>>3 == 0 || tag>>3 > maxNumber) {
		r.fail(errTag)
	}
	r.tag = tag
	return r.err == nil
}

// Tag is the number of the field and its wire type: number<<3 | type.
func (r *Reader) Tag() uint64 { return r.tag }

// maxNumber is the highest number of a field. In groups that are passed over, other implementations
// take higher ones, too.
const maxNumber = 1<<29 - 1

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.pos = r.end
}

// take returns the next n bytes.
func (r *Reader) take(n uint64) []byte {
	if r.err != nil || n > uint64(r.end-r.pos) {
		r.fail(errCut)
		return nil
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// Varint reads a number of the types int32, int64, uint32, uint64 and of enumerations.
func (r *Reader) Varint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.data[r.pos:r.end])
	if n <= 0 {
		r.fail(errCut)
		return 0
	}
	r.pos += n
	return v
}

// Zigzag reads a number of the types sint32 and sint64.
func (r *Reader) Zigzag() int64 {
	v := r.Varint()
	return int64(v>>1) ^ -int64(v&1)
}

// Bool reads a bool.
func (r *Reader) Bool() bool { return r.Varint() != 0 }

// Fixed32 reads a number of the types fixed32 and sfixed32.
func (r *Reader) Fixed32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Fixed64 reads a number of the types fixed64 and sfixed64.
func (r *Reader) Fixed64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Float reads a float.
func (r *Reader) Float() float32 { return math.Float32frombits(r.Fixed32()) }

// Double reads a double.
func (r *Reader) Double() float64 { return math.Float64frombits(r.Fixed64()) }

// String reads a string.
func (r *Reader) String() string {
	b := r.take(r.Varint())
	if !utf8.Valid(b) {
		r.fail(errUTF8)
		return ""
	}
	return string(b)
}

// Bytes reads bytes; they are never nil.
func (r *Reader) Bytes() []byte { return append([]byte{}, r.take(r.Varint())...) }

// Message reads a message over what m has.
func (r *Reader) Message(m Decoder) {
	outer := r.end
	end := r.Packed()
	if r.err != nil {
		return
	}
	if r.depth++; r.depth > maxDepth {
		r.fail(errDepth)
		return
	}
	r.end = end
	m.DecodeProtobuf(r)
	r.depth--
	r.end = outer
	if r.err != nil {
		r.pos = outer
	}
}

// Packed begins to read values that stand one after another, and returns where they end, for
// [Reader.Before].
func (r *Reader) Packed() (end int) {
	n := r.Varint()
	if n > uint64(r.end-r.pos) {
		r.fail(errCut)
		return r.end
	}
	return r.pos + int(n)
}

// Before reports whether another value stands before end.
func (r *Reader) Before(end int) bool {
	if r.pos > end {
		r.fail(errCut)
	}
	return r.err == nil && r.pos < end
}

// Skip passes the value of the field over.
func (r *Reader) Skip() { r.skip(r.tag, 0) }

func (r *Reader) skip(tag uint64, depth int) {
	switch tag & 7 {
	case Varint:
		r.Varint()
	case Fixed64:
		r.take(8)
	case Bytes:
		r.take(r.Varint())
	case Fixed32:
		r.take(4)
	case startGroup:
		if depth > maxDepth {
			r.fail(errDepth)
			return
		}
		for {
			switch inner := r.Varint(); {
			case r.err != nil:
				return
			case inner == tag>>3<<3|endGroup:
				return
			case inner>>3 == 0 || inner>>3 > math.MaxInt32:
				r.fail(errTag)
				return
			default:
				r.skip(inner, depth+1)
			}
		}
	default:
		r.fail(errTag)
	}
}
