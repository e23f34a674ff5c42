package meter

import "fmt"

// The opcodes that the rewriting treats in a way of its own, or writes.
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI32LtS       = 0x48
	opI32GtU       = 0x4b
	opI32LeU       = 0x4d
	opI32GeS       = 0x4e
	opI64LtS       = 0x53
	opI64GtU       = 0x56
	opI64GeS       = 0x59
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI32Or        = 0x72
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Mul       = 0x7e
	opI64Shl       = 0x86
	opI64ShrU      = 0x88
	opI32WrapI64   = 0xa7

	opI64ExtendI32S = 0xac
	opI64ExtendI32U = 0xad

	opRefNull   = 0xd0
	opRefIsNull = 0xd1
	opRefFunc   = 0xd2
	opMisc      = 0xfc
	opSIMD      = 0xfd

	miscMemoryInit = 8
	miscDataDrop   = 9
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscElemDrop   = 13
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableSize  = 16
	miscTableFill  = 17

	typeEmpty = 0x40
)

// instruction is one decoded instruction.
type instruction struct {
	op  byte
	sub uint32 // of the prefixes 0xfc and 0xfd
	// index is the one immediate that the rewriting looks at: the function,
	// local, global or label; of br_table, the deepest label.
	index uint32
	// blockType is the function type of a block that has one, otherwise -1.
	blockType int64
	// start and end delimit the instruction in its body.
	start, end int
}

// next decodes the instruction at r; on malformed or unknown bytes r.err is set.
func next(r *reader) instruction {
	in := instruction{start: r.off}
	in.op = r.byte()
	switch op := in.op; {
	case op == opBlock || op == opLoop || op == opIf:
		in.blockType = r.blockType()
	case op == opUnreachable || op == opNop || op == opElse || op == opEnd || op == opReturn,
		op == opDrop || op == opSelect,
		op >= 0x45 && op <= 0xc4, op == opRefIsNull:
	case op == opBr || op == opBrIf, op == opCall, op == opRefFunc,
		op >= opLocalGet && op <= opTableSet:
		in.index = r.u32()
	case op == opBrTable:
		for n := r.count() + 1; n > 0 && r.err == nil; n-- {
			in.index = max(in.index, r.u32())
		}
	case op == opCallIndirect:
		in.index = r.u32()
		r.u32()
	case op == opSelectTyped:
		r.valueTypes(r.count())
	case op >= 0x28 && op <= 0x3e:
		memoryArgument(r)
	case op == opMemorySize || op == opMemoryGrow:
		r.zero()
	case op == opRefNull:
		r.referenceType()
	case op == opI32Const:
		r.skipLEB(32)
	case op == opI64Const:
		r.skipLEB(64)
	case op == opF32Const:
		r.bytes(4)
	case op == opF64Const:
		r.bytes(8)
	case op == opMisc:
		in.sub = r.u32()
		nextMisc(r, in.sub)
	case op == opSIMD:
		in.sub = simdOpcode(r)
		nextSIMD(r, in.sub)
	default:
		r.fail(fmt.Errorf("the instruction 0x%02x is not of WebAssembly 2.0", op))
	}
	in.end = r.off
	return in
}

// memoryArgument reads an alignment and an offset. Greater alignments than any
// that can be right mark the forms of later versions, which have more in them.
func memoryArgument(r *reader) {
	if align := r.u32(); align > 4 && r.err == nil {
		r.fail(fmt.Errorf("an alignment of 1<<%d is not of WebAssembly 2.0", align))
	}
	r.u32()
}

func nextMisc(r *reader, sub uint32) {
	switch {
	case sub < miscMemoryInit: // saturating conversions
	case sub == miscMemoryInit:
		r.u32()
		r.zero()
	case sub == miscMemoryCopy:
		r.zero()
		r.zero()
	case sub == miscMemoryFill:
		r.zero()
	case sub == miscTableInit || sub == miscTableCopy:
		r.u32()
		r.u32()
	case sub <= miscTableFill:
		r.u32()
	default:
		r.fail(fmt.Errorf("the instruction 0xfc %d is not of WebAssembly 2.0", sub))
	}
}

// simdOpcode reads the number after the prefix of SIMD. Only the shortest form
// will do: engines that take the first byte for the opcode and a second for a
// no-operation, as wazero does, would read a longer form as other instructions.
func simdOpcode(r *reader) uint32 {
	first := r.byte()
	if first < 0x80 {
		return uint32(first)
	}
	if second := r.byte(); second != 1 && r.err == nil {
		r.fail(fmt.Errorf("the instruction 0xfd 0x%02x 0x%02x is not of WebAssembly 2.0, or not written in the shortest form", first, second))
	}
	return uint32(first)
}

func nextSIMD(r *reader, sub uint32) {
	switch {
	case sub <= 11, sub == 92 || sub == 93: // loads and stores
		memoryArgument(r)
	case sub == 12 || sub == 13: // v128.const, i8x16.shuffle
		r.bytes(16)
	case sub >= 21 && sub <= 34: // extract_lane, replace_lane
		r.byte()
	case sub >= 84 && sub <= 91: // load_lane, store_lane
		memoryArgument(r)
		r.byte()
	case sub <= 255:
	default:
		r.fail(fmt.Errorf("the instruction 0xfd %d is not of WebAssembly 2.0", sub))
	}
}

// dynamic describes an instruction whose work depends on its last operand.
type dynamic struct {
	shift uint64 // the charge is operand >> shift, …
	times uint64 // … or operand * times, where it is not 0
}

// dynamicCost reports whether in charges by its last operand, always an i32.
func dynamicCost(in instruction) (dynamic, bool) {
	switch {
	case in.op == opMemoryGrow:
		return dynamic{times: growPagesCost}, true
	case in.op != opMisc:
		return dynamic{}, false
	}
	switch in.sub {
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill:
		return dynamic{shift: bulkBytesShift}, true
	case miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
		return dynamic{shift: bulkElementsShift}, true
	}
	return dynamic{}, false
}
