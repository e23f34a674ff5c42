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
