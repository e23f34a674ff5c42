package extism

import (
	encoding "encoding/binary"

	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/meter"
)

// settle puts a function around each export of a metered module that takes
// nothing, so that every call begins with fuel of its own and says at its end what
// is left. The SDK gives no access to the global where the fuel is.
//
//	fuel = refill(fuelBegin); export(); refill(fuel)
//
// m is the module before it was metered, whose exports have the same names.
func settle(metered []byte, m *binary.Module) []byte {
	const secImport, secFunction, secExport, secCode = 2, 3, 7, 10
	w := &wrapper{m: m}
	sections := map[byte][]byte{}
	w.each(metered, func(id byte, payload []byte) { sections[id] = payload })
	w.imports(sections[secImport])
	w.functions(sections[secFunction])
	exports := w.exports(sections[secExport])

	out := append(make([]byte, 0, len(metered)+1024), metered[:8]...)
	w.each(metered, func(id byte, payload []byte) {
		switch id {
		case secFunction:
			payload = extend(payload, w.added, func(out []byte, f wrapped) []byte { return encoding.AppendUvarint(out, f.typ) })
		case secExport:
			payload = exports
		case secCode:
			payload = extend(payload, w.added, w.body)
		}
		out = appendVector(append(out, id), payload)
	})
	return out
}

type wrapper struct {
	m        *binary.Module
	imported uint64
	refill   uint64   // its function index
	types    []uint64 // of the functions that the module defines
	fuel     uint64   // the global's index
	added    []wrapped
}

// wrapped is a function to be put around the function at index.
type wrapped struct{ index, typ uint64 }

func (w *wrapper) each(wasm []byte, visit func(id byte, payload []byte)) {
	for r := (&reader{buf: wasm[8:]}); len(r.buf) > 0; {
		id := r.byte()
		visit(id, r.vector())
	}
}

// imports are functions only: check has refused all else.
func (w *wrapper) imports(payload []byte) {
	r := &reader{buf: payload}
	w.imported = r.number()
	for n := range w.imported {
		if string(r.vector()) == meter.ImportModule {
			w.refill = n
		}
		r.vector()
		r.byte()
		r.number()
	}
}

func (w *wrapper) functions(payload []byte) {
	r := &reader{buf: payload}
	for range r.number() {
		w.types = append(w.types, r.number())
	}
}

// exports returns the export section with the new functions in the place of the
// old ones.
func (w *wrapper) exports(payload []byte) []byte {
	type export struct {
		name  []byte
		kind  binary.Kind
		index uint64
	}
	r := &reader{buf: payload}
	list := make([]export, r.number())
	for n := range list {
		list[n] = export{r.vector(), binary.Kind(r.byte()), r.number()}
		if string(list[n].name) == meter.ExportFuel {
			w.fuel = list[n].index
		}
	}
	out := encoding.AppendUvarint(nil, uint64(len(list)))
	for _, e := range list {
		if e.kind == binary.KindFunc && e.index >= w.imported && w.takesNothing(string(e.name)) {
			w.added = append(w.added, wrapped{e.index, w.types[e.index-w.imported]})
			e.index = w.imported + uint64(len(w.types)+len(w.added)-1)
		}
		out = appendVector(out, e.name)
		out = encoding.AppendUvarint(append(out, byte(e.kind)), e.index)
	}
	return out
}

func (w *wrapper) takesNothing(export string) bool {
	exp, ok := w.m.Export(export)
	if !ok {
		return false
	}
	t, ok := w.m.FuncType(exp.Index)
	return ok && len(t.Params) == 0
}

// body leaves what the export returned on the stack.
func (w *wrapper) body(out []byte, f wrapped) []byte {
	const opCall, opDrop, opGlobalGet, opGlobalSet, opI64Const, opEnd = 0x10, 0x1a, 0x23, 0x24, 0x42, 0x0b
	code := appendSigned([]byte{0, opI64Const}, fuelBegin) // no locals
	code = encoding.AppendUvarint(append(code, opCall), w.refill)
	code = encoding.AppendUvarint(append(code, opGlobalSet), w.fuel)
	code = encoding.AppendUvarint(append(code, opCall), f.index)
	code = encoding.AppendUvarint(append(code, opGlobalGet), w.fuel)
	code = encoding.AppendUvarint(append(code, opCall), w.refill)
	return appendVector(out, append(code, opDrop, opEnd))
}

// extend adds items to a section that is a list.
func extend[T any](payload []byte, items []T, add func([]byte, T) []byte) []byte {
	r := &reader{buf: payload}
	n := r.number()
	out := encoding.AppendUvarint(make([]byte, 0, len(payload)+64*len(items)), n+uint64(len(items)))
	out = append(out, r.buf...)
	for _, item := range items {
		out = add(out, item)
	}
	return out
}

// appendSigned appends v in signed LEB128.
func appendSigned(out []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}
