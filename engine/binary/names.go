package binary

import (
	"strconv"
	"strings"
	"unicode"
)

func itoa(n int) string { return strconv.Itoa(n) }

const subsectionFunctions = 1

// custom keeps of all custom sections the names of functions, for stack traces,
// and of these only what is well formed: a damaged custom section is no fault
// of a module, but a runtime would trust its counts.
func (m *Module) custom(s section) {
	c := &cursor{buf: m.wasm, pos: s.start, end: s.end}
	if c.name() != "name" || c.remaining() > maxNameSection {
		return
	}
	for c.remaining() > 0 && c.err == nil {
		id := c.u8()
		n := c.count("bytes in a subsection", maxNameSection, 1)
		start := c.pos
		c.skip(n)
		if c.err == nil && id == subsectionFunctions && wellFormedNames(m.wasm, start, c.pos) {
			m.names = m.wasm[start:c.pos]
			return
		}
	}
}

func wellFormedNames(wasm []byte, start, end int) bool {
	c := &cursor{buf: wasm, pos: start, end: end}
	for range c.count("names", maxFunctions, 2) {
		c.u32()
		c.name()
		if c.err != nil {
			return false
		}
	}
	return c.err == nil && c.pos == c.end
}

// nameOf looks for the name of a function in a module that may not be well formed
// elsewhere; empty if there is none that can be shown.
func nameOf(wasm []byte, index uint32) string {
	c := &cursor{buf: wasm, pos: 8, end: len(wasm)}
	m := &Module{wasm: wasm}
	for c.remaining() > 0 && c.err == nil && m.names == nil {
		id := c.u8()
		n := c.count("bytes in a section", 1<<30, 1)
		s := section{id: id, start: c.pos, end: c.pos + n}
		if c.skip(n); c.err == nil && id == secCustom {
			m.custom(s)
		}
	}
	names := &cursor{buf: m.names, end: len(m.names)}
	for range names.count("names", maxFunctions, 2) {
		at, name := names.u32(), names.name()
		if names.err != nil {
			return ""
		}
		if at == index {
			const most = 200
			return strings.ToValidUTF8(strings.Map(printable, name[:min(len(name), most)]), "")
		}
	}
	return ""
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return -1
}
