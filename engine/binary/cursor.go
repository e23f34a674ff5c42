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

func (c *cursor) valueType() ValueType {
	t := ValueType(c.u8())
	switch t {
	case I32, I64, F32, F64, V128, FuncRef, ExternRef:
		return t
	}
	c.fail("uses the value type 0x%x, which WebAssembly 2.0 does not have", byte(t))
	return 0
}

func (c *cursor) valueTypes(what string) []ValueType {
	n := c.count(what, maxParams, 1)
	if n == 0 {
		return nil
	}
	ts := make([]ValueType, 0, n)
	for range n {
		ts = append(ts, c.valueType())
	}
	return ts
}

func (c *cursor) limits() Limits {
	var l Limits
	flags := c.u8()
	if flags > 1 {
		c.fail("has limits with the flags 0x%x; shared and 64-bit memories are not supported", flags)
		return l
	}
	l.Min = c.u32()
	if flags == 1 {
		l.HasMax, l.Max = true, c.u32()
		if l.Max < l.Min {
			c.fail("has a maximum of %d below its minimum of %d", l.Max, l.Min)
		}
	}
	return l
}

// address passes the place of a segment. It reports false where that is not just
// an i32.const.
func (c *cursor) address() (uint32, bool) {
	start := c.pos
	c.constExpr()
	if c.err != nil || c.buf[start] != opI32Const {
		return 0, false
	}
	var v int64
	at, shift := start+1, uint(0)
	for ; ; at++ {
		b := c.buf[at]
		v |= int64(b&0x7f) << shift
		shift += 7
		if b < 0x80 {
			if b&0x40 != 0 {
				v |= -1 << shift
			}
			break
		}
	}
	return uint32(v), at+2 == c.pos
}

// constExpr passes a constant expression. Whether it is valid is the runtime's
// to say; here only its end matters.
func (c *cursor) constExpr() {
	for c.err == nil {
		switch op := c.u8(); op {
		case opEnd:
			return
		case opGlobalGet, opRefFunc:
			c.u32()
		case opI32Const:
			c.skipNumber(5)
		case opI64Const:
			c.skipNumber(10)
		case opF32Const:
			c.skip(4)
		case opF64Const:
			c.skip(8)
		case opRefNull:
			c.u8()
		case opVector: // v128.const is the only constant one
			c.u32()
			c.skip(16)
		default:
			c.fail("has the instruction 0x%x in a constant expression", op)
		}
	}
}

// s33 reads the type of a block: a type's number, or below zero a value type.
func (c *cursor) s33() int64 {
	var v int64
	for shift := uint(0); shift < 35; shift += 7 {
		b := c.u8()
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	c.fail("has a number of more than 33 bits")
	return 0
}

// operands passes what follows an opcode that does not branch, and returns how many
// ifs are written for it.
func (c *cursor) operands(op byte) (ifs int) {
	switch {
	case op == 0x26: // table.set
		c.changesTables = true
		c.u32()
	case op >= 0x20 && op <= 0x25, op == opRefFunc: // an index
		c.u32()
	case op == 0x1c: // select with types
		c.skip(c.count("types of a select", maxParams, 1))
	case op >= 0x28 && op <= 0x3e:
		c.memoryOperand()
	case op == 0x3f: // memory.size
		c.u8()
	case op == 0x40: // memory.grow
		c.u8()
		ifs = 1
	case op == opI32Const, op == opRefNull:
		c.skipNumber(5)
	case op == opI64Const:
		c.skipNumber(10)
	case op == opF32Const:
		c.skip(4)
	case op == opF64Const:
		c.skip(8)
	case op == 0xfc:
		ifs = c.bulkOperands(c.u32())
	case op == opVector:
		c.vectorOperands(c.u32())
	case op == 0x01, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
	default:
		c.fail("has the instruction 0x%x, which WebAssembly 2.0 does not have; build without experimental features", op)
	}
	return ifs
}

func (c *cursor) memoryOperand() {
	c.u32() // alignment
	c.u32() // offset
}

// bulkOperands passes those of the bulk memory and table instructions and of
// the conversions that do not trap. It returns how many ifs are written for one.
func (c *cursor) bulkOperands(op uint32) (ifs int) {
	switch op {
	case 8, 9: // memory.init, data.drop
		c.usesSegments = true
	case 12, 13, 14, 15, 17: // table.init, elem.drop, table.copy, .grow, .fill
		c.changesTables = true
	}
	switch op {
	case 8, 12, 14, 15: // memory.init, table.init, table.copy, table.grow
		ifs = 1
	case 10: // memory.copy, in pieces
		ifs = 3
	case 11, 17: // memory.fill, table.fill: wazero makes loops of them
		ifs = 6
	}
	switch op {
	case 0, 1, 2, 3, 4, 5, 6, 7:
	case 9, 11, 13, 15, 16, 17: // data.drop, memory.fill, elem.drop, table.grow, .size, .fill
		c.u32()
	case 8, 10, 12, 14: // memory.init, memory.copy, table.init, table.copy
		c.u32()
		c.u32()
	default:
		c.fail("has the instruction 0xfc %d, which WebAssembly 2.0 does not have", op)
	}
	return ifs
}

func (c *cursor) vectorOperands(op uint32) {
	switch {
	case op <= 11, op == 92, op == 93: // loads and stores
		c.memoryOperand()
	case op == 12, op == 13: // a constant, a shuffle
		c.skip(16)
	case op >= 21 && op <= 34: // a lane
		c.u8()
	case op >= 84 && op <= 91: // a load or store of a lane
		c.memoryOperand()
		c.u8()
	case op > 255:
		c.fail("has the instruction 0xfd %d, which WebAssembly 2.0 does not have", op)
	}
}
