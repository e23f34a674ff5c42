package meter

import (
	"errors"
	"fmt"
)

// Section IDs, in the order in which sections must come.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
)

// rank orders sections; the data count stands before the code.
func rank(id byte) int {
	if id == secDataCount {
		return 2*secElement + 1
	}
	return 2 * int(id)
}

type section struct {
	id      byte
	content []byte
}

const (
	externFunc   = 0
	externTable  = 1
	externMemory = 2
	externGlobal = 3
)

type funcType struct{ params, results []byte }

// module is what the rewriting needs to know of a module.
type module struct {
	sections []section // in their order; custom ones too

	types         []funcType
	importedFuncs uint32
	importedGlobs uint32
	funcTypes     []uint32 // of the module's own functions
	globals       uint32   // the module's own
	bodies        [][]byte
	addressTaken  map[uint32]bool // functions that can be called through a table
	data          uint32          // segments
	dataCount     uint32          // what the module says that they are
	counted       bool            // the module has a data count
	ownMemory     bool            // has one of its own
	namesData     bool            // its code has numbers of data segments
	usesCopy      bool            // its code has memory.copy
	usesFill      bool            // its code has memory.fill
}

func (m *module) funcs() uint32    { return m.importedFuncs + uint32(len(m.funcTypes)) }
func (m *module) allGlobs() uint32 { return m.importedGlobs + m.globals }

var magic = []byte{0, 'a', 's', 'm', 1, 0, 0, 0}

func parse(wasm []byte) (*module, error) {
	if len(wasm) < len(magic) || string(wasm[:len(magic)]) != string(magic) {
		return nil, errors.New("not a WebAssembly core module of version 1")
	}
	m := &module{addressTaken: map[uint32]bool{}}
	r := &reader{b: wasm, off: len(magic)}
	last := -1
	for !r.done() {
		id := r.byte()
		content := r.bytes(r.u32())
		if r.err != nil {
			return nil, fmt.Errorf("section %d %w", id, r.err)
		}
		if id > secDataCount {
			return nil, fmt.Errorf("section %d is not of WebAssembly 2.0", id)
		}
		if id != secCustom {
			if rank(id) <= last {
				return nil, fmt.Errorf("section %d is out of order or twice there", id)
			}
			last = rank(id)
		}
		m.sections = append(m.sections, section{id, content})
		if err := m.read(id, &reader{b: content}); err != nil {
			return nil, fmt.Errorf("section %d %w", id, err)
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	if len(m.bodies) != len(m.funcTypes) {
		return nil, fmt.Errorf("%d functions are declared, %d have a body", len(m.funcTypes), len(m.bodies))
	}
	if m.counted && m.dataCount != m.data {
		return nil, fmt.Errorf("counts %d data segments; there are %d", m.dataCount, m.data)
	}
	return m, nil
}

func (m *module) read(id byte, r *reader) error {
	switch id {
	case secType:
		m.readTypes(r)
	case secImport:
		m.readImports(r)
	case secFunction:
		for n := r.count(); n > 0; n-- {
			t := r.u32()
			if uint64(t) >= uint64(len(m.types)) {
				r.fail(fmt.Errorf("type %d does not exist", t))
			}
			m.funcTypes = append(m.funcTypes, t)
		}
	case secTable:
		for n := r.count(); n > 0; n-- {
			r.referenceType()
			readLimits(r)
		}
	case secMemory:
		for n := r.count(); n > 0; n-- {
			readLimits(r)
			m.ownMemory = true
		}
	case secGlobal:
		m.readGlobals(r)
	case secExport:
		m.readExports(r)
	case secElement:
		m.readElements(r)
	case secData:
		m.readData(r)
	case secCode:
		for n := r.count(); n > 0; n-- {
			m.bodies = append(m.bodies, r.bytes(r.u32()))
		}
	case secStart:
		r.u32()
	case secDataCount:
		m.counted, m.dataCount = true, r.u32()
	default:
		return nil
	}
	if r.err == nil && !r.done() {
		r.fail(errors.New("has bytes after its end"))
	}
	return r.err
}

func (m *module) readTypes(r *reader) {
	for n := r.count(); n > 0; n-- {
		if form := r.byte(); form != 0x60 && r.err == nil {
			r.fail(fmt.Errorf("type form 0x%02x is not a function", form))
		}
		m.types = append(m.types, funcType{params: r.valueTypes(r.count()), results: r.valueTypes(r.count())})
	}
}

func (m *module) readImports(r *reader) {
	for n := r.count(); n > 0; n-- {
		mod, name := r.name(), r.name()
		if mod == ImportModule {
			r.fail(fmt.Errorf("imports %s.%s: %w", mod, name, ErrMetered))
		}
		switch kind := r.byte(); kind {
		case externFunc:
			if t := r.u32(); uint64(t) >= uint64(len(m.types)) {
				r.fail(fmt.Errorf("type %d does not exist", t))
			}
			m.importedFuncs++
		case externTable:
			r.referenceType()
			readLimits(r)
		case externMemory:
			readLimits(r)
		case externGlobal:
			globalType(r)
			m.importedGlobs++
		default:
			r.fail(fmt.Errorf("import kind %d is unknown", kind))
		}
	}
}

// limits are those of a memory or a table.
type limits struct {
	bounded     bool
	least, most uint32
}

func readLimits(r *reader) limits {
	flags := r.byte()
	if flags > 1 && r.err == nil {
		r.fail(fmt.Errorf("limits of kind %d are not of WebAssembly 2.0", flags))
	}
	l := limits{bounded: flags == 1, least: r.u32()}
	if l.bounded {
		l.most = r.u32()
	}
	return l
}

func (l limits) clamp(limit uint32) limits {
	if !l.bounded || l.most > limit {
		l.bounded, l.most = true, limit
	}
	return l
}

func (l limits) append(b []byte) []byte {
	if !l.bounded {
		return appendU32(append(b, 0), l.least)
	}
	return appendU32(appendU32(append(b, 1), l.least), l.most)
}

func globalType(r *reader) {
	r.valueType()
	if mutable := r.byte(); mutable > 1 && r.err == nil {
		r.fail(fmt.Errorf("a global of kind %d is not of WebAssembly 2.0", mutable))
	}
}

func (m *module) readGlobals(r *reader) {
	n := r.count()
	for range n {
		globalType(r)
		m.readConst(r)
		m.globals++ // a global may use the ones before it
	}
}

func (m *module) readExports(r *reader) {
	for n := r.count(); n > 0; n-- {
		name, kind, index := r.name(), r.byte(), r.u32()
		if name == ExportFuel || name == ExportDepth {
			r.fail(fmt.Errorf("exports %s: %w", name, ErrMetered))
		}
		switch {
		case kind == externFunc && index >= m.funcs():
			r.fail(fmt.Errorf("function %d does not exist", index))
		case kind == externGlobal && index >= m.allGlobs():
			r.fail(fmt.Errorf("global %d does not exist", index))
		}
		// An exported function is called by the host, one call at a time; it is
		// no way into a recursion of its own.
	}
}

// readConst reads a constant expression, to its end.
func (m *module) readConst(r *reader) {
	for r.err == nil {
		in := next(r)
		m.checkIndex(r, in)
		switch in.op {
		case opRefFunc:
			m.addressTaken[in.index] = true
		case opEnd:
			return
		}
	}
}

// checkIndex refuses an index that does not exist, since some that do not would
// exist in the rewritten module.
func (m *module) checkIndex(r *reader, in instruction) {
	switch in.op {
	case opCall, opRefFunc:
		if in.index >= m.funcs() {
			r.fail(fmt.Errorf("function %d does not exist", in.index))
		}
	case opGlobalGet, opGlobalSet:
		if in.index >= m.allGlobs() {
			r.fail(fmt.Errorf("global %d does not exist", in.index))
		}
	case opBlock, opLoop, opIf:
		if in.blockType >= int64(len(m.types)) {
			r.fail(fmt.Errorf("type %d does not exist", in.blockType))
		}
	case opCallIndirect:
		if uint64(in.index) >= uint64(len(m.types)) {
			r.fail(fmt.Errorf("type %d does not exist", in.index))
		}
	}
}

func (m *module) readElements(r *reader) {
	for n := r.count(); n > 0; n-- {
		m.element(r, func(_ int, index uint32) {
			if index >= m.funcs() {
				r.fail(fmt.Errorf("function %d does not exist", index))
			}
			m.addressTaken[index] = true
		}, m.readConst)
	}
}

func (m *module) readData(r *reader) {
	m.data = r.count()
	for range m.data {
		switch flags := r.u32(); flags {
		case 0:
			m.readConst(r)
		case 1:
		case 2:
			r.u32()
			m.readConst(r)
		default:
			r.fail(fmt.Errorf("data segments of kind %d are not of WebAssembly 2.0", flags))
		}
		r.bytes(r.u32())
	}
}

// element walks one element segment: each function index through onFunc, with
// where it began, and each constant expression through onConst, which reads it.
func (m *module) element(r *reader, onFunc func(start int, index uint32), onConst func(*reader)) {
	flags := r.u32()
	if flags > 7 && r.err == nil {
		r.fail(fmt.Errorf("element segments of kind %d are not of WebAssembly 2.0", flags))
		return
	}
	active, explicit, exprs := flags&1 == 0, flags&2 != 0, flags&4 != 0
	if active && explicit {
		r.u32() // table
	}
	if active {
		onConst(r)
	}
	switch {
	case flags&3 == 0:
	case exprs:
		r.referenceType()
	default:
		r.zero() // the kind: functions
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		if exprs {
			onConst(r)
		} else {
			start := r.off
			onFunc(start, r.u32())
		}
	}
}
