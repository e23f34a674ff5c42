package meter

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

var (
	numeric  = []byte{typeI32, typeI64, typeF32, typeF64}
	anyValue = append([]byte{typeV128, typeFunc, typeExtern, typeI32}, numeric...)
)

// generated is a random valid module and what a test needs to know to run it.
type generated struct {
	wasm    []byte
	exports []generatedExport
}

type generatedExport struct {
	name            string
	params, results []byte
}

// Names of the exports that every generated module has.
const (
	exportBudget = "budget"
	exportMemory = "memory"
)

// generator makes random valid modules. A bounded one counts function entries
// and loop rounds down in a global of its own, and traps when that is used up, so
// that the module ends without being metered.
type generator struct {
	*rand.Rand
	bounded bool

	types   []funcType
	funcs   []uint32 // types; the first are imported
	globals []byte   // types; number 0 is the budget
	out     []byte

	// Of the function that is being written:
	locals  []byte
	results []byte
	labels  [][]byte // the types that a branch to each open block takes
	nested  int
	left    int // statements and expressions that may still have parts
}

const (
	generatedImports = 2 // (i32) -> (i32) and () -> ()
	tableSize        = 12
	dataSegments     = 3
	elemSegments     = 3
	memoryMask       = 0x7fff
)

// generate makes the module of a seed.
func generate(seed uint64, bounded bool) generated {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), bounded: bounded}
	g.types = []funcType{{params: []byte{typeI32}, results: []byte{typeI32}}, {}}
	for range 4 + g.IntN(6) {
		g.types = append(g.types, funcType{params: g.some(anyValue, 3), results: g.some(anyValue, 3)})
	}
	for range 3 {
		g.types = append(g.types, funcType{params: g.some(numeric, 3), results: g.some(numeric, 2)})
	}
	g.funcs = []uint32{0, 1}
	for range 3 + g.IntN(5) {
		g.funcs = append(g.funcs, uint32(g.IntN(len(g.types))))
	}
	g.funcs = append(g.funcs, 1, uint32(len(g.types)-1), uint32(len(g.types)-2))
	g.globals = append([]byte{typeI32}, g.some(anyValue, 5)...)
	return g.module()
}

func (g *generator) some(from []byte, most int) []byte {
	out := []byte{}
	for range g.IntN(most + 1) {
		out = append(out, from[g.IntN(len(from))])
	}
	return out
}

func (g *generator) module() generated {
	m := generated{}
	m.wasm = append(m.wasm, magic...)
	section := func(id byte, content []byte) {
		m.wasm = append(appendU32(append(m.wasm, id), uint32(len(content))), content...)
	}
	b := appendU32(nil, uint32(len(g.types)))
	for _, t := range g.types {
		b = append(appendU32(append(b, 0x60), uint32(len(t.params))), t.params...)
		b = append(appendU32(b, uint32(len(t.results))), t.results...)
	}
	section(secType, b)
	b = append(appendName(appendName([]byte{generatedImports}, "env"), "answer"), externFunc, 0)
	section(secImport, append(appendName(appendName(b, "env"), "nothing"), externFunc, 1))
	b = appendU32(nil, uint32(len(g.funcs)-generatedImports))
	for _, t := range g.funcs[generatedImports:] {
		b = appendU32(b, t)
	}
	section(secFunction, b)
	section(secTable, []byte{2, typeFunc, 1, tableSize, tableSize + 8, typeExtern, 0, 4})
	section(secMemory, []byte{1, 1, 1, 3})
	b = appendU32(nil, uint32(len(g.globals)))
	for i, t := range g.globals {
		g.out = nil
		if g.constant(t); i == 0 {
			g.out = []byte{opI32Const, 63} // the budget of the start function
		}
		b = append(append(append(b, t, 1), g.out...), opEnd)
	}
	section(secGlobal, b)

	b = append(appendName(nil, exportBudget), externGlobal, 0)
	b = append(appendName(b, exportMemory), externMemory, 0)
	count := 2
	for i, t := range g.funcs {
		typ := g.types[t]
		if i < generatedImports || !subset(typ.params, numeric) || !subset(typ.results, numeric) {
			continue
		}
		e := generatedExport{fmt.Sprintf("f%d", i), typ.params, typ.results}
		m.exports = append(m.exports, e)
		b = appendU32(append(appendName(b, e.name), externFunc), uint32(i))
		count++
	}
	for i, t := range g.globals[1:] {
		if subset([]byte{t}, numeric) {
			b = append(appendName(b, fmt.Sprintf("g%d", i+1)), externGlobal, byte(i+1))
			count++
		}
	}
	section(secExport, append(appendU32(nil, uint32(count)), b...))
	if g.IntN(4) == 0 {
		section(secStart, []byte{byte(len(g.funcs) - 3)}) // of type 1
	}
	section(secElement, g.elements())
	section(secDataCount, []byte{dataSegments})
	section(secCode, g.code())
	b = []byte{dataSegments, 0, opI32Const, 16, opEnd, 5, 'h', 'e', 'l', 'l', 'o'}
	section(secData, append(b, 1, 3, 'a', 'b', 'c', 0, opI32Const, 20, opEnd, 3, 'x', 'y', 'z'))
	names := appendName(nil, "name")
	names = append(names, namesFunctions, 9, 2, 0, 2, 'i', 'n', 2, 2, 'f', '2')
	section(secCustom, names)
	return m
}

func subset(types, of []byte) bool {
	for _, t := range types {
		found := false
		for _, o := range of {
			found = found || t == o
		}
		if !found {
			return false
		}
	}
	return true
}

// elements fill the table, in the ways that there are, and declare every
// function so that ref.func may name it.
func (g *generator) elements() []byte {
	b := []byte{elemSegments, 0, opI32Const, 0, opEnd, tableSize - 2}
	for range tableSize - 2 {
		b = appendU32(b, uint32(g.IntN(len(g.funcs))))
	}
	b = append(b, 5, typeFunc, 3, opRefFunc, byte(g.IntN(len(g.funcs))), opEnd, opRefNull, typeFunc, opEnd, opRefFunc, 0, opEnd)
	b = appendU32(append(b, 3, 0), uint32(len(g.funcs)))
	for i := range g.funcs {
		b = appendU32(b, uint32(i))
	}
	return b
}

func (g *generator) code() []byte {
	b := appendU32(nil, uint32(len(g.funcs)-generatedImports))
	for i, t := range g.funcs[generatedImports:] {
		body := g.function(g.types[t], i)
		b = append(appendU32(b, uint32(len(body))), body...)
	}
	return b
}

func (g *generator) function(t funcType, i int) []byte {
	extra := g.some(anyValue, 4)
	if g.IntN(8) == 0 {
		for range 200 { // a frame that takes more of the depth
			extra = append(extra, typeI64)
		}
	}
	extra = append(extra, typeF32, typeF64) // for canonical NaNs
	g.locals = append(append([]byte{}, t.params...), extra...)
	g.results, g.labels, g.nested, g.left = t.results, [][]byte{t.results}, 0, 40
	g.out = appendU32(nil, uint32(len(extra)))
	for _, l := range extra {
		g.out = append(g.out, 1, l)
	}
	g.spend()
	for range 1 + g.IntN(5) {
		g.statement()
	}
	if !g.bounded && i%2 == 0 {
		g.emit(opLoop, typeEmpty)
		g.labels = append(g.labels, nil)
		g.statement()
		g.labels = g.labels[:len(g.labels)-1]
		g.emit(opBr, 0, opEnd)
	}
	g.values(t.results)
	g.emit(opEnd)
	return g.out
}

// spend counts the budget down and traps at its end.
func (g *generator) spend() {
	if g.bounded {
		g.emit(opGlobalGet, 0, 0x45, opIf, typeEmpty, opUnreachable, opEnd)
		g.emit(opGlobalGet, 0, opI32Const, 1, opI32Sub, opGlobalSet, 0)
	}
}

func (g *generator) emit(b ...byte) { g.out = append(g.out, b...) }

func (g *generator) values(types []byte) {
	for _, t := range types {
		g.expression(t)
	}
}

// take removes values from the stack, into variables where there are any.
func (g *generator) take(types []byte) {
	for i := len(types) - 1; i >= 0; i-- {
		if l, ok := g.local(types[i]); ok && g.IntN(2) == 0 {
			g.emit(appendU32([]byte{opLocalSet}, l)...)
		} else {
			g.emit(opDrop)
		}
	}
}

func (g *generator) local(t byte) (uint32, bool)  { return g.find(g.locals, t, 0) }
func (g *generator) global(t byte) (uint32, bool) { return g.find(g.globals, t, 1) }

// find returns the index of a random element from the first on that equals t.
func (g *generator) find(in []byte, t byte, first int) (uint32, bool) {
	if len(in) <= first {
		return 0, false
	}
	start := g.IntN(len(in) - first)
	for i := range len(in) - first {
		if k := first + (start+i)%(len(in)-first); in[k] == t {
			return uint32(k), true
		}
	}
	return 0, false
}

// constant leaves a constant of a type.
func (g *generator) constant(t byte) {
	interesting := []uint64{0, 1, 2, 7, 31, 255, 1 << 15, 1<<31 - 1, 1 << 31, 1<<63 - 1, 1 << 63, ^uint64(0)}
	v := interesting[g.IntN(len(interesting))]
	switch t {
	case typeI32:
		g.out = appendS64(append(g.out, opI32Const), int64(int32(v)))
	case typeI64:
		g.out = appendS64(append(g.out, opI64Const), int64(v))
	case typeF32:
		g.out = binary.LittleEndian.AppendUint32(append(g.out, opF32Const), uint32(v)&0xff7fffff) // no NaN
	case typeF64:
		g.out = binary.LittleEndian.AppendUint64(append(g.out, opF64Const), v&^(1<<62))
	case typeV128:
		g.emit(opSIMD, 12)
		g.out = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(g.out, v), v*3)
	default:
		g.emit(opRefNull, t)
	}
}
