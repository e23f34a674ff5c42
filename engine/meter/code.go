package meter

import "fmt"

// code writes the code section.
func (w *rewriter) code() ([]byte, error) {
	size := 0
	for _, b := range w.m.bodies {
		size += len(b)
	}
	helpers := w.helpers()
	out := appendU32(make([]byte, 0, size+size/4), uint32(len(w.m.bodies)+len(helpers)))
	var body []byte
	for i, original := range w.m.bodies {
		f := &function{rewriter: w, plan: w.plans[i], typ: w.m.funcTypes[i], in: original, out: body[:0]}
		body = f.write()
		if f.err != nil {
			return nil, fmt.Errorf("function %d: %w", w.m.importedFuncs+uint32(i), f.err)
		}
		if limit := w.cfg.MaxBytes; limit > 0 && len(out)+len(body) > limit {
			return nil, &SizeError{Limit: limit, Function: w.m.importedFuncs + uint32(i)}
		}
		out = append(appendU32(out, uint32(len(body))), body...)
	}
	for _, body := range helpers {
		out = append(appendU32(out, uint32(len(body))), body...)
	}
	return out, nil
}

// function writes one body.
type function struct {
	*rewriter
	*plan
	typ uint32
	in  []byte
	out []byte
	err error

	fuelLocal uint32  // i32: the fuel, where it is kept in a local variable
	leftLocal uint32  // i64: what a charge to the global left
	sizeLocal uint32  // i32
	copied    int     // of in
	loop      int     // index of the next one
	charges   []int64 // of the open ones
	// added says of each open block of the original how many labels were added
	// to it, see loopHeader, and to all around it. The first is the function itself.
	added []uint32
}

func (f *function) write() []byte {
	f.declareLocals()
	if !f.free {
		if f.deepAll() {
			f.enter(f.plan.depth)
		}
		f.payEntry()
		if f.wrapped() {
			f.op(opBlock).blockType()
		}
	}
	f.added = []uint32{0}
	r := &reader{b: f.in, off: f.localsEnd}
	for len(f.added) > 0 && r.err == nil {
		in := next(r)
		if in.start == f.deep.from && f.deep.to > 0 {
			f.flush(in.start)
			f.enter(f.plan.depth)
		}
		f.instruction(r, in)
		if in.end == f.deep.to {
			f.flush(in.end)
			f.leave(f.plan.depth)
		}
	}
	f.err = r.err
	f.flush(len(f.in))
	return f.out
}

// declareLocals copies the declarations and adds what this function needs.
func (f *function) declareLocals() {
	r := &reader{b: f.in}
	r.u32()
	groups := [][2]byte{}
	next := f.locals
	add := func(typ byte) uint32 {
		groups = append(groups, [2]byte{1, typ})
		next++
		return next - 1
	}
	if f.local {
		f.fuelLocal = add(typeI32)
	}
	if !f.free && (!f.local || f.dynamic || !f.loopFirst) {
		f.leftLocal = add(typeI64)
	}
	if f.dynamic || f.plan.depth > 0 || f.indirect && f.indirectDepth > 0 {
		f.sizeLocal = add(typeI32)
	}
	f.out = appendU32(f.out, f.groups+uint32(len(groups)))
	f.out = append(f.out, f.in[r.off:f.localsEnd]...)
	for _, g := range groups {
		f.out = append(f.out, g[:]...)
	}
	f.copied = f.localsEnd
}

// instruction writes one instruction with what comes around it.
func (f *function) instruction(r *reader, in instruction) {
	if f.free {
		f.freeInstruction(in)
		return
	}
	if d, ok := dynamicCost(in); ok {
		f.flush(in.start)
		if helper, ok := f.helper(in); ok {
			f.payPieces(in, d, helper)
		} else {
			f.payOperand(d)
		}
		return
	}
	switch in.op {
	case opBlock, opIf:
		f.open(0)
	case opLoop:
		f.loopHeader(in)
	case opEnd:
		f.end(in)
	case opBr, opBrIf:
		if l := f.label(in.index); l != in.index {
			f.replace(in, in.op, l)
		}
	case opBrTable:
		f.branchTable(r, in)
	case opReturn:
		if f.wrapped() {
			f.replace(in, opBr, f.label(uint32(len(f.added)-1)))
		}
	case opRefFunc:
		f.replace(in, opRefFunc, f.shift(in.index))
	case opCall:
		_, charged := f.callCost(in.index)
		f.flush(in.start)
		f.syncIf(charged)
		f.replace(in, opCall, f.shift(in.index))
		f.loadIf(charged)
	case opCallIndirect:
		f.flush(in.start)
		f.syncIf(true)
		if f.indirectDepth > 0 {
			f.enter(f.indirectDepth)
		}
		f.flush(in.end)
		if f.indirectDepth > 0 {
			f.leave(f.indirectDepth)
		}
		f.loadIf(true)
	}
}

// freeInstruction writes one of a function that is not charged.
func (f *function) freeInstruction(in instruction) {
	switch in.op {
	case opBlock, opIf:
		f.open(0)
	case opEnd:
		f.added = f.added[:len(f.added)-1]
	case opCall, opRefFunc:
		f.replace(in, in.op, f.shift(in.index))
	}
}

// loopHeader charges a round. Where the fuel is in the local variable, the call
// that asks for more stands outside the loop, in a second one around it, to which
// the header goes when a round cannot be paid: a call within would make the
// engine keep every value of the loop in memory. The second loop gives the
// round's charge back, as the header then takes it again.
//
//	loop                          ;; the second one
//	  if fuel < 0: fuel = refill(fuel) + charge
//	  loop                        ;; the original
//	    fuel -= charge
//	    if fuel >= 0
//	      the body
//	    else br 2 end
//
// Where the fuel is in the global, the loop has calls anyway, and needs no other:
// the else asks for more and branches to the loop itself.
//
// The body stands in an if, and is not passed by a br_if, since wazero makes one
// compare-and-jump of an if, to code that it moves out of the way, while a br_if
// to a loop costs it five instructions, one of them a jump that is taken.
func (f *function) loopHeader(in instruction) {
	charge := int64(min(f.loops[f.loop], MaxFuel/2))
	f.loop++
	f.charges = append(f.charges, charge)
	f.flush(in.start)
	header := f.in[in.start:in.end]
	if f.local {
		f.open(2)
		f.out = append(f.out, header...)
		f.op(opLocalGet).index(f.fuelLocal).op(opI32Const).constant(0).op(opI32LtS)
		f.op(opIf).op(typeEmpty)
		f.op(opLocalGet).index(f.fuelLocal).op(opI64ExtendI32S)
		f.op(opCall).index(f.refill).op(opI32WrapI64)
		f.op(opI32Const).constant(charge).op(opI32Add)
		f.op(opLocalSet).index(f.fuelLocal).op(opEnd)
		f.flush(in.end)
		f.op(opLocalGet).index(f.fuelLocal)
		f.op(opI32Const).constant(charge).op(opI32Sub)
		f.op(opLocalTee).index(f.fuelLocal)
		f.op(opI32Const).constant(0).op(opI32GeS)
	} else {
		f.open(1)
		f.flush(in.end)
		f.op(opGlobalGet).index(f.fuel).op(opI64Const).constant(charge)
		f.charge()
		f.op(opI64GeS)
	}
	f.op(opIf)
	f.out = append(f.out, header[1:]...)
}

// loopEnd closes what loopHeader opened, but for the outermost loop.
func (f *function) loopEnd() {
	f.op(opElse)
	charge := f.charges[len(f.charges)-1]
	f.charges = f.charges[:len(f.charges)-1]
	if f.local {
		f.op(opBr).index(2).op(opEnd).op(opEnd)
		return
	}
	f.op(opLocalGet).index(f.leftLocal).op(opCall).index(f.refill)
	f.op(opI64Const).constant(charge).op(opI64Add)
	f.op(opGlobalSet).index(f.fuel)
	f.op(opBr).index(1).op(opEnd)
}

func (f *function) end(in instruction) {
	last := len(f.added) - 1
	if f.isLoop(last) {
		f.flush(in.start)
		f.loopEnd()
		f.flush(in.end)
	}
	f.added = f.added[:last]
	if last == 0 && f.wrapped() {
		f.flush(in.end) // the end of the block around everything
		f.syncIf(true)
		if f.deepAll() {
			f.leave(f.plan.depth)
		}
		f.op(opEnd)
	}
}

// label returns what a label is once those between here and its block are
// counted that were added.
func (f *function) label(l uint32) uint32 {
	last := len(f.added) - 1
	target := last - int(l)
	l += f.added[last] - f.added[target]
	if f.isLoop(target) {
		l++ // the if in the loop
	}
	return l
}

// open begins a block of the original to which labels were added.
func (f *function) open(labels uint32) {
	f.added = append(f.added, f.added[len(f.added)-1]+labels)
}

// isLoop reports whether an open block is a loop: it has labels of its own.
func (f *function) isLoop(block int) bool {
	return block > 0 && f.added[block] > f.added[block-1]
}

func (f *function) branchTable(r *reader, in instruction) {
	if f.label(in.index) == in.index {
		return // nothing between here and the farthest
	}
	f.flush(in.start)
	labels := &reader{b: f.in[:in.end], off: in.start + 1}
	n := labels.u32()
	f.op(opBrTable).index(n)
	for range n + 1 {
		f.index(f.label(labels.u32()))
	}
	f.copied = r.off
}

func (f *function) flush(upTo int) {
	f.out = append(f.out, f.in[f.copied:upTo]...)
	f.copied = upTo
}

// replace writes op index instead of in.
func (f *function) replace(in instruction, op byte, index uint32) {
	f.flush(in.start)
	f.op(op).index(index)
	f.copied = in.end
}

func (f *function) op(op byte) *function       { f.out = append(f.out, op); return f }
func (f *function) index(i uint32) *function   { f.out = appendU32(f.out, i); return f }
func (f *function) constant(v int64) *function { f.out = appendS64(f.out, v); return f }

func (f *function) blockType() {
	switch results := f.m.types[f.typ].results; len(results) {
	case 0:
		f.op(typeEmpty)
	case 1:
		f.op(results[0])
	default:
		f.constant(int64(f.blockTypes[f.typ]))
	}
}

// enter takes a share of the depth.
func (f *function) enter(share uint32) {
	f.op(opGlobalGet).index(f.rewriter.depth)
	f.op(opI32Const).constant(int64(share))
	f.op(opI32Sub)
	f.op(opLocalTee).index(f.sizeLocal)
	f.op(opGlobalSet).index(f.rewriter.depth)
	f.op(opLocalGet).index(f.sizeLocal)
	f.op(opI32Const).constant(0)
	f.op(opI32LtS)
	f.op(opIf).op(typeEmpty)
	f.op(opI64Const).constant(DepthExceeded)
	f.op(opCall).index(f.refill)
	f.op(opUnreachable)
	f.op(opEnd)
}

// leave gives it back.
func (f *function) leave(share uint32) {
	f.op(opGlobalGet).index(f.rewriter.depth)
	f.op(opI32Const).constant(int64(share))
	f.op(opI32Add)
	f.op(opGlobalSet).index(f.rewriter.depth)
}

// payEntry charges the entry and makes the fuel local current. The charge is
// looked at where the first loop's is, if that comes at once.
func (f *function) payEntry() {
	if !f.local || !f.loopFirst {
		f.pay(f.entry)
	}
	if !f.local {
		return
	}
	f.load()
	if f.loopFirst && f.entry > 0 {
		f.op(opLocalGet).index(f.fuelLocal)
		f.op(opI32Const).constant(int64(min(f.entry, MaxFuel/2))).op(opI32Sub)
		f.op(opLocalSet).index(f.fuelLocal)
	}
}

// load makes the fuel local current.
func (f *function) load() {
	f.op(opGlobalGet).index(f.fuel).op(opI32WrapI64).op(opLocalSet).index(f.fuelLocal)
}

// loadIf does so after somebody may have changed the global.
func (f *function) loadIf(charged bool) {
	if f.local && charged {
		f.load()
	}
}

// syncIf writes the local back where somebody may look at the global.
func (f *function) syncIf(charged bool) {
	if f.local && charged {
		f.op(opLocalGet).index(f.fuelLocal).op(opI64ExtendI32S).op(opGlobalSet).index(f.fuel)
	}
}

// pay charges a constant to the global.
func (f *function) pay(cost uint64) {
	if cost > 0 {
		f.op(opGlobalGet).index(f.fuel).op(opI64Const).constant(int64(cost))
		f.settle()
	}
}

// payOperand charges by the i32 on top of the stack, and leaves it there.
func (f *function) payOperand(d dynamic) {
	f.op(opLocalTee).index(f.sizeLocal)
	f.syncIf(true)
	f.paySize(d)
	f.loadIf(true)
}

// paySize charges by the size in the local variable.
func (f *function) paySize(d dynamic) {
	f.op(opGlobalGet).index(f.fuel)
	f.op(opLocalGet).index(f.sizeLocal).op(opI64ExtendI32U)
	if d.times > 0 {
		f.op(opI64Const).constant(int64(d.times)).op(opI64Mul)
	} else if d.shift > 0 {
		f.op(opI64Const).constant(int64(d.shift)).op(opI64ShrU)
	}
	f.settle()
}

// charge takes the fuel and a charge from the stack, and leaves what is to be
// compared: what is left, which is in the global by then, and zero.
func (f *function) charge() {
	f.op(opI64Sub)
	f.op(opLocalTee).index(f.leftLocal).op(opGlobalSet).index(f.fuel)
	f.op(opLocalGet).index(f.leftLocal).op(opI64Const).constant(0)
}

// settle does so and asks for more if it must.
func (f *function) settle() {
	f.charge()
	f.op(opI64LtS)
	f.op(opIf).op(typeEmpty)
	f.op(opLocalGet).index(f.leftLocal).op(opCall).index(f.refill)
	f.op(opGlobalSet).index(f.fuel)
	f.op(opEnd)
}
