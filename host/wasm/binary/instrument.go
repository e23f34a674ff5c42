package binary

// CallsPerCheck is how many function entries may pass between two looks at the
// deadline. At 1 to 10 ns each it is far below a millisecond.
const CallsPerCheck = 10_000

// Instrument returns the module as it is to be run. It differs from the one
// that was parsed, without a difference that a guest could see, in this:
//
//   - Every function counts down a global at its entry and passes an empty loop
//     each [CallsPerCheck] entries. The runtime looks at the deadline at loops
//     only; without this a guest that recurses like a tree (a naive Fibonacci)
//     would run for hours, and no garbage collection could stop the world
//     meanwhile.
//   - Tables have a maximum, since a growing table is host memory, outside the
//     guest's limit.
//   - Of the custom sections only function names are left.
func Instrument(m *Module) []byte {
	out := make([]byte, 0, len(m.wasm)+len(m.bodies)*32+64)
	out = append(out, m.wasm[:8]...)
	globals := false
	for _, s := range m.sections {
		r, _ := rank(s.id)
		at, _ := rank(secGlobal)
		if !globals && r >= at {
			out = m.appendGlobals(out)
			globals = true
		}
		switch s.id {
		case secGlobal: // written above
		case secTable:
			out = appendSection(out, secTable, m.appendTables(nil))
		case secCode:
			out = appendSection(out, secCode, m.appendBodies(make([]byte, 0, s.end-s.start+len(m.bodies)*32)))
		default:
			out = appendSection(out, s.id, m.wasm[s.start:s.end])
		}
	}
	if !globals {
		out = m.appendGlobals(out)
	}
	if m.names != nil {
		payload := append([]byte("\x04name"), subsectionFunctions)
		payload = append(appendU32(payload, uint32(len(m.names))), m.names...)
		out = appendSection(out, secCustom, payload)
	}
	return out
}

// counter is the index of the global that counts function entries: the last
// one, so that the module's own keep theirs.
func (m *Module) counter() uint32 { return uint32(m.imported[KindGlobal] + m.Globals) }

func (m *Module) appendGlobals(out []byte) []byte {
	payload := appendU32(nil, uint32(m.Globals+1))
	for _, s := range m.sections {
		if s.id == secGlobal {
			c := &cursor{buf: m.wasm, pos: s.start, end: s.end}
			c.u32() // the old count
			payload = append(payload, m.wasm[c.pos:s.end]...)
		}
	}
	payload = append(payload, byte(I32), 1, opI32Const)
	payload = append(appendS32(payload, CallsPerCheck), opEnd)
	return appendSection(out, secGlobal, payload)
}

func (m *Module) appendTables(out []byte) []byte {
	out = appendU32(out, uint32(len(m.Tables)))
	for _, t := range m.Tables {
		most := max(t.Min, maxGrownTable)
		if t.HasMax {
			most = min(most, t.Max)
		}
		out = append(out, byte(t.Elem), 1)
		out = appendU32(out, t.Min)
		out = appendU32(out, most)
	}
	return out
}

func (m *Module) appendBodies(out []byte) []byte {
	entry := m.entry()
	out = appendU32(out, uint32(len(m.bodies)))
	for _, b := range m.bodies {
		out = appendU32(out, uint32(b.end-b.start+len(entry)))
		out = append(out, m.wasm[b.start:b.code]...)
		out = append(out, entry...)
		out = append(out, m.wasm[b.code:b.end]...)
	}
	return out
}

// entry is what every function runs first:
//
//	counter = counter - 1
//	if counter == 0 { counter = CallsPerCheck; loop {} }
//
// The loop ends at once; it is there for the check that the runtime compiles
// into the head of each.
func (m *Module) entry() []byte {
	const (
		opLoop, opIf       = 0x03, 0x04
		opGlobalSet        = 0x24
		opI32Eqz, opI32Sub = 0x45, 0x6b
		void               = 0x40
	)
	get := appendU32([]byte{opGlobalGet}, m.counter())
	set := appendU32([]byte{opGlobalSet}, m.counter())
	var e []byte
	e = append(e, get...)
	e = append(e, opI32Const, 1, opI32Sub)
	e = append(e, set...)
	e = append(e, get...)
	e = append(e, opI32Eqz, opIf, void, opI32Const)
	e = appendS32(e, CallsPerCheck)
	e = append(e, set...)
	return append(e, opLoop, void, opEnd, opEnd)
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

// appendS32 appends v in signed LEB128.
func appendS32(out []byte, v int32) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}
