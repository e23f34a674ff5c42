package meter

// helpers are the functions behind the module's own that do large memory.copy and
// memory.fill in pieces, each charged before it is done: an engine cannot be
// interrupted within one instruction, and a copy of a gigabyte takes a good part
// of a second. They have the instruction's operands for parameters.
func (w *rewriter) helpers() (bodies [][]byte) {
	if w.m.usesCopy {
		bodies = append(bodies, w.copyInPieces())
	}
	if w.m.usesFill {
		bodies = append(bodies, w.fillInPieces())
	}
	return bodies
}

// helper returns the index of the function that does what in does.
func (w *rewriter) helper(in instruction) (index uint32, ok bool) {
	first := w.m.funcs() + 1 // behind refill
	switch {
	case in.op != opMisc:
		return 0, false
	case in.sub == miscMemoryCopy:
		return first, true
	case in.sub == miscMemoryFill && w.m.usesCopy:
		return first + 1, true
	case in.sub == miscMemoryFill:
		return first, true
	}
	return 0, false
}

// payPieces writes an instruction that has a helper. Its operands are on the
// stack; what is small is charged and done here.
func (f *function) payPieces(in instruction, d dynamic, helper uint32) {
	f.op(opLocalTee).index(f.sizeLocal)
	f.syncIf(true)
	f.op(opLocalGet).index(f.sizeLocal).op(opI32Const).constant(pieceBytes).op(opI32GtU)
	f.op(opIf).constant(int64(f.helperType))
	f.op(opCall).index(helper)
	f.op(opElse)
	f.paySize(d)
	f.flush(in.end)
	f.op(opEnd)
	f.loadIf(true)
}

// The local variables of a helper: the operands, and what a charge leaves.
const (
	pieceTo   = 0
	pieceFrom = 1 // of memory.fill the value
	pieceSize = 2
	pieceLeft = 3
)

func (w *rewriter) newHelper() *function {
	f := &function{rewriter: w, plan: &plan{}, leftLocal: pieceLeft}
	const groups, count = 1, 1
	f.out = []byte{groups, count, typeI64}
	return f
}

// copyInPieces goes upwards or downwards, so that no piece is overwritten before
// it is copied.
func (w *rewriter) copyInPieces() []byte {
	f := w.newHelper()
	f.beyond(pieceTo)
	f.beyond(pieceFrom)
	f.op(opI32Or)
	f.op(opIf).op(typeEmpty)
	f.all(miscMemoryCopy) // traps, with nothing done
	f.op(opEnd)

	f.op(opLocalGet).index(pieceTo).op(opLocalGet).index(pieceFrom).op(opI32LeU)
	f.op(opIf).op(typeEmpty)
	f.op(opLoop).op(typeEmpty)
	f.lastPiece(miscMemoryCopy)
	f.op(opLocalGet).index(pieceTo).op(opLocalGet).index(pieceFrom).op(opI32Const).constant(pieceBytes)
	f.bulk(miscMemoryCopy)
	f.move(pieceTo, opI32Add)
	f.move(pieceFrom, opI32Add)
	f.move(pieceSize, opI32Sub)
	f.op(opBr).index(0).op(opEnd).op(opEnd)

	f.op(opLoop).op(typeEmpty)
	f.lastPiece(miscMemoryCopy)
	f.move(pieceSize, opI32Sub)
	for _, at := range []uint32{pieceTo, pieceFrom} {
		f.op(opLocalGet).index(at).op(opLocalGet).index(pieceSize).op(opI32Add)
	}
	f.op(opI32Const).constant(pieceBytes)
	f.bulk(miscMemoryCopy)
	f.op(opBr).index(0).op(opEnd)
	return f.op(opEnd).out
}

func (w *rewriter) fillInPieces() []byte {
	f := w.newHelper()
	f.beyond(pieceTo)
	f.op(opIf).op(typeEmpty)
	f.all(miscMemoryFill) // traps, with nothing done
	f.op(opEnd)

	f.op(opLoop).op(typeEmpty)
	f.lastPiece(miscMemoryFill)
	f.op(opLocalGet).index(pieceTo).op(opLocalGet).index(pieceFrom).op(opI32Const).constant(pieceBytes)
	f.bulk(miscMemoryFill)
	f.move(pieceTo, opI32Add)
	f.move(pieceSize, opI32Sub)
	f.op(opBr).index(0).op(opEnd)
	return f.op(opEnd).out
}

// beyond leaves whether what begins at a local variable ends beyond the memory.
func (f *function) beyond(at uint32) {
	const pageShift = 16
	f.op(opLocalGet).index(at).op(opI64ExtendI32U)
	f.op(opLocalGet).index(pieceSize).op(opI64ExtendI32U).op(opI64Add)
	f.op(opMemorySize).op(0).op(opI64ExtendI32U).op(opI64Const).constant(pageShift).op(opI64Shl)
	f.op(opI64GtU)
}

// lastPiece charges a piece, and if that is all that is left, does it and returns.
func (f *function) lastPiece(sub uint32) {
	f.pay(pieceBytes>>bulkBytesShift + weightBulk)
	f.op(opLocalGet).index(pieceSize).op(opI32Const).constant(pieceBytes).op(opI32LeU)
	f.op(opIf).op(typeEmpty)
	f.all(sub)
	f.op(opEnd)
}

// all does all that is left, and returns.
func (f *function) all(sub uint32) {
	f.op(opLocalGet).index(pieceTo).op(opLocalGet).index(pieceFrom).op(opLocalGet).index(pieceSize)
	f.bulk(sub)
	f.op(opReturn)
}

func (f *function) bulk(sub uint32) {
	f.op(opMisc).index(sub).op(0)
	if sub == miscMemoryCopy {
		f.op(0)
	}
}

// move adds a piece to a local variable, or takes one from it.
func (f *function) move(local uint32, op byte) {
	f.op(opLocalGet).index(local).op(opI32Const).constant(pieceBytes).op(op).op(opLocalSet).index(local)
}
