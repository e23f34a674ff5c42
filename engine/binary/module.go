package binary

import (
	"bytes"
	"fmt"
	"strings"
)

// ValueType is a Wasm value type in its binary form.
type ValueType byte

// The value types of WebAssembly 2.0.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

func (t ValueType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return fmt.Sprintf("type 0x%x", byte(t))
}

func (t ValueType) reference() bool { return t == FuncRef || t == ExternRef }

// FuncType is the type of a function.
type FuncType struct{ Params, Results []ValueType }

// String writes the type as the ABI text does: "(i32, i32) -> i64".
func (t FuncType) String() string { return list(t.Params) + " -> " + list(t.Results) }

func list(ts []ValueType) string {
	names := make([]string, len(ts))
	for i, t := range ts {
		names[i] = t.String()
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// Equal reports whether both take and give the same.
func (t FuncType) Equal(o FuncType) bool {
	return equal(t.Params, o.Params) && equal(t.Results, o.Results)
}

func equal(a, b []ValueType) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Kind is what an import or export is.
type Kind byte

// The kinds of WebAssembly 2.0.
const (
	KindFunc   Kind = 0
	KindTable  Kind = 1
	KindMemory Kind = 2
	KindGlobal Kind = 3
)

func (k Kind) String() string {
	switch k {
	case KindFunc:
		return "function"
	case KindTable:
		return "table"
	case KindMemory:
		return "memory"
	case KindGlobal:
		return "global"
	}
	return fmt.Sprintf("kind 0x%x", byte(k))
}

// Import is one import.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         FuncType // of a function
}

// Export is one export.
type Export struct {
	Name  string
	Kind  Kind
	Index uint32
}

// Limits are the bounds of a table, in elements, or of a memory, in pages.
type Limits struct {
	Min, Max uint32
	HasMax   bool
}

// Table is a table that the module defines.
type Table struct {
	Elem ValueType
	Limits
}

// Module is the outline of a module.
type Module struct {
	Types    []FuncType
	Imports  []Import
	Tables   []Table
	Memories []Limits
	Exports  []Export
	// Globals counts the globals that the module defines.
	Globals int
	// Start is the index of the start function, nil if there is none.
	Start *uint32

	wasm      []byte
	sections  []section
	functions []uint32 // type index per defined function
	bodies    int
	// importTypes is the type index per imported function.
	importTypes []uint32
	imported    [4]int         // imports of each kind
	exported    map[string]int // indices of Exports, by their names
	namesBytes  int            // of imports and exports
	names       []byte         // the function names subsection, nil if absent or damaged
	mutable     []mutableGlobal
	segments    []Segment // the active ones
	cost        uint64

	changesTables bool // as it runs
	usesSegments  bool // as it runs
	oddSegments   bool // some are placed by more than a constant
}

// mutableGlobal is a global that the module defines and may change.
type mutableGlobal struct {
	index uint32
	typ   ValueType
}

// section is one section's payload, wasm[start:end].
type section struct {
	id         byte
	start, end int
}

// Size is the number of bytes that the module was parsed from.
func (m *Module) Size() int { return len(m.wasm) }

// Cost is about what compiling the module takes, in the unit of [load.work].
func (m *Module) Cost() uint64 { return m.cost }

// Export returns the export of that name.
func (m *Module) Export(name string) (Export, bool) {
	n, ok := m.exported[name]
	if !ok {
		return Export{}, false
	}
	return m.Exports[n], true
}

// FuncType returns the type of the function at index, imported ones first.
func (m *Module) FuncType(index uint32) (FuncType, bool) {
	i := int64(index)
	if i < int64(len(m.importTypes)) {
		return m.Types[m.importTypes[i]], true
	}
	if i -= int64(len(m.importTypes)); i >= int64(len(m.functions)) {
		return FuncType{}, false
	}
	return m.Types[m.functions[i]], true
}

var magic = []byte("\x00asm")

// Guess says in words what bytes that are no core module seem to be, empty if
// they begin like one.
func Guess(wasm []byte) string {
	switch {
	case len(wasm) == 0:
		return "is empty; upload the .wasm file that the compiler wrote"
	case bytes.HasPrefix(wasm, magic) && len(wasm) < 8:
		return "ends within its header: the file was cut off"
	case bytes.HasPrefix(wasm, magic) && wasm[6] == 1:
		return "is a WebAssembly component; Greenroom takes core modules: for Rust build for wasm32-unknown-unknown instead of wasm32-wasip2, and do not run it through \"wasm-tools component new\""
	case bytes.HasPrefix(wasm, magic):
		if !bytes.Equal(wasm[4:8], []byte{1, 0, 0, 0}) {
			return fmt.Sprintf("has the binary version %x; this host reads version 01000000", wasm[4:8])
		}
		return ""
	case looksLikeText(wasm):
		return "is in the WebAssembly text format; translate it first: wat2wasm guest.wat, or wasm-tools parse guest.wat -o guest.wasm"
	case bytes.HasPrefix(wasm, []byte{0x1f, 0x8b}):
		return "is compressed with gzip; upload the .wasm file itself"
	case bytes.HasPrefix(wasm, []byte("\x7fELF")), bytes.HasPrefix(wasm, []byte("MZ")), bytes.HasPrefix(wasm, []byte{0xcf, 0xfa, 0xed, 0xfe}):
		return "is a native program; build for WebAssembly: \"greenroom build\" picks the right flags"
	}
	return "is not a WebAssembly module: it does not begin with \\0asm"
}

func looksLikeText(b []byte) bool {
	if len(b) > 4096 {
		b = b[:4096]
	}
	for {
		b = bytes.TrimLeft(b, " \t\r\n")
		if !bytes.HasPrefix(b, []byte(";;")) {
			break
		}
		_, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return true
		}
		b = rest
	}
	return bytes.HasPrefix(b, []byte("(module")) || bytes.HasPrefix(b, []byte("(component"))
}
