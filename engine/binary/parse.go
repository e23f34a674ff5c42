package binary

import (
	"fmt"
	"slices"
)

// Limits of a module. Most are what browsers keep (the JavaScript API's
// "implementation-defined limits"), or lower where memory of this host is at
// stake: what they bound is allocated for every compilation or instance.
const (
	maxTypes         = 50_000
	maxParams        = 1_000
	maxImports       = 10_000
	maxFunctions     = 250_000
	maxTables        = 16
	maxTableElements = 1_000_000 // 8 MB of host memory per instance
	maxGrownTable    = 65_536    // what table.grow may reach
	maxGlobals       = 10_000    // 16 bytes each per instance
	maxExports       = 100_000
	maxSegments      = 100_000
	maxSegmentItems  = 1_000_000
	maxBodyBytes     = 1 << 20
	maxLocals        = 50_000
	maxNameBytes     = 100_000
	maxNamesBytes    = 4 << 20 // of all imports and exports
	maxNameSection   = 16 << 20
	maxMemoryPages   = 65_536
)

// The sections of WebAssembly 2.0.
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

// sectionNames are the sections in the order in which a module has them.
var sectionNames = [...]struct {
	id   byte
	name string
}{
	{secType, "type"}, {secImport, "import"}, {secFunction, "function"}, {secTable, "table"},
	{secMemory, "memory"}, {secGlobal, "global"}, {secExport, "export"}, {secStart, "start"},
	{secElement, "element"}, {secDataCount, "data count"}, {secCode, "code"}, {secData, "data"},
}

// rank returns a section's place in that order, 0 if it is unknown.
func rank(id byte) (int, string) {
	for i, s := range sectionNames {
		if s.id == id {
			return i + 1, s.name
		}
	}
	return 0, ""
}

// Parse reads the outline of a module. The error is always an [*Error]. The
// Module keeps wasm, which must not change.
func Parse(wasm []byte) (*Module, error) {
	if g := Guess(wasm); g != "" {
		return nil, &Error{Problem: g}
	}
	return parse(wasm, func(byte) bool { return true })
}

// Imports returns what the module imports, reading no more than it must.
func Imports(wasm []byte) ([]Import, error) {
	if g := Guess(wasm); g != "" {
		return nil, &Error{Problem: g}
	}
	m, err := parse(wasm, func(id byte) bool { return id == secType || id == secImport })
	if err != nil {
		return nil, err
	}
	return m.Imports, nil
}

// parse reads the sections that are wanted.
func parse(wasm []byte, wanted func(id byte) bool) (*Module, error) {
	m := &Module{wasm: wasm}
	c := &cursor{buf: wasm, pos: 8, end: len(wasm)}
	last := 0
	for c.remaining() > 0 && c.err == nil {
		at := c.pos
		id := c.u8()
		size := c.count("bytes in a section", 1<<30, 1)
		if c.err != nil {
			break
		}
		s := section{id: id, start: c.pos, end: c.pos + size}
		c.pos = s.end
		r, name := rank(id)
		switch {
		case id == secCustom:
			m.custom(s)
			continue
		case r == 0:
			return nil, &Error{Offset: at, Problem: "has a section that WebAssembly 2.0 does not have (number " + itoa(int(id)) + "); build without experimental features such as exceptions and garbage collection"}
		case r <= last:
			return nil, &Error{Offset: at, Problem: "has its " + name + " section twice or in the wrong place"}
		}
		last = r
		if !wanted(id) {
			continue
		}
		p := &cursor{buf: wasm, pos: s.start, end: s.end}
		m.section(p, id)
		if p.err == nil && p.pos != p.end {
			p.fail("has %d bytes too many", p.end-p.pos)
		}
		if p.err != nil {
			p.err.Problem = "the " + name + " section " + p.err.Problem
			return nil, p.err
		}
		m.sections = append(m.sections, s)
	}
	if c.err != nil {
		return nil, c.err
	}
	if len(m.functions) != m.bodies {
		return nil, &Error{Offset: len(wasm), Problem: "declares " + itoa(len(m.functions)) + " functions and has the code of " + itoa(m.bodies)}
	}
	return m, nil
}

func (m *Module) section(c *cursor, id byte) {
	switch id {
	case secType:
		m.typeSection(c)
	case secImport:
		m.importSection(c)
	case secFunction:
		m.functionSection(c)
	case secTable:
		m.tableSection(c)
	case secMemory:
		for range c.count("memories", 1, 2) {
			m.Memories = append(m.Memories, c.limits())
		}
	case secGlobal:
		m.Globals = c.count("globals", maxGlobals, 4)
		for i := range m.Globals {
			typ := c.valueType()
			mutable := c.u8() == 1
			c.constExpr()
			if c.err != nil {
				return
			}
			if mutable {
				m.mutable = append(m.mutable, mutableGlobal{uint32(m.imported[KindGlobal] + i), typ})
			}
		}
	case secExport:
		m.exportSection(c)
	case secStart:
		index := c.u32()
		m.Start = &index
	case secElement:
		m.elementSection(c)
	case secDataCount:
		c.u32()
	case secCode:
		m.codeSection(c)
	case secData:
		m.dataSection(c)
	}
}

func (m *Module) typeSection(c *cursor) {
	values := 0
	for range c.count("types", maxTypes, 3) {
		if form := c.u8(); form != 0x60 {
			c.fail("has a type of the form 0x%x; only functions (0x60) are known", form)
		}
		t := FuncType{Params: c.valueTypes("parameters"), Results: c.valueTypes("results")}
		if values += len(t.Params) + len(t.Results); values > maxTypeValues {
			c.limit("has %d parameters and results in its types; at most %d are allowed", values, maxTypeValues)
		}
		if c.err != nil {
			return
		}
		m.Types = append(m.Types, t)
	}
}

func (m *Module) importSection(c *cursor) {
	for range c.count("imports", maxImports, 4) {
		imp := Import{Module: c.name(), Name: c.name(), Kind: Kind(c.u8())}
		switch imp.Kind {
		case KindFunc:
			i := c.u32()
			if c.err == nil && int64(i) >= int64(len(m.Types)) {
				c.fail("imports a function of the type %d, which does not exist", i)
			}
			if c.err == nil {
				imp.Type = m.Types[i]
				m.importTypes = append(m.importTypes, i)
			}
		case KindTable:
			c.valueType()
			c.limits()
		case KindMemory:
			c.limits()
		case KindGlobal:
			c.valueType()
			c.u8()
		default:
			c.fail("imports a %s", imp.Kind)
		}
		m.named(c, imp.Module, imp.Name)
		if c.err != nil {
			return
		}
		m.imported[imp.Kind]++
		m.Imports = append(m.Imports, imp)
	}
}

// named counts the names of an import or export.
func (m *Module) named(c *cursor, names ...string) {
	for _, name := range names {
		if m.namesBytes += len(name); m.namesBytes > maxNamesBytes {
			c.limit("has imports and exports whose names have more than %d bytes together; export less, or under shorter names", maxNamesBytes)
		}
	}
}

func (m *Module) functionSection(c *cursor) {
	for range c.count("functions", maxFunctions, 1) {
		i := c.u32()
		if c.err == nil && int64(i) >= int64(len(m.Types)) {
			c.fail("has a function of the type %d, which does not exist", i)
		}
		if c.err != nil {
			return
		}
		m.functions = append(m.functions, i)
	}
}

func (m *Module) tableSection(c *cursor) {
	var total uint64
	for range c.count("tables", maxTables, 3) {
		t := Table{Elem: c.valueType(), Limits: c.limits()}
		if c.err == nil && !t.Elem.reference() {
			c.fail("has a table of %s", t.Elem)
		}
		total += uint64(t.Min)
		if total > maxTableElements {
			c.limit("has tables of %d elements; at most %d are allowed", total, maxTableElements)
		}
		if c.err != nil {
			return
		}
		m.Tables = append(m.Tables, t)
	}
}

func (m *Module) exportSection(c *cursor) {
	n := c.count("exports", maxExports, 3)
	m.exported = make(map[string]int, n)
	for range n {
		e := Export{Name: c.name(), Kind: Kind(c.u8()), Index: c.u32()}
		if _, twice := m.exported[e.Name]; twice {
			c.fail("exports %q twice", e.Name)
		}
		if e.Kind > KindGlobal {
			c.fail("exports a %s", e.Kind)
		}
		m.named(c, e.Name)
		if c.err != nil {
			return
		}
		m.exported[e.Name] = len(m.Exports)
		m.Exports = append(m.Exports, e)
	}
}

func (m *Module) elementSection(c *cursor) {
	total := 0
	for range c.count("element segments", maxSegments, 3) {
		flags := c.u32()
		if flags > 7 {
			c.fail("has a segment with the flags 0x%x", flags)
			return
		}
		if flags&1 == 0 { // active
			if flags&2 != 0 {
				c.u32() // table
			}
			c.constExpr()
		}
		if flags&3 != 0 {
			c.u8() // kind or type of element
		}
		n := c.count("elements in a segment", maxSegmentItems, 1)
		total += n
		if total > maxSegmentItems {
			c.limit("has %d elements; at most %d are allowed", total, maxSegmentItems)
		}
		for range n {
			if flags&4 != 0 {
				c.constExpr()
			} else {
				c.u32()
			}
			if c.err != nil {
				return
			}
		}
	}
}

func (m *Module) codeSection(c *cursor) {
	m.cost = workOfByte * uint64(c.remaining())
	w := &weigher{
		types: m.Types, funcs: append(slices.Clone(m.importTypes), m.functions...),
		imports: uint64(len(m.Imports)), globals: uint64(m.imported[KindGlobal] + m.Globals + meteredGlobals),
		mutable: uint64(m.imported[KindGlobal] + len(m.mutable) + meteredGlobals),
	}
	allowed := uint64(maxWork + workPerByte*c.remaining())
	if work := w.functionWork() * uint64(len(m.functions)); work > allowed {
		c.limit("is too complex to compile: its %d functions times its %d types, %d globals and %d imports are a work of %d; in a module of its size %d are allowed: use fewer different signatures and globals",
			len(m.functions), len(m.Types), m.Globals, len(m.Imports), work, allowed)
		return
	}
	var work, passed uint64
	var heaviest function
	for range c.count("function bodies", maxFunctions, 3) {
		n := c.count("bytes in one function", maxBodyBytes, 1)
		p := &cursor{buf: c.buf, pos: c.pos, end: c.pos + n}
		var locals uint64
		for range p.count("groups of locals", maxLocals, 2) {
			locals += uint64(p.u32())
			p.valueType()
			if locals > maxLocals {
				p.limit("has %s with %d locals; at most %d are allowed", m.bodyName(m.bodies), locals, maxLocals)
			}
			if p.err != nil {
				break
			}
		}
		if p.err == nil && (p.pos >= p.end || p.buf[p.end-1] != opEnd) {
			p.fail("has a function without an end")
		}
		typ := uint32(0)
		if m.bodies < len(m.functions) {
			typ = m.functions[m.bodies]
		}
		if int64(typ) < int64(len(m.Types)) {
			locals += uint64(len(m.Types[typ].Params))
		}
		l := w.weigh(p, typ)
		own := w.functionWork() + l.work(locals, w)
		if own > heaviest.work {
			heaviest = function{m.bodies, own, locals, l}
		}
		work += own
		passed += l.passed
		switch {
		case p.err != nil:
		case l.depth > maxLoopDepth:
			p.limit("is too complex to compile: %s has %d loops within each other; at most %d are allowed", m.bodyName(m.bodies), l.depth, maxLoopDepth)
		case l.flow*locals > maxMerged:
			p.limit("is too complex to compile: %s has %d locals and %d blocks and branches, which times each other are more than %d; split it", m.bodyName(m.bodies), locals, l.flow, maxMerged)
		case l.passed > maxFunctionPassed:
			p.limit("is too complex to compile: the calls, blocks and branches of %s take and give %d values; at most %d are allowed: split it, or pass large values in memory", m.bodyName(m.bodies), l.passed, maxFunctionPassed)
		case passed > maxPassed:
			p.limit("is too complex to compile: its calls, blocks and branches take and give more than %d values up to %s; pass large values in memory", maxPassed, m.bodyName(m.bodies))
		case work > allowed:
			p.limit("is too complex to compile: %s, a work of %d, and all up to %s together %d; in a module of its size %d are allowed: split large functions, use fewer mutable globals, and pass large values in memory",
				m.describe(heaviest), heaviest.work, m.bodyName(m.bodies), work, allowed)
		}
		if c.err == nil {
			c.err = p.err
		}
		c.skip(n)
		if c.err != nil {
			return
		}
		m.bodies++
		m.cost += own
		m.changesTables = m.changesTables || p.changesTables
		m.usesSegments = m.usesSegments || p.usesSegments
	}
}

// function is one of those whose code is read.
type function struct {
	body         int
	work, locals uint64
	load
}

func (m *Module) describe(f function) string {
	return fmt.Sprintf("%s has %d blocks and branches, %d loops, %d locals and %d calls beside %d mutable globals", m.bodyName(f.body), f.flow, f.loops, f.locals, f.calls, len(m.mutable))
}

// bodyName names the function with the body: by its number, and by the name that the
// module has for it behind its code.
func (m *Module) bodyName(body int) string {
	index := uint32(m.imported[KindFunc] + body)
	text := "the function number " + itoa(int(index))
	if name := nameOf(m.wasm, index); name != "" {
		text += " (" + name + ")"
	}
	return text
}

func (m *Module) dataSection(c *cursor) {
	for range c.count("data segments", maxSegments, 2) {
		flags := c.u32()
		if flags > 2 {
			c.fail("has a segment with the flags 0x%x", flags)
			return
		}
		memory := uint32(0)
		if flags == 2 {
			memory = c.u32()
		}
		offset, constant := uint32(0), true
		if flags != 1 {
			offset, constant = c.address()
		}
		n := c.count("bytes in a data segment", 1<<30, 1)
		start := c.pos
		c.skip(n)
		if c.err != nil {
			return
		}
		m.oddSegments = m.oddSegments || !constant || memory != 0
		if flags != 1 {
			m.segments = append(m.segments, Segment{Offset: offset, Data: m.wasm[start : start+n]})
		}
	}
}

const (
	opEnd       = 0x0b
	opGlobalGet = 0x23
	opI32Const  = 0x41
	opI64Const  = 0x42
	opF32Const  = 0x43
	opF64Const  = 0x44
	opRefNull   = 0xd0
	opRefFunc   = 0xd2
	opVector    = 0xfd
)
