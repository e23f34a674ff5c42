package meter

import (
	"errors"
	"fmt"
)

var errTruncated = errors.New("ends early")

// reader reads WebAssembly's binary encoding. Its first error sticks: every
// later read gives zero, so that callers check once for several reads. No
// length it returns passes what is left of the input.
type reader struct {
	b   []byte
	off int
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: %w", r.off, err)
	}
	r.off = len(r.b) // stops every loop that runs to the end
}

func (r *reader) done() bool { return r.off >= len(r.b) }

func (r *reader) byte() byte {
	if r.off >= len(r.b) {
		r.fail(errTruncated)
		return 0
	}
	c := r.b[r.off]
	r.off++
	return c
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.b)-r.off) {
		r.fail(errTruncated)
		return nil
	}
	out := r.b[r.off : r.off+int(n)]
	r.off += int(n)
	return out
}

// u32 reads an unsigned LEB128 of at most 32 bits.
func (r *reader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			if v > 0xffffffff {
				break
			}
			return uint32(v)
		}
	}
	if r.err == nil {
		r.fail(errors.New("a number does not fit 32 bits"))
	}
	return 0
}

// The types of values that WebAssembly 2.0 has, each of one byte. Engines know
// more, some of several bytes: nothing may pass that an engine could read
// differently, or it could hide instructions from the rewriting.
const (
	typeI32    = 0x7f
	typeI64    = 0x7e
	typeF32    = 0x7d
	typeF64    = 0x7c
	typeV128   = 0x7b
	typeFunc   = 0x70
	typeExtern = 0x6f
)

// valueType reads a type of a value.
func (r *reader) valueType() {
	t := r.byte()
	if (t < typeV128 || t > typeI32) && t != typeFunc && t != typeExtern && r.err == nil {
		r.fail(fmt.Errorf("the type 0x%02x is not of WebAssembly 2.0", t))
	}
}

// valueTypes reads n types of values.
func (r *reader) valueTypes(n uint32) []byte {
	start := r.off
	for ; n > 0 && r.err == nil; n-- {
		r.valueType()
	}
	if r.err != nil {
		return nil
	}
	return r.b[start:r.off]
}

// referenceType reads a type of what tables hold.
func (r *reader) referenceType() {
	t := r.byte()
	if t != typeFunc && t != typeExtern && r.err == nil {
		r.fail(fmt.Errorf("the type 0x%02x is not a reference of WebAssembly 2.0", t))
	}
}

// blockType reads the type of a block: the index of a function type, or -1 for
// one that is written as a byte.
func (r *reader) blockType() int64 {
	if r.off < len(r.b) {
		if t := r.b[r.off]; t == typeEmpty {
			r.off++
			return -1
		} else if t&0xc0 == 0x40 { // one byte, negative
			r.valueType()
			return -1
		}
	}
	t := r.s33()
	if t < 0 && r.err == nil {
		r.fail(errors.New("a block type is not of WebAssembly 2.0"))
	}
	return t
}

// zero reads a byte that is reserved.
func (r *reader) zero() {
	if c := r.byte(); c != 0 && r.err == nil {
		r.fail(fmt.Errorf("a reserved byte is 0x%02x, not zero", c))
	}
}

// skipLEB skips a LEB128 of at most bits bits, signed or not.
func (r *reader) skipLEB(bits int) {
	for range (bits + 6) / 7 {
		if r.byte()&0x80 == 0 {
			return
		}
	}
	if r.err == nil {
		r.fail(fmt.Errorf("a number does not fit %d bits", bits))
	}
}

// s33 reads a signed LEB128 of at most 33 bits, as block types are written.
func (r *reader) s33() int64 {
	var v int64
	for shift := uint(0); shift < 35; shift += 7 {
		c := r.byte()
		v |= int64(c&0x7f) << shift
		if c&0x80 == 0 {
			if c&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	if r.err == nil {
		r.fail(errors.New("a block type does not fit 33 bits"))
	}
	return 0
}

// count reads the length of a vector whose elements take at least one byte
// each, so that a lying length cannot make anyone allocate.
func (r *reader) count() uint32 {
	n := r.u32()
	if uint64(n) > uint64(len(r.b)-r.off) {
		r.fail(fmt.Errorf("a list of %d elements in %d bytes", n, len(r.b)-r.off))
		return 0
	}
	return n
}

func (r *reader) name() string { return string(r.bytes(r.u32())) }

func appendU32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendS64(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func appendName(b []byte, s string) []byte {
	return append(appendU32(b, uint32(len(s))), s...)
}
