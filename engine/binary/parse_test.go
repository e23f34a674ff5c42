package binary_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/greenroom-run/greenroom/engine/binary"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

func TestParse(t *testing.T) {
	g := Guest{
		Imports:  []Import{Host("mixed", "ilil", "l")},
		MaxPages: 8,
		More: func(b *Builder) {
			b.Table(3)
			b.Start(b.Func("extra", []byte{I32}, []byte{I64, I32}, 2, Unreachable))
			b.Custom("anything", []byte{0xff})
		},
	}
	m, err := binary.Parse(g.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Imports) != 1 || m.Imports[0].Type.String() != "(i32, i64, i32, i64) -> (i64)" {
		t.Errorf("imports %v", m.Imports)
	}
	if len(m.Memories) != 1 || m.Memories[0] != (binary.Limits{Min: 2, Max: 8, HasMax: true}) {
		t.Errorf("memories %v", m.Memories)
	}
	if len(m.Tables) != 1 || m.Tables[0].Min != 3 || m.Globals != 1 || m.Start == nil {
		t.Errorf("tables %v, globals %d, start %v", m.Tables, m.Globals, m.Start)
	}
	exp, ok := m.Export("extra")
	if typ, known := m.FuncType(exp.Index); !ok || !known || typ.String() != "(i32) -> (i64, i32)" {
		t.Errorf("export %v of type %s", exp, typ)
	}
	if _, known := m.FuncType(99); known {
		t.Error("a type of a function that is not there")
	}
}

func TestParseRefuses(t *testing.T) {
	huge := U32(1<<32 - 1)
	for name, tc := range map[string]struct {
		wasm []byte
		text string
	}{
		"unknown section":         {slices.Concat(Header(), Section(77, nil)), "number 77"},
		"sections out of order":   {slices.Concat(Header(), Section(2, []byte{0}), Section(1, []byte{0})), "wrong place"},
		"a section twice":         {slices.Concat(Header(), Section(1, []byte{0}), Section(1, []byte{0})), "twice"},
		"a section beyond":        {slices.Concat(Header(), []byte{1}, huge), "bytes in a section"},
		"bytes left over":         {slices.Concat(Header(), Section(1, []byte{0, 0})), "1 bytes too many"},
		"a number of 33 bits":     {slices.Concat(Header(), Section(1, []byte{0xff, 0xff, 0xff, 0xff, 0x1f})), "more than 32 bits"},
		"a struct type":           {slices.Concat(Header(), Section(1, []byte{1, 0x5f, 0, 0})), "0x5f"},
		"types":                   {slices.Concat(Header(), Section(1, huge)), "4294967295 types"},
		"functions":               {slices.Concat(Header(), Section(3, huge)), "4294967295 functions"},
		"functions without type":  {slices.Concat(Header(), Section(3, []byte{1, 0})), "does not exist"},
		"functions without code":  {slices.Concat(Header(), Section(1, []byte{1, 0x60, 0, 0}), Section(3, []byte{1, 0})), "1 functions and has the code of 0"},
		"two memories":            {slices.Concat(Header(), Section(5, []byte{2, 0, 1, 0, 1})), "2 memories"},
		"shared memory":           {slices.Concat(Header(), Section(5, []byte{1, 3, 1, 1})), "shared"},
		"limits upside down":      {slices.Concat(Header(), Section(5, []byte{1, 1, 2, 1})), "below its minimum"},
		"globals":                 {slices.Concat(Header(), Section(6, huge)), "globals"},
		"exports":                 {slices.Concat(Header(), Section(7, huge)), "exports"},
		"export twice":            {slices.Concat(Header(), Section(7, []byte{2, 1, 'a', 2, 0, 1, 'a', 2, 0})), "twice"},
		"name beyond":             {slices.Concat(Header(), Section(7, append([]byte{1}, huge...))), "bytes in a name"},
		"name not UTF-8":          {slices.Concat(Header(), Section(7, []byte{1, 1, 0xff, 2, 0})), "UTF-8"},
		"element segments":        {slices.Concat(Header(), Section(9, huge)), "element segments"},
		"elements":                {slices.Concat(Header(), Section(9, slices.Concat([]byte{1, 1, 0}, huge))), "elements in a segment"},
		"bodies":                  {slices.Concat(Header(), Section(10, huge)), "function bodies"},
		"a body beyond":           {slices.Concat(Header(), Section(10, append([]byte{1}, huge...))), "bytes in one function"},
		"a body without an end":   {slices.Concat(Header(), Section(10, []byte{1, 2, 0, 1})), "without an end"},
		"data segments":           {slices.Concat(Header(), Section(11, huge)), "data segments"},
		"data beyond":             {slices.Concat(Header(), Section(11, slices.Concat([]byte{1, 1}, huge))), "bytes in a data segment"},
		"an unknown constant":     {slices.Concat(Header(), Section(6, []byte{1, 0x7f, 0, 0x10, 0, 0x0b})), "constant expression"},
		"a value type of the GC":  {slices.Concat(Header(), Section(1, []byte{1, 0x60, 1, 0x64, 0})), "0x64"},
		"a table of numbers":      {slices.Concat(Header(), Section(4, []byte{1, 0x7f, 0, 0})), "table of i32"},
		"more than 1000 operands": {slices.Concat(Header(), Section(1, append([]byte{1, 0x60}, U32(1001)...))), "1001 parameters"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := binary.Parse(tc.wasm)
			var be *binary.Error
			if !errors.As(err, &be) || !strings.Contains(be.Problem, tc.text) {
				t.Errorf("got %v, want %q", err, tc.text)
			}
		})
	}
}

// Every prefix of a module and every change of one byte is read without a panic.
func TestParseDamaged(t *testing.T) {
	wasm := Guest{More: func(b *Builder) { b.Table(1) }}.Bytes()
	for n := range wasm {
		if m, err := binary.Parse(wasm[:n]); err == nil { // cut between two sections
			binary.Prepare(m).Wasm()
		}
		for _, bit := range []byte{1, 0x80, 0xff} {
			damaged := bytes.Clone(wasm)
			damaged[n] ^= bit
			if m, err := binary.Parse(damaged); err == nil {
				binary.Prepare(m).Wasm()
			}
		}
	}
}

// What Prepare writes is what it read: same interface, same results.
func TestPrepare(t *testing.T) {
	ctx := context.Background()
	rt := wazero.NewRuntime(ctx)
	defer rt.Close(ctx)
	names := slices.Concat([]byte{1}, U32(7), []byte{1, 0, 4}, []byte("tree"))
	b := &Builder{}
	b.Table(1)
	b.Memory(1, 0)
	b.Func("tree", []byte{I32}, []byte{I32}, 1, Code(
		LocalGet(0), I32Const(2), I32LtU, If(Code(LocalGet(0), Return)...),
		LocalGet(0), I32Const(1), I32Sub, Call(0), LocalGet(0), I32Const(2), I32Sub, Call(0), I32Add)...)
	b.Export("memory", 2, 0)
	b.Custom("name", names)
	b.Custom("producers", []byte("damaged"))
	m, err := binary.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	out := binary.Prepare(m).Wasm()
	if !bytes.Contains(out, []byte("tree")) || bytes.Contains(out, []byte("producers")) {
		t.Error("of the custom sections only names are to stay")
	}
	again, err := binary.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	if again.Globals != m.Globals || len(again.Exports) != len(m.Exports) || !again.Tables[0].HasMax {
		t.Errorf("got %+v", again)
	}
	for n, wasm := range [][]byte{b.Bytes(), out} {
		mod, err := rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithName(""))
		if err != nil {
			t.Fatal(n, err)
		}
		got, err := mod.ExportedFunction("tree").Call(ctx, 23) // 92,735 calls
		if err != nil || got[0] != 28657 {
			t.Errorf("module %d: %v, %v", n, got, err)
		}
	}
}

// Every instruction of WebAssembly 2.0 is passed with its operands; the runtime,
// which knows them too, takes the module.
func TestInstructions(t *testing.T) {
	ctx := context.Background()
	rt := wazero.NewRuntime(ctx)
	defer rt.Close(ctx)
	drop := func(code ...any) []byte { return append(Code(code...), Drop) }
	zero, addr := I32Const(0), I32Const(8)
	vec := append([]byte{0xfd, 12}, make([]byte, 16)...)
	for name, body := range map[string][]byte{
		"blocks":      Code([]byte{2, 0x40}, []byte{3, 0x40, 0x0b}, zero, []byte{4, 0x40, 0x05, 0x0b}, 0x0b),
		"branches":    Code([]byte{2, 0x40}, zero, []byte{0x0d, 0}, zero, []byte{0x0e, 2, 0, 0, 0}, 0x0b),
		"calls":       Code(Call(0), zero, []byte{0x11, 0, 0}),
		"select":      drop(zero, zero, zero, []byte{0x1c, 1, 0x7f}),
		"constants":   Code(drop(I64Const(-1<<62)), drop([]byte{0x43, 1, 2, 3, 4}), drop([]byte{0x44, 1, 2, 3, 4, 5, 6, 7, 8})),
		"memory":      Code(drop(addr, []byte{0x2d, 0, 0xff, 1}), addr, zero, Store(), drop([]byte{0x3f, 0}), drop(zero, MemoryGrow())),
		"saturating":  drop([]byte{0x43, 0, 0, 0, 0, 0xfc, 0}),
		"sign":        drop(zero, 0xc0),
		"bulk memory": Code(zero, zero, zero, []byte{0xfc, 8, 0, 0}, []byte{0xfc, 9, 0}, zero, zero, zero, []byte{0xfc, 10, 0, 0}, zero, zero, zero, []byte{0xfc, 11, 0}),
		"tables":      Code(drop(zero, []byte{0x25, 0}), zero, []byte{0xd0, 0x70, 0x26, 0}, drop([]byte{0xfc, 16, 0}), drop([]byte{0xd0, 0x70}, zero, []byte{0xfc, 15, 0})),
		"references":  drop([]byte{0xd0, 0x70, 0xd1}),
		"vectors":     Code(drop(vec), drop(vec, vec, 0xfd, 13, make([]byte, 16)), drop(vec, 0xfd, 21, 3), drop(addr, 0xfd, 0, 0, 0), drop(addr, vec, 0xfd, 84, 0, 0, 1), drop(addr, 0xfd, 92, 2, 0), drop(vec, vec, 0xfd, 0xae, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			b := &Builder{}
			b.Memory(1, 0)
			b.Table(1)
			b.Func("f", nil, nil, 0, body...)
			b.PassiveData([]byte("x"))
			m, err := binary.Parse(b.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rt.CompileModule(ctx, binary.Prepare(m).Wasm()); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Guest{}.Bytes())
	f.Add(Guest{Imports: []Import{Host("log", "iii", "i")}, More: func(b *Builder) {
		b.Table(2)
		b.Custom("name", []byte{1, 3, 1, 0, 0})
		b.Start(b.Func("", nil, nil, 0))
	}}.Bytes())
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := binary.Parse(wasm)
		if err != nil {
			var be *binary.Error
			if !errors.As(err, &be) || be.Offset < 0 || be.Offset > len(wasm) {
				t.Fatalf("error %#v", err)
			}
			return
		}
		out := binary.Prepare(m).Wasm()
		again, err := binary.Parse(out)
		if err != nil {
			t.Fatalf("what Prepare wrote cannot be read: %v", err)
		}
		if len(again.Exports) < len(m.Exports) || len(again.Imports) != len(m.Imports) {
			t.Fatal("the interface changed")
		}
		for _, e := range m.Exports {
			if e.Kind == binary.KindFunc {
				before, _ := m.FuncType(e.Index)
				if after, _ := again.FuncType(e.Index); !after.Equal(before) {
					t.Fatalf("%s was %s and is %s", e.Name, before, after)
				}
			}
		}
	})
}
