package abi

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// Kinds of frames, the second byte of a field list.
const (
	KindTurn         uint8 = 1
	KindError        uint8 = 2
	KindHTTPRequest  uint8 = 3
	KindHTTPResponse uint8 = 4
	KindMessage      uint8 = 5
	KindResult       uint8 = 6
	KindReminder     uint8 = 7
)

const (
	fieldListHeader = 2 // version and kind
	fieldHeader     = 6 // tag u16, length u32
)

// FrameError is a frame that breaks SPEC.md section 4.
type FrameError struct {
	// Frame names what was decoded: "turn frame", "error frame", "key list".
	Frame string
	// Offset is the byte at which the faulty part begins.
	Offset int
	// Problem says what is wrong there.
	Problem string
}

// Error names the frame, the byte and the problem.
func (e *FrameError) Error() string {
	return e.Frame + ", byte " + strconv.Itoa(e.Offset) + ": " + e.Problem
}

// fieldReader walks a field list. It holds every rule that does not depend on
// the fields' meaning, so that all kinds of frames are equally strict.
type fieldReader struct {
	name  string
	frame []byte
	pos   int // of the next field
	start int // of the field that next returned last
	last  int // its tag; 0 before the first
}

func readFields(name string, kind uint8, frame []byte) (fieldReader, error) {
	r := fieldReader{name: name, frame: frame, pos: fieldListHeader}
	switch {
	case len(frame) < fieldListHeader:
		return r, r.fail("ends before version and kind")
	case frame[0] != Version:
		return r, r.fail("version " + strconv.Itoa(int(frame[0])) + ", not " + strconv.Itoa(Version))
	case frame[1] != kind:
		r.start = 1
		return r, r.fail("kind " + strconv.Itoa(int(frame[1])) + ", not " + strconv.Itoa(int(kind)))
	}
	return r, nil
}

// eachField calls read with each field of a frame, in order.
func eachField(name string, kind uint8, frame []byte, read func(r *fieldReader, tag uint16, value []byte) error) error {
	r, err := readFields(name, kind, frame)
	for err == nil {
		var tag uint16
		var value []byte
		if tag, value, err = r.next(); err != nil || tag == 0 {
			return err
		}
		err = read(&r, tag, value)
	}
	return err
}

// next returns the next field; tag 0 at the end. The value aliases the frame.
func (r *fieldReader) next() (tag uint16, value []byte, err error) {
	rest := r.frame[r.pos:]
	if len(rest) == 0 {
		return 0, nil, nil
	}
	r.start = r.pos
	if len(rest) < fieldHeader {
		return 0, nil, r.fail("ends inside a field's tag and length")
	}
	tag = binary.LittleEndian.Uint16(rest)
	size := binary.LittleEndian.Uint32(rest[2:])
	rest = rest[fieldHeader:]
	switch {
	case tag == 0:
		return 0, nil, r.fail("tag 0")
	case int(tag) == r.last:
		return 0, nil, r.fail("repeats tag " + strconv.Itoa(int(tag)))
	case int(tag) < r.last:
		return 0, nil, r.fail("tag " + strconv.Itoa(int(tag)) + " after tag " + strconv.Itoa(r.last))
	case uint64(size) > uint64(len(rest)):
		return 0, nil, r.fail("tag " + strconv.Itoa(int(tag)) + " claims " + strconv.FormatUint(uint64(size), 10) +
			" bytes, " + strconv.Itoa(len(rest)) + " are left")
	}
	r.last = int(tag)
	r.pos += fieldHeader + int(size)
	return tag, rest[:size:size], nil
}

func (r *fieldReader) fail(problem string) error {
	return &FrameError{Frame: r.name, Offset: r.start, Problem: problem}
}

func (r *fieldReader) width(value []byte, want int) error {
	if len(value) == want {
		return nil
	}
	return r.fail("tag " + strconv.Itoa(r.last) + " has " + strconv.Itoa(len(value)) + " bytes, not " + strconv.Itoa(want))
}

func (r *fieldReader) u8(dst *uint8, value []byte) error {
	if err := r.width(value, 1); err != nil {
		return err
	}
	*dst = value[0]
	return nil
}

func (r *fieldReader) u16(dst *uint16, value []byte) error {
	if err := r.width(value, 2); err != nil {
		return err
	}
	*dst = binary.LittleEndian.Uint16(value)
	return nil
}

func (r *fieldReader) u32(dst *uint32, value []byte) error {
	if err := r.width(value, 4); err != nil {
		return err
	}
	*dst = binary.LittleEndian.Uint32(value)
	return nil
}

func (r *fieldReader) u64(dst *uint64, value []byte) error {
	if err := r.width(value, 8); err != nil {
		return err
	}
	*dst = binary.LittleEndian.Uint64(value)
	return nil
}

func (r *fieldReader) i64(dst *int64, value []byte) error {
	if err := r.width(value, 8); err != nil {
		return err
	}
	*dst = int64(binary.LittleEndian.Uint64(value))
	return nil
}

func (r *fieldReader) text(dst *string, value []byte) error {
	if !utf8.Valid(value) {
		return r.fail("tag " + strconv.Itoa(r.last) + " is not UTF-8")
	}
	*dst = unsafe.String(unsafe.SliceData(value), len(value))
	return nil
}

func appendFieldList(dst []byte, kind uint8) []byte { return append(dst, Version, kind) }

func appendFieldHeader(dst []byte, tag uint16, size int) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, tag)
	return binary.LittleEndian.AppendUint32(dst, uint32(size))
}

// The append functions leave out what is zero or empty.

func appendU8(dst []byte, tag uint16, v uint8) []byte {
	if v == 0 {
		return dst
	}
	return append(appendFieldHeader(dst, tag, 1), v)
}

func appendU16(dst []byte, tag uint16, v uint16) []byte {
	if v == 0 {
		return dst
	}
	return binary.LittleEndian.AppendUint16(appendFieldHeader(dst, tag, 2), v)
}

func appendU32(dst []byte, tag uint16, v uint32) []byte {
	if v == 0 {
		return dst
	}
	return binary.LittleEndian.AppendUint32(appendFieldHeader(dst, tag, 4), v)
}

func appendU64(dst []byte, tag uint16, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return binary.LittleEndian.AppendUint64(appendFieldHeader(dst, tag, 8), v)
}

func appendText(dst []byte, tag uint16, v string) []byte {
	if v == "" {
		return dst
	}
	return append(appendFieldHeader(dst, tag, len(v)), v...)
}

func appendBytes(dst []byte, tag uint16, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	return append(appendFieldHeader(dst, tag, len(v)), v...)
}
