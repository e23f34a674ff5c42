package meter

import (
	"fmt"
	"slices"
)

// rewriter holds what the sections of the new module share.
type rewriter struct {
	m      *module
	cfg    Config
	plans  []*plan
	report Report

	refillType  uint32
	refill      uint32            // function index
	fuel, depth uint32            // global indices
	blockTypes  map[uint32]uint32 // function type -> type without parameters, same results
	addedTypes  []funcType
	freeCost    []uint64 // by own function
	prices      prices
	data        []byte // content of the data section
	dataCount   uint32
	// helperType is that of memory.copy and memory.fill; see helpers.
	helperType uint32
	// indirectDepth is what an indirect call takes of the depth.
	indirectDepth uint32
}

func newRewriter(m *module, cfg Config) (*rewriter, error) {
	w := &rewriter{
		m: m, cfg: cfg,
		refillType: uint32(len(m.types)),
		refill:     m.importedFuncs,
		fuel:       m.allGlobs(),
		depth:      m.allGlobs() + 1,
		blockTypes: map[uint32]uint32{},
		addedTypes: []funcType{{params: []byte{typeI64}, results: []byte{typeI64}}},
		freeCost:   make([]uint64, len(m.bodies)),
	}
	for i, body := range m.bodies {
		p, err := survey(m, m.types[m.funcTypes[i]], body)
		if err != nil {
			return nil, fmt.Errorf("function %d: %w", m.importedFuncs+uint32(i), err)
		}
		w.plans = append(w.plans, p)
	}
	var order []int
	w.indirectDepth, order = countDepth(m, w.plans)
	w.prices.call = w.callCost
	w.findFree(order)
	w.passEntries()
	for i, p := range w.plans {
		if !p.free {
			p.charge(m.bodies[i], w.prices)
		}
		if p.depth > 0 && len(m.bodies[i]) <= maxOutlined {
			p.deep, _ = callRegion(m.bodies[i], p.localsEnd, w.leadsOn)
		}
	}
	w.planTypes()
	if m.usesCopy || m.usesFill {
		w.helperType = w.refillType + uint32(len(w.addedTypes))
		w.addedTypes = append(w.addedTypes, funcType{params: []byte{typeI32, typeI32, typeI32}})
	}
	for _, s := range m.sections {
		if s.id == secData {
			w.data, w.dataCount = m.mergeData(s.content)
		}
	}
	w.count()
	return w, nil
}

// findFree marks the small functions that call no others than such, and what
// they cost. Callees come before their callers in order.
func (w *rewriter) findFree(order []int) {
	for _, i := range order {
		p := w.plans[i]
		if p.depth > 0 || p.indirect || p.imported || p.dynamic || w.callsCharged(p) {
			continue
		}
		p.charge(w.m.bodies[i], w.prices)
		limit := w.freeLimit(i)
		if len(p.loops) > 0 || p.entry > limit {
			continue
		}
		p.free, w.freeCost[i] = true, p.entry
		if limit == freeIndirectLimit {
			w.prices.indirect = max(w.prices.indirect, p.entry)
		}
	}
}

// passEntries finds functions with loops whose callers pay for what is outside
// these. Whatever calls such a function again and again is charged: recursion
// through it passes one of its loops, since only those call what is charged.
func (w *rewriter) passEntries() {
	for i, p := range w.plans {
		if p.free || p.dynamic || p.loopFirst {
			continue
		}
		p.charge(w.m.bodies[i], w.prices)
		limit := w.freeLimit(i)
		if len(p.loops) == 0 || p.calling || p.entry > limit {
			continue
		}
		p.passed, w.freeCost[i] = true, p.entry
		if limit == freeIndirectLimit {
			w.prices.indirect = max(w.prices.indirect, p.entry)
		}
	}
}

// freeLimit is the most that callers of an own function pay for it.
func (w *rewriter) freeLimit(i int) uint64 {
	if w.m.addressTaken[w.m.importedFuncs+uint32(i)] {
		return freeIndirectLimit
	}
	return freeLimit
}

func (w *rewriter) callsCharged(p *plan) bool {
	return slices.ContainsFunc(p.calls, func(f uint32) bool { return !w.plans[f-w.m.importedFuncs].free })
}

// callCost is what a call of f costs its caller on top of the call's weight, and
// whether f, or the host, looks at the fuel.
func (w *rewriter) callCost(f uint32) (cost uint64, charged bool) {
	if f < w.m.importedFuncs {
		return uint64(w.cfg.ImportCost), true
	}
	f -= w.m.importedFuncs
	return w.freeCost[f], !w.plans[f].free
}

// leadsOn reports whether in calls a function of the module that may call others.
func (w *rewriter) leadsOn(in instruction) bool {
	return in.op == opCallIndirect || in.op == opCall && in.index >= w.m.importedFuncs && !w.plans[in.index-w.m.importedFuncs].free
}

// planTypes adds the block types that functions with several results need.
func (w *rewriter) planTypes() {
	for i, p := range w.plans {
		t := w.m.funcTypes[i]
		results := w.m.types[t].results
		if !p.wrapped() || len(results) < 2 {
			continue
		}
		if _, ok := w.blockTypes[t]; !ok {
			w.blockTypes[t] = w.refillType + uint32(len(w.addedTypes))
			w.addedTypes = append(w.addedTypes, funcType{results: results})
		}
	}
}

func (w *rewriter) count() {
	w.report.Functions = len(w.plans)
	for _, p := range w.plans {
		w.report.Loops += len(p.loops)
		if p.free {
			w.report.Free++
		}
		if p.depth > 0 {
			w.report.Recursive++
		}
	}
}

func (w *rewriter) shift(f uint32) uint32 {
	if f < w.m.importedFuncs {
		return f
	}
	return f + 1
}

// rewrite writes the module, section by section; sizeHint is the input's size.
func (w *rewriter) rewrite(sizeHint int) ([]byte, error) {
	out := append(make([]byte, 0, sizeHint+sizeHint/4), magic...)
	missing := []byte{secType, secImport, secGlobal, secExport}
	for _, s := range w.m.sections {
		missing = slices.DeleteFunc(missing, func(id byte) bool { return s.id == id })
	}
	emit := func(id byte, content []byte) error {
		content, err := w.section(id, content)
		if err != nil {
			return fmt.Errorf("section %d: %w", id, err)
		}
		out = append(appendU32(append(out, id), uint32(len(content))), content...)
		return nil
	}
	emitMissing := func(below int) error {
		for len(missing) > 0 && rank(missing[0]) < below {
			if err := emit(missing[0], nil); err != nil {
				return err
			}
			missing = missing[1:]
		}
		return nil
	}
	const end = 1000 // above every rank
	for _, s := range w.m.sections {
		if s.id == secCustom {
			content := w.custom(s.content)
			out = append(appendU32(append(out, secCustom), uint32(len(content))), content...)
			continue
		}
		if err := emitMissing(rank(s.id)); err != nil {
			return nil, err
		}
		if err := emit(s.id, s.content); err != nil {
			return nil, err
		}
	}
	return out, emitMissing(end)
}

// section returns the new content of a section; content is nil for one that the
// module does not have.
func (w *rewriter) section(id byte, content []byte) ([]byte, error) {
	r := &reader{b: content}
	switch id {
	case secType:
		return w.types(r), nil
	case secImport:
		return w.imports(r), nil
	case secFunction:
		return w.functions(r), nil
	case secTable:
		return w.tables(r)
	case secMemory:
		return w.memory(r)
	case secGlobal:
		return w.globals(r), nil
	case secExport:
		return w.exports(r), nil
	case secStart:
		return appendU32(nil, w.shift(r.u32())), r.err
	case secElement:
		return w.elements(r), nil
	case secCode:
		return w.code()
	case secDataCount:
		return appendU32(nil, w.dataCount), nil
	case secData:
		return w.data, nil
	default:
		return content, nil
	}
}

// rest begins a vector with added elements more than r has, and copies those.
func rest(r *reader, added int) []byte {
	var n uint32
	if len(r.b) > 0 {
		n = r.u32()
	}
	out := make([]byte, 0, len(r.b)+64)
	return append(appendU32(out, n+uint32(added)), r.b[r.off:]...)
}

func (w *rewriter) types(r *reader) []byte {
	out := rest(r, len(w.addedTypes))
	for _, t := range w.addedTypes {
		out = append(out, 0x60)
		out = append(appendU32(out, uint32(len(t.params))), t.params...)
		out = append(appendU32(out, uint32(len(t.results))), t.results...)
	}
	return out
}

// imports puts refill after the imports that are there, so that only the
// module's own functions move on by one.
func (w *rewriter) imports(r *reader) []byte {
	out := rest(r, 1)
	out = appendName(appendName(out, ImportModule), ImportRefill)
	return appendU32(append(out, externFunc), w.refillType)
}

func (w *rewriter) functions(r *reader) []byte {
	n := 0
	for _, used := range []bool{w.m.usesCopy, w.m.usesFill} {
		if used {
			n++
		}
	}
	out := rest(r, n)
	for range n {
		out = appendU32(out, w.helperType)
	}
	return out
}

func (w *rewriter) memory(r *reader) ([]byte, error) {
	n := r.count()
	out := appendU32(nil, n)
	for range n {
		l := readLimits(r)
		if limit := w.cfg.MaxMemoryPages; limit > 0 {
			if l.least > limit {
				return nil, &MemoryError{Pages: l.least, Limit: limit}
			}
			l = l.clamp(limit)
		}
		out = l.append(out)
	}
	return out, r.err
}

func (w *rewriter) tables(r *reader) ([]byte, error) {
	n := r.count()
	out := appendU32(nil, n)
	for range n {
		out = append(out, r.byte())
		l := readLimits(r)
		if limit := w.cfg.MaxTableElements; limit > 0 {
			if l.least > limit {
				return nil, &TableError{Elements: l.least, Limit: limit}
			}
			l = l.clamp(limit)
		}
		out = l.append(out)
	}
	return out, r.err
}

func (w *rewriter) globals(r *reader) []byte {
	var n uint32
	if len(r.b) > 0 {
		n = r.count()
	}
	out := appendU32(make([]byte, 0, len(r.b)+32), n+2)
	for range n {
		out = append(out, r.bytes(2)...)
		out = w.constant(out, r)
	}
	const mutable = 1
	out = append(appendS64(append(out, typeI64, mutable, opI64Const), 0), opEnd)
	return append(appendS64(append(out, typeI32, mutable, opI32Const), int64(int32(w.cfg.MaxDepth))), opEnd)
}

// constant copies a constant expression with its function indices moved on.
func (w *rewriter) constant(out []byte, r *reader) []byte {
	for r.err == nil {
		in := next(r)
		if in.op == opRefFunc {
			out = appendU32(append(out, opRefFunc), w.shift(in.index))
		} else {
			out = append(out, r.b[in.start:in.end]...)
		}
		if in.op == opEnd {
			break
		}
	}
	return out
}

func (w *rewriter) exports(r *reader) []byte {
	var n uint32
	if len(r.b) > 0 {
		n = r.count()
	}
	out := appendU32(make([]byte, 0, len(r.b)+64), n+2)
	for range n {
		name, kind, index := r.name(), r.byte(), r.u32()
		if kind == externFunc {
			index = w.shift(index)
		}
		out = appendU32(append(appendName(out, name), kind), index)
	}
	out = appendU32(append(appendName(out, ExportFuel), externGlobal), w.fuel)
	return appendU32(append(appendName(out, ExportDepth), externGlobal), w.depth)
}

func (w *rewriter) elements(r *reader) []byte {
	out := make([]byte, 0, len(r.b)+len(r.b)/8)
	copied := 0
	flush := func() {
		out = append(out, r.b[copied:r.off]...)
		copied = r.off
	}
	for n := r.count(); n > 0; n-- {
		w.m.element(r, func(start int, index uint32) {
			out = append(out, r.b[copied:start]...)
			out = appendU32(out, w.shift(index))
			copied = r.off
		}, func(r *reader) {
			flush()
			out = w.constant(out, r)
			copied = r.off
		})
	}
	flush()
	return out
}
