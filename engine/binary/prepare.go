package binary

import (
	"slices"
	"strconv"
	"strings"
)

// The names under which [Prepare] exports what the host needs. No compiler
// writes a colon; a module that does keeps them, and is not [Prepared.Detached].
const (
	reservedPrefix = "greenroom:"
	ExportStart    = reservedPrefix + "start"
)

// ExportGlobal is the name of the nth mutable global.
func ExportGlobal(n int) string { return reservedPrefix + "global:" + strconv.Itoa(n) }

// maxExportedGlobals bounds what restoring an instance costs. Compilers make at
// most a dozen.
const maxExportedGlobals = 64

// Segment is the initial content of a piece of memory.
type Segment struct {
	Offset uint32
	Data   []byte // of the module's bytes
}

// Prepared is a module as it is to be run, but for its metering.
type Prepared struct {
	// Detached says that memory and mutable globals are all that changes in an
	// instance, and that the host can set both: it lays out Segments in order,
	// then calls ExportStart if Start is set; the mutable globals are exported
	// as ExportGlobal(0) to ExportGlobal(Globals-1). A module that changes its
	// tables, or that copies from its segments as it runs, is not detached: its
	// segments and its start function are where they were.
	Detached bool
	Segments []Segment
	Start    bool
	Globals  int
	// Elements is how many elements the tables of an instance can have together.
	Elements uint64

	module *Module
}

// Prepare says how the module is to be run. A guest cannot tell what [Prepared.Wasm]
// writes from the one that was parsed:
//
//   - Tables have a maximum, since a growing table is host memory, outside the
//     guest's limit.
//   - Of the custom sections only function names are left.
//   - What can be detached is; see [Prepared].
func Prepare(m *Module) Prepared {
	p := Prepared{Detached: m.detachable(), module: m}
	if p.Detached {
		p.Segments, p.Start, p.Globals = m.segments, m.Start != nil, len(m.mutable)
	}
	for _, t := range m.Tables {
		p.Elements += uint64(t.Min)
		if m.changesTables {
			p.Elements += uint64(max(t.mostElements(), t.Min) - t.Min)
		}
	}
	return p
}

// Wasm writes the module.
func (p Prepared) Wasm() []byte {
	m := p.module
	out := make([]byte, 0, len(m.wasm)+64)
	out = append(out, m.wasm[:8]...)
	for _, s := range m.sections {
		switch {
		case s.id == secTable:
			out = appendSection(out, secTable, m.appendTables(nil))
		case p.Detached && s.id == secExport:
			out = appendSection(out, secExport, m.appendExports(nil, s))
		case p.Detached && (s.id == secStart || s.id == secData || s.id == secDataCount):
		default:
			out = appendSection(out, s.id, m.wasm[s.start:s.end])
		}
	}
	if m.names != nil {
		payload := append([]byte("\x04name"), subsectionFunctions)
		payload = append(appendU32(payload, uint32(len(m.names))), m.names...)
		out = appendSection(out, secCustom, payload)
	}
	return out
}

func (m *Module) detachable() bool {
	if m.changesTables || m.usesSegments || m.oddSegments || len(m.Memories) != 1 || len(m.Exports) == 0 || len(m.mutable) > maxExportedGlobals {
		return false
	}
	if m.Start != nil {
		// The runtime says what is wrong with one of another type.
		if t, ok := m.FuncType(*m.Start); !ok || len(t.Params)+len(t.Results) > 0 {
			return false
		}
	}
	if slices.ContainsFunc(m.mutable, func(g mutableGlobal) bool { return g.typ == V128 || g.typ.reference() }) {
		return false // the runtime's interface cannot set them
	}
	return !slices.ContainsFunc(m.Exports, func(e Export) bool { return strings.HasPrefix(e.Name, reservedPrefix) })
}

func (m *Module) appendExports(out []byte, s section) []byte {
	c := &cursor{buf: m.wasm, pos: s.start, end: s.end}
	n := c.u32()
	added := len(m.mutable)
	if m.Start != nil {
		added++
	}
	out = append(appendU32(out, n+uint32(added)), m.wasm[c.pos:s.end]...)
	export := func(name string, kind Kind, index uint32) {
		out = append(appendU32(out, uint32(len(name))), name...)
		out = appendU32(append(out, byte(kind)), index)
	}
	for i, g := range m.mutable {
		export(ExportGlobal(i), KindGlobal, g.index)
	}
	if m.Start != nil {
		export(ExportStart, KindFunc, *m.Start)
	}
	return out
}

func (m *Module) appendTables(out []byte) []byte {
	out = appendU32(out, uint32(len(m.Tables)))
	for _, t := range m.Tables {
		out = append(out, byte(t.Elem), 1)
		out = appendU32(out, t.Min)
		out = appendU32(out, t.mostElements())
	}
	return out
}

// mostElements is what the table may grow to.
func (t Table) mostElements() uint32 {
	most := max(t.Min, maxGrownTable)
	if t.HasMax {
		most = min(most, t.Max) // one below the minimum is the runtime's to refuse
	}
	return most
}

func appendSection(out []byte, id byte, payload []byte) []byte {
	out = appendU32(append(out, id), uint32(len(payload)))
	return append(out, payload...)
}

func appendU32(out []byte, v uint32) []byte {
	for v >= 0x80 {
		out = append(out, byte(v)|0x80)
		v >>= 7
	}
	return append(out, byte(v))
}
