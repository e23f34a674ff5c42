package binary

// What a module costs to compile, and for wazero to check. Optimizing compilers take
// time that grows with the square of a function's blocks, and memory for each value
// that is passed on at each of them: a few kilobytes that do nothing but nest blocks,
// or that pass a thousand values a thousand times, would keep one busy for hours, or
// take all memory. Code that is written by people and compilers is far below these
// bounds; what they let pass is bounded by package compile, in a process that can be
// ended.
//
// Figures are of wazero 1.12 on two shared cores. The largest guest of standard Go
// that was tried, half of the standard library, has 21 MB.
const (
	// maxWork is of the work of all functions; see [load.work]. The worst code takes
	// 5 s per hundred million, ordinary code a tenth of that. The 21 MB are at 350
	// million.
	maxWork = 600_000_000
	// maxPassed and maxFunctionPassed are of the values that calls, blocks and
	// branches take and give, which take a compiler's memory until the function is
	// compiled. The 21 MB have 210,000, and 1,100 in one function.
	maxPassed         = 5_000_000
	maxFunctionPassed = 500_000
	// maxMerged is of one function's local variables times the places where its
	// control flow meets: at each, each variable may have to be merged, for about
	// 100 bytes. The 21 MB have 62,000 in one function; interpreters written in C
	// come to a million.
	maxMerged = 3_000_000
	// maxLoopDepth is of loops within each other: wazero finds out what they merge in
	// rounds, one for each that is within another; 3,000 take it half a minute.
	maxLoopDepth = 100
	// maxDeclared is of functions times types: wazero declares all types anew for
	// each function. The 21 MB are at 230,000.
	maxDeclared = 100_000_000
	// maxTypeValues is of the parameters and results of all types: wazero writes an
	// entry for each type, with code for each of them.
	maxTypeValues = 50_000
)

// load is what one function costs.
type load struct {
	flow   uint64 // blocks, and branches that enter them
	passed uint64 // values that calls, blocks and branches take and give, and calls
	loops  uint64
	depth  int // of loops within each other
}

// work is what compiling the function takes time for: the square of what its control
// flow and its local variables come to. Loops count more, since wazero finds out what
// is merged at their beginnings in as many rounds over them as there are in a row.
func (l load) work(locals uint64) uint64 {
	const loopWeight = 200
	return (l.flow+locals)*(l.flow+locals) + loopWeight*l.loops*l.loops
}

// weigher reads the code of functions.
type weigher struct {
	types  []FuncType
	funcs  []uint32 // the type of each function, imported ones first
	labels []label  // the blocks that are open
	loops  int      // of them
}

// label is what a branch can lead to.
type label struct {
	values uint32 // that a branch passes
	loop   bool
}

func (w *weigher) width(typ uint32) uint64 {
	if int64(typ) >= int64(len(w.types)) {
		return 0 // the runtime says so
	}
	return uint64(len(w.types[typ].Params) + len(w.types[typ].Results))
}

// open opens a block, and returns the values that it takes and gives.
func (w *weigher) open(loop bool, typ int64) uint64 {
	var t FuncType
	switch {
	case typ >= 0 && typ < int64(len(w.types)):
		t = w.types[typ]
	case typ < 0 && typ != blockEmpty:
		t.Results = oneValue
	}
	n := len(t.Results)
	if loop {
		n = len(t.Params)
	}
	if loop {
		w.loops++
	}
	w.labels = append(w.labels, label{uint32(n), loop})
	return uint64(len(t.Params) + len(t.Results))
}

// branch is how many values a branch passes.
func (w *weigher) branch(to uint32) uint64 {
	if int64(to) >= int64(len(w.labels)) {
		return 0 // the runtime says so
	}
	return uint64(w.labels[len(w.labels)-1-int(to)].values)
}

// blockEmpty is the type of a block without values.
const blockEmpty = -0x40

var oneValue = []ValueType{I32}

// weigh passes a function's instructions.
func (w *weigher) weigh(c *cursor, typ uint32) (l load) {
	w.labels = w.labels[:0]
	var results uint64
	if int64(typ) < int64(len(w.types)) {
		results = uint64(len(w.types[typ].Results))
	}
	w.labels, w.loops = append(w.labels, label{values: uint32(results)}), 0
	for c.remaining() > 0 && c.err == nil {
		op := c.u8()
		switch op {
		case 0x02, 0x03, 0x04: // block, loop, if
			l.passed += w.open(op == 0x03, c.s33())
			l.flow++
			if op == 0x03 {
				l.loops++
			}
			l.depth = max(l.depth, w.loops)
		case opEnd:
			if len(w.labels) == 0 {
				c.fail("has code behind the end of a function")
				return l
			}
			if w.labels[len(w.labels)-1].loop {
				w.loops--
			}
			w.labels = w.labels[:len(w.labels)-1]
		case 0x0c, 0x0d: // br, br_if
			l.passed += w.branch(c.u32())
			l.flow++
		case 0x0e: // br_table
			n := c.count("branches in a table", maxBodyBytes, 1)
			for range n + 1 {
				l.passed += w.branch(c.u32())
			}
			l.flow += uint64(n) + 1
		case 0x0f: // return
			l.passed += results
		case 0x10: // call
			if f := c.u32(); int64(f) < int64(len(w.funcs)) {
				l.passed += 1 + w.width(w.funcs[f])
			}
		case 0x11: // call_indirect
			l.passed += 1 + w.width(c.u32())
			c.u32()
		default:
			c.operands(op)
		}
	}
	return l
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

// operands passes what follows an opcode that does not branch.
func (c *cursor) operands(op byte) {
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
	case op <= 0x01, op == 0x05, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
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
