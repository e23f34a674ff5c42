package wasm

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// grows is a function that keeps a module from being detached: it changes a table.
func grows(b *Builder) {
	b.Table(1)
	b.Func("", nil, []byte{I32}, 0, 0xd0, 0x70, 0x41, 0, 0xfc, 15, 0)
}

// An instance that is made anew for another actor starts as the first one did:
// what was drawn from the stream outside of turns is no place to leave a mark.
func TestStartsAreTheSame(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, e, Guest{
		Imports: []Import{Host("random", "ii", "i"), Host("reply", "iiii", "i")},
		Init:    Code(I32Const(8192), I32Const(16), Call(0), Drop),
		Turn:    Code(I32Const(0), I32Const(0), I32Const(8192), I32Const(16), Call(1)),
		More:    grows,
	}.Bytes())
	if i.program.detached {
		t.Fatal("this module would begin from an image")
	}
	var first []byte
	for _, id := range []string{"a", "b", "a"} {
		calls, f := newCalls(), frame("{}")
		f.ID = id
		if err := i.Run(context.Background(), f, calls); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = calls.reply.Data
		}
		if !bytes.Equal(calls.reply.Data, first) || bytes.Equal(first, make([]byte, 16)) {
			t.Errorf("actor %s began with % x, the first with % x", id, calls.reply.Data, first)
		}
	}
}

// What one actor dropped of the module's segments is there for the next.
func TestDroppedSegmentsComeBack(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, e, Guest{
		Turn: Code(
			I32Const(8192), I32Const(0), I32Const(4), []byte{0xfc, 8, 1, 0}, // memory.init of the segment 1
			[]byte{0xfc, 9, 1}, // data.drop
			I32Const(0)),
		More: func(b *Builder) { b.PassiveData([]byte("data")) },
	}.Bytes())
	for _, id := range []string{"a", "b", "a"} {
		f := frame("{}")
		f.ID = id
		if err := i.Run(context.Background(), f, newCalls()); err != nil {
			t.Errorf("actor %s: %v", id, err)
		}
	}
}

// Tables are memory of the host, outside of the guest's limit: they are counted.
func TestTablesAreCounted(t *testing.T) {
	e := newEngine(t, Config{})
	for name, tc := range map[string]struct {
		more func(*Builder)
		want int64
	}{
		"large": {func(b *Builder) { b.Table(900_000) }, 900_000 * elementBytes},
		"many":  {func(b *Builder) { b.Table(100_000); b.Table(200_000) }, 300_000 * elementBytes},
		"grows": {grows, 65_536 * elementBytes},
	} {
		i := instantiate(t, e, Guest{More: tc.more}.Bytes())
		if got := i.MemoryBytes(); got < tc.want || got > tc.want+testMemory {
			t.Errorf("%s: %d bytes are counted, want at least %d", name, got, tc.want)
		}
	}
}

// Exports that are functions of the host are called like others, and do to the
// instance what they would have done for the guest.
func TestExportsThatAreImports(t *testing.T) {
	e := newEngine(t, Config{})
	for _, tc := range []struct {
		export string
		imp    Import
		runs   bool
	}{
		{"greenroom_turn", Host("random", "ii", "i"), true},
		{"greenroom_turn", Host("state_delete", "ii", "i"), true},
		{"greenroom_turn", Host("fail", "ii", "i"), false},
		{"greenroom_turn", Func("wasi_snapshot_preview1", "random_get", "ii", "i"), true},
		{"greenroom_turn", Func("wasi_snapshot_preview1", "args_sizes_get", "ii", "i"), true},
		{"greenroom_turn", Func("wasi_snapshot_preview1", "fd_filestat_get", "ii", "i"), false},
		{"greenroom_alloc", Func("wasi_snapshot_preview1", "fd_close", "i", "i"), true},
		{"greenroom_alloc", Func("wasi_snapshot_preview1", "proc_raise", "i", "i"), false},
	} {
		t.Run(tc.export+" is "+tc.imp.Name, func(t *testing.T) {
			wasm := Guest{Imports: []Import{tc.imp}, Omit: tc.export, More: func(b *Builder) { b.Export(tc.export, 0, 0) }}.Bytes()
			i := instantiate(t, e, wasm)
			err := i.Run(context.Background(), frame("{}"), newCalls())
			var trap *actor.TrapError
			var onPurpose *actor.GuestError
			if tc.runs != (err == nil) || err != nil && !errors.As(err, &trap) && !errors.As(err, &onPurpose) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Buffers that lie over each other, over the frame, and over what the call is told.
func TestOverlappingBuffers(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, e, Guest{
		Imports: []Import{
			Host("state_set", "iiiii", "i"), Host("state_get", "iiii", "l"), Host("state_keys", "iiii", "l"),
			Host("state_patch", "iiii", "i"), Host("reply", "iiii", "i"), Host("random", "ii", "i"),
		},
		More: func(b *Builder) { b.Data(2048, []byte(`{"a":"b"}`)) },
		Turn: Code(
			I32Const(2048), I32Const(9), I32Const(2048), I32Const(9), I32Const(1), Call(0), Drop, // the key is its value
			I32Const(2048), I32Const(9), I32Const(2049), I32Const(8), Call(1), Drop, // too small: nothing is written
			I32Const(2048), I32Const(9), I32Const(2048), I32Const(9), Call(1), Drop, // over the key
			I32Const(2048), I32Const(9), I32Const(2048), I32Const(9), Call(3), Drop, // before is after
			I32Const(2048), I32Const(1), LocalGet(0), LocalGet(1), Call(2), Drop, // over the frame
			I32Const(0), I32Const(0), I32Const(2048), I32Const(9), Call(4), Drop,
			LocalGet(0), LocalGet(1), Call(5)),
	}.Bytes())
	for range 2 {
		calls := newCalls()
		if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
			t.Fatal(err)
		}
		if got := string(calls.reply.Data); got != `{"a":"b"}` || string(calls.state[got]) != got || calls.formats[got] != abi.FormatJSON {
			t.Errorf("replied %q, state %q", got, calls.state)
		}
	}
}
