package binary

// maxWork bounds what a module costs to compile. Optimizing compilers take time
// that grows with the square of a function's blocks, and a few kilobytes that
// do nothing but nest blocks would keep one busy for hours, past any deadline.
// The unit is the square of [cursor.weight]; measured on wazero 1.12 and two
// shared cores, the worst code takes 5 s per hundred million, ordinary code
// far less. A guest of standard Go is at about fifty million.
const maxWork = 1_000_000_000

// weight passes a function's instructions and returns how many blocks it has
// and how many branches enter them: the size of its control flow.
func (c *cursor) weight() uint64 {
	var w uint64
	for c.left() > 0 && c.err == nil {
		op := c.u8()
		switch {
		case op >= 0x02 && op <= 0x04: // block, loop, if
			c.skipNumber(5)
			w++
		case op == 0x0c || op == 0x0d: // br, br_if
			c.u32()
			w++
		case op == 0x0e: // br_table
			n := c.count("branches in a table", maxBodyBytes, 1)
			for range n + 1 {
				c.u32()
			}
			w += uint64(n) + 1
		default:
			c.operands(op)
		}
	}
	return w
}

// operands passes what follows an opcode that does not branch.
func (c *cursor) operands(op byte) {
	switch {
	case op == 0x26: // table.set
		c.changesTables = true
		c.u32()
	case op == 0x10, op >= 0x20 && op <= 0x25, op == opRefFunc: // an index
		c.u32()
	case op == 0x11: // call_indirect
		c.u32()
		c.u32()
	case op == 0x1c: // select with types
		c.skip(c.count("types of a select", maxParams, 1))
	case op >= 0x28 && op <= 0x3e:
		c.memoryOperand()
	case op == 0x3f, op == 0x40: // memory.size, memory.grow
		c.u8()
	case op == opI32Const, op == opRefNull:
		c.skipNumber(5)
	case op == opI64Const:
		c.skipNumber(10)
	case op == opF32Const:
		c.skip(4)
	case op == opF64Const:
		c.skip(8)
	case op == 0xfc:
		c.bulkOperands(c.u32())
	case op == opVector:
		c.vectorOperands(c.u32())
	case op <= 0x01, op == 0x05, op == opEnd, op == 0x0f, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
	default:
		c.fail("has the instruction 0x%x, which WebAssembly 2.0 does not have; build without experimental features", op)
	}
}

func (c *cursor) memoryOperand() {
	c.u32() // alignment
	c.u32() // offset
}

// bulkOperands passes those of the bulk memory and table instructions and of
// the conversions that do not trap.
func (c *cursor) bulkOperands(op uint32) {
	switch op {
	case 8, 9: // memory.init, data.drop
		c.usesSegments = true
	case 12, 13, 14, 15, 17: // table.init, elem.drop, table.copy, .grow, .fill
		c.changesTables = true
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
