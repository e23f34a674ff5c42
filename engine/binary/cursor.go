package binary

import (
	"fmt"
	"unicode/utf8"
)

// Error is a module that cannot be read.
type Error struct {
	// Offset is where in the module's bytes it shows.
	Offset int
	// Limit tells a module that is well formed but beyond a limit of this
	// package from one that is malformed.
	Limit   bool
	Problem string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (at byte %d)", e.Problem, e.Offset) }

// cursor reads a part of a module. Its first error sticks: every later read
// gives zero, so that callers check once per entry instead of once per byte.
type cursor struct {
	buf []byte // the whole module, so that offsets are the module's
	pos int
	end int
	err *Error

	// What the instructions of a body may do; see weight.
	changesTables, usesSegments bool
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = &Error{Offset: c.pos, Problem: fmt.Sprintf(format, args...)}
	}
}

func (c *cursor) limit(format string, args ...any) {
	if c.err == nil {
		c.err = &Error{Offset: c.pos, Limit: true, Problem: fmt.Sprintf(format, args...)}
	}
}

func (c *cursor) remaining() int { return c.end - c.pos }

func (c *cursor) u8() byte {
	if c.err != nil {
		return 0
	}
	if c.pos >= c.end {
		c.fail("ends in the middle of an entry")
		return 0
	}
	b := c.buf[c.pos]
	c.pos++
	return b
}

// u32 reads an unsigned LEB128 number of at most 32 bits.
func (c *cursor) u32() uint32 {
	var v uint32
	for shift := uint(0); ; shift += 7 {
		b := c.u8()
		if c.err != nil {
			return 0
		}
		if shift == 28 && b > 0x0f {
			c.fail("has a number of more than 32 bits")
			return 0
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}

// skipNumber passes a LEB128 number of at most size bytes.
func (c *cursor) skipNumber(size int) {
	for range size {
		if b := c.u8(); b < 0x80 || c.err != nil {
			return
		}
	}
	c.fail("has a number of more than %d bytes", size)
}

func (c *cursor) skip(n int) {
	if c.err != nil {
		return
	}
	if n < 0 || n > c.remaining() {
		c.fail("claims %d bytes where %d are left", n, c.remaining())
		return
	}
	c.pos += n
}

// count reads the length of a vector whose entries have at least size bytes.
func (c *cursor) count(what string, most uint32, size int) int {
	n := c.u32()
	if n > most {
		c.limit("has %d %s; at most %d are allowed", n, what, most)
		return 0
	}
	if int64(n)*int64(size) > int64(c.remaining()) {
		c.fail("claims %d %s in %d bytes", n, what, c.remaining())
		return 0
	}
	return int(n)
}

func (c *cursor) name() string {
	n := c.count("bytes in a name", maxNameBytes, 1)
	start := c.pos
	c.skip(n)
	if c.err != nil {
		return ""
	}
	s := c.buf[start:c.pos]
	if !utf8.Valid(s) {
		c.fail("has a name that is not UTF-8")
		return ""
	}
	return string(s)
}
