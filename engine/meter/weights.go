package meter

// Weights are in units of about one simple instruction of compiled code. They
// need not be exact: they bound work within a small factor and never change
// with the host. Dynamic weights are units per so many bytes or elements.
const (
	weightSimple   = 1
	weightMemory   = 1
	weightDivide   = 8
	weightSqrt     = 8
	weightCall     = 4
	weightIndirect = 10
	weightBulk     = 16 // and by size

	bulkBytesShift    = 2 // one unit for 4 bytes copied or filled, as for what hosts copy
	bulkElementsShift = 0 // one unit for each table element
	growPagesCost     = 256
)

// pieceBytes is the most that memory.copy and memory.fill do at a time: some ten
// microseconds' work, and more where the memory is touched for the first time.
const pieceBytes = 64 << 10

// The highest costs of a function that its callers pay for. An indirect call
// pays for the dearest that it could reach, so that those must stay small.
const (
	freeLimit         = 128
	freeIndirectLimit = 32
)

// weight returns the static cost of an instruction; calls and dynamic costs
// come on top.
func weight(op byte, sub uint32) uint64 {
	switch op {
	case opUnreachable, opNop, opBlock, opLoop, opElse, opEnd, opDrop:
		return 0
	case opCall:
		return weightCall
	case opCallIndirect:
		return weightIndirect
	case 0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82, 0x95, 0xa3: // integer and float divisions and remainders
		return weightDivide
	case 0x91, 0x9f: // square roots
		return weightSqrt
	case opMisc:
		if sub >= miscMemoryInit {
			return weightBulk
		}
		return 2 * weightSimple
	case opSIMD:
		return 2 * weightSimple
	case opMemoryGrow:
		return weightBulk
	}
	if op >= 0x28 && op <= 0x3e {
		return weightMemory
	}
	return weightSimple
}
