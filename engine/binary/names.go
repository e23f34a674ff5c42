package binary

import "strconv"

func itoa(n int) string { return strconv.Itoa(n) }

const subsectionFunctions = 1

// custom keeps of all custom sections the names of functions, for stack traces,
// and of these only what is well formed: a damaged custom section is no fault
// of a module, but a runtime would trust its counts.
func (m *Module) custom(s section) {
	c := &cursor{buf: m.wasm, pos: s.start, end: s.end}
	if c.name() != "name" || c.left() > maxNameSection {
		return
	}
	for c.left() > 0 && c.err == nil {
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
