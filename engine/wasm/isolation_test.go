package wasm

import (
	"bytes"
	"context"
	"math"
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// thief replies with everything that it finds in its instance, and then leaves a
// secret in every place that there is.
func thief(find, leave []byte, more func(*Builder)) Guest {
	const report = 8192
	store := func(at int32, value []byte) []byte { return Code(I32Const(report+at), value, Store()) }
	return Guest{
		Imports: []Import{Host("reply", "iiii", "i")},
		Turn: Code(
			store(0, Code(I32Const(4096), []byte{0x28, 2, 0})),     // untouched memory
			store(4, Code(I32Const(2048), []byte{0x28, 2, 0})),     // a data segment
			store(8, GlobalGet(0)),                                 // the allocator's
			store(12, []byte{0x3f, 0}),                             // the memory's size
			store(16, Code(I32Const(120<<10), []byte{0x28, 2, 0})), // far away
			find,
			I32Const(0), I32Const(0), I32Const(report), I32Const(64), Call(0), Drop,
			I32Const(4096), I32Const(0x5ec4e7), Store(),
			I32Const(2048), I32Const(0x5ec4e7), Store(),
			I32Const(120<<10), I32Const(0x5ec4e7), Store(),
			I32Const(report+60), I32Const(0x5ec4e7), Store(),
			I32Const(0x5ec4e8), GlobalSet(0),
			leave,
			I32Const(0)),
		More: func(b *Builder) {
			b.Data(2048, []byte("data"))
			if more != nil {
				more(b)
			}
		},
	}
}

// No byte of one actor reaches another, of a failed turn the next one, or of a
// read-only turn any.
func TestIsolation(t *testing.T) {
	e := newEngine(t, Config{})
	put := func(value []byte) []byte { return Code(I32Const(8192+20), value, Store()) }
	table := func(b *Builder) { b.Table(4) }
	failing := thief(nil, nil, nil)
	failing.Turn = failing.Turn[:len(failing.Turn)-1]
	failing.Turn = append(failing.Turn, 1)
	for name, tc := range map[string]struct {
		guest    Guest
		detached bool
		readOnly bool
		same     bool // the next turn is the same actor's
	}{
		"memory and globals": {guest: thief(nil, nil, nil), detached: true},
		"a large memory": {guest: func() Guest {
			g := thief(nil, nil, nil)
			g.Pages = 20
			return g
		}(), detached: true},
		"a large image": {guest: func() Guest {
			g := thief(nil, nil, func(b *Builder) { b.Data(1<<20, make1(512<<10)) })
			g.Pages = 40
			return g
		}(), detached: true},
		"memory that grew": {guest: thief(nil, Code(I32Const(3), MemoryGrow(), Drop, I32Const(200<<10), I32Const(0x5ec4e7), Store()), nil), detached: true},
		"many pages here and there": {guest: func() Guest {
			g := thief(nil, Code(I32Const(200<<10), LocalSet(2), Loop(Code(
				LocalGet(2), I32Const(0x5ec4e7), Store(),
				LocalGet(2), I32Const(8<<10), I32Add, LocalSet(2),
				LocalGet(2), I32Const(3<<20), I32LtU, []byte{0x0d, 0})...)), nil)
			g.Pages = 50
			return g
		}(), detached: true},
		"megabytes": {guest: func() Guest {
			g := thief(nil, Code(I32Const(200<<10), I32Const(0x5e), I32Const(2<<20), []byte{0xfc, 11, 0}), nil)
			g.Pages = 50
			return g
		}(), detached: true},
		"another global": {guest: thief(put(GlobalGet(1)), Code(I32Const(0x5ec4e7), GlobalSet(1)),
			func(b *Builder) { b.Global(5) }), detached: true},
		"a table's size": {guest: thief(put([]byte{0xfc, 16, 0}), Code([]byte{0xd0, 0x70}, I32Const(3), []byte{0xfc, 15, 0}, Drop), table)},
		"a table's element": {guest: thief(put(Code(I32Const(1), []byte{0x25, 0}, 0xd1)), Code(I32Const(1), []byte{0xd2, 1}, []byte{0x26, 0}), func(b *Builder) {
			table(b)
			b.Export("alloc", 0, 1) // declares the reference
		})},
		"a failed turn":    {guest: failing, detached: true, same: true},
		"a read-only turn": {guest: thief(nil, nil, nil), detached: true, same: true, readOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := enginetest.Load(t, e, tc.guest.Bytes())
			if got := p.(*program).detached; got != tc.detached {
				t.Fatalf("detached: %v", got)
			}
			turn := func(i *instance, id string) string {
				calls, f := newCalls(), frame("{}")
				f.ID = id
				if tc.readOnly {
					f.Flags = abi.FlagReadOnly
				}
				if err := i.Run(context.Background(), f, calls); err != nil && err.Error() != "the guest failed without saying why" {
					t.Fatal(err)
				}
				return string(calls.reply.Data)
			}
			fresh := turn(instantiate(t, e, tc.guest.Bytes()), "b")
			i := instantiate(t, e, tc.guest.Bytes())
			first := "a"
			if tc.same {
				first = "b"
			}
			turn(i, first)
			for n := range 3 {
				if got := turn(i, "b"); got != fresh {
					t.Fatalf("found %q, on a fresh instance %q (round %d)", got, fresh, n)
				}
				turn(i, first)
				if !tc.same {
					turn(i, first) // its own bytes are there
				}
			}
			// The slot goes to the next instance.
			i.Close(context.Background())
			if got := turn(instantiate(t, e, tc.guest.Bytes()), "b"); got != fresh {
				t.Fatalf("another instance found %q", got)
			}
		})
	}
}

// A table grows to a bound, and not beyond: table.grow answers -1, and the turn
// goes on.
func TestTableGrowsToABound(t *testing.T) {
	e := newEngine(t, Config{})
	grow := func(by int32) []byte { return Code([]byte{0xd0, 0x70}, I32Const(by), []byte{0xfc, 15, 0}) }
	i := instantiate(t, e, Guest{
		Imports: []Import{Host("reply", "iiii", "i")},
		Turn: Code(
			I32Const(8192), grow(1<<20), Store(),
			I32Const(8196), grow(100), Store(),
			I32Const(8200), grow(65_536), Store(),
			I32Const(0), I32Const(0), I32Const(8192), I32Const(12), Call(0), Drop,
			I32Const(0)),
		More: func(b *Builder) { b.Table(4) },
	}.Bytes())
	calls := newCalls()
	if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(le32(math.MaxUint32), le32(4), le32(math.MaxUint32))
	if !bytes.Equal(calls.reply.Data, want) {
		t.Errorf("the guest was answered % x, want % x", calls.reply.Data, want)
	}
}

// make1 is n bytes of ones.
func make1(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 1
	}
	return b
}
