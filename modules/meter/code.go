package meter

import "fmt"

// code writes the code section.
func (w *rewriter) code() ([]byte, error) {
	size := 0
	for _, b := range w.m.bodies {
		size += len(b)
	}
	out := appendU32(make([]byte, 0, size+size/4), uint32(len(w.m.bodies)))
	var body []byte
	for i, original := range w.m.bodies {
		f := &function{rewriter: w, plan: w.plans[i], typ: w.m.funcTypes[i], in: original, out: body[:0]}
		body = f.write()
		if f.err != nil {
			return nil, fmt.Errorf("function %d: %w", w.m.importedFuncs+uint32(i), f.err)
		}
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

	fuelLocal, sizeLocal uint32
	copied               int // of in
	loop                 int // index of the next one
}

func (f *function) write() []byte {
	f.declareLocals()
	if !f.free {
		if f.recursive {
			f.enter()
		}
		f.load()
		f.pay(f.entry)
		if f.wrapped() {
			f.op(opBlock).blockType()
		}
	}
	r := &reader{b: f.in, off: f.localsEnd}
	for depth := uint32(1); depth > 0 && r.err == nil; {
		in := next(r)
		switch in.op {
		case opBlock, opIf, opLoop:
			depth++
		case opEnd:
			depth--
		}
		f.instruction(in, depth)
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
	if !f.free {
		f.fuelLocal = add(typeI64)
	}
	if f.dynamic || f.recursive {
		f.sizeLocal = add(typeI32)
	}
	f.out = appendU32(f.out, f.groups+uint32(len(groups)))
	f.out = append(f.out, f.in[r.off:f.localsEnd]...)
	for _, g := range groups {
		f.out = append(f.out, g[:]...)
	}
	f.copied = f.localsEnd
}

// instruction writes one instruction with what comes around it; depth is that
// after it.
func (f *function) instruction(in instruction, depth uint32) {
	if f.free {
		if in.op == opRefFunc {
			f.replace(in, opRefFunc, f.shift(in.index))
		}
		return
	}
	if d, ok := dynamicCost(in); ok {
		f.flush(in.start)
		f.payOperand(d)
		return
	}
	switch in.op {
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
		f.flush(in.end)
		f.loadIf(true)
	case opReturn:
		if f.wrapped() {
			f.replace(in, opBr, depth-1)
		}
	case opLoop:
		f.flush(in.end)
		f.loadGlobal()
		f.pay(f.loops[f.loop])
		f.loop++
	case opEnd:
		if depth == 0 && f.wrapped() {
			f.flush(in.end) // of the block
			f.syncIf(true)
			f.leave()
			f.op(opEnd)
		}
	}
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

// enter takes the function's share of the depth.
func (f *function) enter() {
	f.op(opGlobalGet).index(f.rewriter.depth)
	f.op(opI32Const).constant(int64(f.plan.depth))
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
func (f *function) leave() {
	if !f.recursive {
		return
	}
	f.op(opGlobalGet).index(f.rewriter.depth)
	f.op(opI32Const).constant(int64(f.plan.depth))
	f.op(opI32Add)
	f.op(opGlobalSet).index(f.rewriter.depth)
}

// load makes the fuel local current at the entry.
func (f *function) load() { f.op(opGlobalGet).index(f.fuel).op(opLocalSet).index(f.fuelLocal) }

// loadGlobal does so before a charge, where the fuel is not kept in the local.
func (f *function) loadGlobal() {
	if !f.hotLoop {
		f.load()
	}
}

func (f *function) loadIf(charged bool) {
	if f.hotLoop && charged {
		f.load()
	}
}

// syncIf writes the local back where somebody may look at the global.
func (f *function) syncIf(charged bool) {
	if f.hotLoop && charged {
		f.op(opLocalGet).index(f.fuelLocal).op(opGlobalSet).index(f.fuel)
	}
}

// pay charges a constant. The fuel local is current before and after; so is the
// global after, unless this function keeps the fuel in the local.
func (f *function) pay(cost uint64) {
	if cost == 0 {
		return
	}
	f.op(opLocalGet).index(f.fuelLocal)
	f.op(opI64Const).constant(int64(min(cost, 1<<62)))
	f.settle()
}

// payOperand charges by the i32 on top of the stack, and leaves it there.
func (f *function) payOperand(d dynamic) {
	f.op(opLocalTee).index(f.sizeLocal)
	f.loadGlobal()
	f.op(opLocalGet).index(f.fuelLocal)
	f.op(opLocalGet).index(f.sizeLocal).op(opI64ExtendI32)
	if d.times > 0 {
		f.op(opI64Const).constant(int64(d.times)).op(opI64Mul)
	} else if d.shift > 0 {
		f.op(opI64Const).constant(int64(d.shift)).op(opI64ShrU)
	}
	f.settle()
}

// settle takes fuel and charge from the stack, and asks for more if it must.
func (f *function) settle() {
	f.op(opI64Sub)
	f.op(opLocalTee).index(f.fuelLocal)
	if !f.hotLoop {
		f.op(opGlobalSet).index(f.fuel)
		f.op(opLocalGet).index(f.fuelLocal)
	}
	f.op(opI64Const).constant(0)
	f.op(opI64LtS)
	f.op(opIf).op(typeEmpty)
	f.op(opLocalGet).index(f.fuelLocal)
	f.op(opCall).index(f.refill)
	f.op(opLocalSet).index(f.fuelLocal)
	if !f.hotLoop {
		f.op(opLocalGet).index(f.fuelLocal).op(opGlobalSet).index(f.fuel)
	}
	f.op(opEnd)
}
