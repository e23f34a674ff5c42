// Package wasmtest writes small WebAssembly modules for tests, well formed or
// hostile, byte by byte: no compiler would write the ones that matter here.
package wasmtest

import "slices"

// The value types.
const (
	I32 = 0x7f
	I64 = 0x7e
)

// Builder makes a module. Functions must be imported before any is defined.
type Builder struct {
	types, imports, funcs, tables, memory, globals, exports, elements, codes, data vector
	start                                                                          []byte
	imported                                                                       uint32
	custom                                                                         []byte
}

type vector struct {
	n     uint32
	bytes []byte
}

func (v *vector) add(b ...byte) uint32 {
	v.n++
	v.bytes = append(v.bytes, b...)
	return v.n - 1
}

// Type adds a function type and returns its index.
func (b *Builder) Type(params, results []byte) uint32 {
	return b.types.add(slices.Concat([]byte{0x60}, bytes(params), bytes(results))...)
}

// ImportFunc imports a function and returns its index.
func (b *Builder) ImportFunc(module, name string, params, results []byte) uint32 {
	t := b.Type(params, results)
	b.imports.add(slices.Concat(text(module), text(name), []byte{0}, U32(t))...)
	b.imported++
	return b.imported - 1
}

// ImportMemory imports a memory.
func (b *Builder) ImportMemory(module, name string) {
	b.imports.add(slices.Concat(text(module), text(name), []byte{2, 0, 1})...)
}

// Func defines a function with i32 locals, exports it if it has a name, and
// returns its index. The body needs no end.
func (b *Builder) Func(export string, params, results []byte, locals uint32, body ...byte) uint32 {
	index := b.FuncOf(b.Type(params, results), locals, body...)
	if export != "" {
		b.Export(export, 0, index)
	}
	return index
}

// FuncOf defines a function of a type that there is, like Func.
func (b *Builder) FuncOf(typ, locals uint32, body ...byte) uint32 {
	index := b.imported + b.funcs.add(U32(typ)...)
	code := []byte{0}
	if locals > 0 {
		code = append(append([]byte{1}, U32(locals)...), I32)
	}
	code = append(append(code, body...), 0x0b)
	b.codes.add(bytes(code)...)
	return index
}

// Export exports something.
func (b *Builder) Export(name string, kind byte, index uint32) {
	b.exports.add(slices.Concat(text(name), []byte{kind}, U32(index))...)
}

// Memory defines the memory, in pages; limit 0 means no maximum.
func (b *Builder) Memory(pages, limit uint32) {
	if limit == 0 {
		b.memory.add(append([]byte{0}, U32(pages)...)...)
		return
	}
	b.memory.add(slices.Concat([]byte{1}, U32(pages), U32(limit))...)
}

// Table defines a table of functions without a maximum.
func (b *Builder) Table(size uint32) {
	b.tables.add(append([]byte{0x70, 0}, U32(size)...)...)
}

// Global defines a mutable i32 global and returns its index.
func (b *Builder) Global(value int32) uint32 {
	return b.globals.add(slices.Concat([]byte{I32, 1}, I32Const(value), []byte{0x0b})...)
}

// Data puts content at an address when the module is instantiated.
func (b *Builder) Data(address int32, content []byte) {
	b.data.add(slices.Concat([]byte{0}, I32Const(address), []byte{0x0b}, bytes(content))...)
}

// PassiveData adds content that is used by memory.init only.
func (b *Builder) PassiveData(content []byte) {
	b.data.add(append([]byte{1}, bytes(content)...)...)
}

// Start names the start function.
func (b *Builder) Start(index uint32) { b.start = U32(index) }

// Custom adds a custom section.
func (b *Builder) Custom(name string, content []byte) {
	b.custom = append(b.custom, Section(0, append(text(name), content...))...)
}

// Bytes returns the module.
func (b *Builder) Bytes() []byte {
	out := Header()
	for _, s := range []struct {
		id byte
		v  vector
	}{
		{1, b.types}, {2, b.imports}, {3, b.funcs}, {4, b.tables}, {5, b.memory}, {6, b.globals},
		{7, b.exports}, {8, vector{}}, {9, b.elements}, {12, b.data}, {10, b.codes}, {11, b.data},
	} {
		switch {
		case s.id == 12: // the count of data segments, which memory.init needs
			if s.v.n > 0 {
				out = append(out, Section(12, U32(s.v.n))...)
			}
		case s.id == 8 && b.start != nil:
			out = append(out, Section(8, b.start)...)
		case s.v.n > 0:
			out = append(out, Section(s.id, append(U32(s.v.n), s.v.bytes...))...)
		}
	}
	return append(out, b.custom...)
}

// Header returns the first eight bytes of a module.
func Header() []byte { return []byte("\x00asm\x01\x00\x00\x00") }

// Section returns a section.
func Section(id byte, payload []byte) []byte {
	return slices.Concat([]byte{id}, bytes(payload))
}

// U32 returns v in unsigned LEB128.
func U32(v uint32) []byte {
	var out []byte
	for v >= 0x80 {
		out = append(out, byte(v)|0x80)
		v >>= 7
	}
	return append(out, byte(v))
}

func signed(v int64) []byte {
	var out []byte
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(out, c)
		}
		out = append(out, c|0x80)
	}
}

func bytes(b []byte) []byte { return append(U32(uint32(len(b))), b...) }

func text(s string) []byte { return bytes([]byte(s)) }
