package extism

import (
	encoding "encoding/binary"
)

const (
	// envModule and userModule are Extism's: its own functions, and those that a
	// host adds.
	envModule  = "extism:host/env"
	userModule = "extism:host/user"
	// ownModule is where rewire moves the imports that this package answers. A
	// plug-in cannot import it by itself: check knows no such module.
	ownModule = "greenroom:extism"
	// hiddenExport is put before the names of the exports that the SDK would call
	// by itself. No method has a colon in its name.
	hiddenExport = "greenroom:"
)

// initExports are what the SDK would call before the first call, the first of
// them that there is. This package does it when an instance starts, to tell its
// faults from those of a turn.
var initExports = []string{"_initialize", "__wasm_call_ctors"}

// rewire returns a module with the names of some imports and exports changed: the
// imports that this package answers go to ownModule, and what starts a language
// runtime is hidden from the SDK. Tables get a maximum, since a growing table is
// host memory, outside the plug-in's limit. The module must have passed check, so
// it imports nothing but functions. All else stays as it is.
func rewire(wasm []byte) []byte {
	const secImport, secTable, secExport = 2, 4, 7
	out := append(make([]byte, 0, len(wasm)+1024), wasm[:8]...)
	r := &reader{buf: wasm[8:]}
	for len(r.buf) > 0 {
		id := r.byte()
		payload := r.vector()
		switch id {
		case secImport:
			payload = rewireImports(payload)
		case secTable:
			payload = boundTables(payload)
		case secExport:
			payload = rewireExports(payload)
		}
		out = appendVector(append(out, id), payload)
	}
	return out
}

func rewireImports(payload []byte) []byte {
	r := &reader{buf: payload}
	n := r.number()
	out := encoding.AppendUvarint(make([]byte, 0, len(payload)+256), n)
	for range n {
		module, name := string(r.vector()), string(r.vector())
		kind, typ := r.byte(), r.number()
		if isOwn(module, name) {
			module = ownModule
		}
		out = appendVector(out, []byte(module))
		out = appendVector(out, []byte(name))
		out = encoding.AppendUvarint(append(out, kind), typ)
	}
	return out
}

func rewireExports(payload []byte) []byte {
	r := &reader{buf: payload}
	n := r.number()
	out := encoding.AppendUvarint(make([]byte, 0, len(payload)+64), n)
	for range n {
		name := string(r.vector())
		kind, index := r.byte(), r.number()
		for _, init := range initExports {
			if name == init {
				name = hiddenExport + name
				break
			}
		}
		out = appendVector(out, []byte(name))
		out = encoding.AppendUvarint(append(out, kind), index)
	}
	return out
}

// maxTable is what table.grow may reach, in elements, as in engine/wasm.
const maxTable = 65_536

func boundTables(payload []byte) []byte {
	r := &reader{buf: payload}
	n := r.number()
	out := encoding.AppendUvarint(nil, n)
	for range n {
		elem, bounded, least := r.byte(), r.byte() == 1, r.number()
		most := max(least, maxTable)
		if bounded {
			most = min(most, r.number())
		}
		out = encoding.AppendUvarint(append(out, elem, 1), least)
		out = encoding.AppendUvarint(out, most)
	}
	return out
}

// reader reads what binary.Parse has found well formed.
type reader struct{ buf []byte }

func (r *reader) byte() byte {
	b := r.buf[0]
	r.buf = r.buf[1:]
	return b
}

func (r *reader) number() uint64 {
	v, n := encoding.Uvarint(r.buf)
	r.buf = r.buf[n:]
	return v
}

func (r *reader) vector() []byte {
	n := r.number()
	v := r.buf[:n]
	r.buf = r.buf[n:]
	return v
}

func appendVector(out, content []byte) []byte {
	return append(encoding.AppendUvarint(out, uint64(len(content))), content...)
}
