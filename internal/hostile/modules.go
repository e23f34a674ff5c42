package hostile

import (
	"fmt"
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// of returns the guest as one of the actor type typ, with the methods Do and View, and its
// bytes different for each seed.
func of(typ string, seed int, g wasmtest.Guest) []byte {
	g.Manifest = fmt.Sprintf(`{"abi":1,"types":[{"name":%q,"methods":[{"name":"Do"},{"name":"View","read_only":true}]}]}`, typ)
	more := g.More
	g.More = func(b *wasmtest.Builder) {
		b.Func("", nil, nil, 0, wasmtest.Code(wasmtest.I32Const(int32(seed)), wasmtest.Drop)...)
		if more != nil {
			more(b)
		}
	}
	return g.Bytes()
}

// Idle is a guest whose turns do nothing.
func Idle(typ string, seed int) []byte { return of(typ, seed, wasmtest.Guest{}) }

// failing is a guest all of whose turns trap.
func failing(typ string) []byte {
	return of(typ, 0, wasmtest.Guest{Turn: []byte{wasmtest.Unreachable}})
}

// spinning is a guest none of whose turns ends.
func spinning(typ string) []byte {
	return of(typ, 0, wasmtest.Guest{Turn: wasmtest.Code(wasmtest.Forever(), wasmtest.I32Const(0))})
}

// pageBytes is the size of a page of a guest's memory.
const pageBytes = 64 << 10

// replying is a guest whose replies have that many bytes.
func replying(typ string, bytes int) []byte {
	return of(typ, 0, wasmtest.Guest{
		Imports: []wasmtest.Import{wasmtest.Host("reply", "iiii", "i")}, Pages: uint32(bytes/pageBytes) + 2,
		Turn: wasmtest.Code(wasmtest.I32Const(0), wasmtest.I32Const(0), wasmtest.I32Const(wasmtest.HeapAt), wasmtest.I32Const(int32(bytes)),
			wasmtest.Call(0), wasmtest.Drop, wasmtest.I32Const(0)),
	})
}

// setting is a guest whose turns give frames to a host function, reminder_set or timer_set.
func setting(typ, function string, frames []abi.Reminder) []byte {
	var text, turn []byte
	const at = wasmtest.HeapAt
	for i := range frames {
		from := len(text)
		text = abi.AppendReminder(text, &frames[i])
		turn = append(turn, wasmtest.Code(wasmtest.I32Const(int32(at+from)), wasmtest.I32Const(int32(len(text)-from)), wasmtest.Call(0), wasmtest.Drop)...)
	}
	pages := uint32(len(text)/pageBytes) + 2
	return of(typ, 0, wasmtest.Guest{
		Imports: []wasmtest.Import{wasmtest.Host(function, "ii", "i")}, Pages: pages,
		Alloc: wasmtest.I32Const(int32((pages - 1) * pageBytes)), // behind the frames
		Turn:  append(turn, wasmtest.I32Const(0)...),
		More:  func(b *wasmtest.Builder) { b.Data(at, text) },
	})
}

// nested is a guest of 53 KB that takes seconds to compile: blocks in blocks, nearly as deep
// as is taken.
func nested(seed int) []byte {
	const depth = 18_000
	body := make([]byte, 0, 3*depth)
	for range depth {
		body = append(body, 0x02, 0x40) // block
	}
	for range depth {
		body = append(body, 0x0b) // end
	}
	return of("Nested", seed, wasmtest.Guest{More: func(b *wasmtest.Builder) { b.Func("", nil, nil, 0, body...) }})
}

// Heavy is a guest that takes some seconds to compile: long sums of what is in memory.
func Heavy(typ string, seed int) []byte {
	const functions, terms = 30, 10_000
	term := wasmtest.Code(wasmtest.I32Const(0), []byte{0x28, 2, 0}, wasmtest.I32Add) // i32.load
	body := wasmtest.Code(wasmtest.I32Const(0), slices.Repeat(term, terms), wasmtest.Drop)
	return of(typ, seed, wasmtest.Guest{More: func(b *wasmtest.Builder) {
		for range functions {
			b.Func("", nil, nil, 0, body...)
		}
	}})
}

// large returns a guest of that many bytes, few of them code.
func large(seed, bytes int) []byte {
	return of("Large", seed, wasmtest.Guest{More: func(b *wasmtest.Builder) { b.Custom("padding", make([]byte, bytes)) }})
}
