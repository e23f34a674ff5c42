package wasm

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// TestSpawnChild: a guest makes a child that shares its mailbox, and one with a buffer of a size. It replies with both
// results, the first ID, and why the last was refused.
func TestSpawnChild(t *testing.T) {
	e := newEngine(t, Config{})
	wide := []byte{0x37, 3, 0} // i64.store
	guest := func(capacity int32) Guest {
		spawn := func(at, flags, buf, capacity int32) []byte {
			return Code(I32Const(at), I32Const(2048), I32Const(6), I32Const(flags), I32Const(buf), I32Const(capacity), Call(0), wide)
		}
		return Guest{
			Imports: []Import{Host("spawn_child", "iiiii", "l"), Host("problem", "ii", "l"), Host("reply", "iiii", "i")},
			More:    func(b *Builder) { b.Data(2048, []byte("Helper")) },
			Turn: Code(
				spawn(8192, abi.ChildShared, 8208, 64), spawn(8200, 0, 8400, capacity),
				I32Const(8272), I32Const(64), Call(1), Drop,
				I32Const(0), I32Const(0), I32Const(8192), I32Const(144), Call(2), Drop, I32Const(0),
			),
		}
	}
	for _, c := range []struct {
		capacity int32
		refuse   abi.Code
		want     [2]int64
		id, why  string
		spawned  []string
	}{
		{64, 0, [2]int64{8, 8}, "\x01child-1", "", []string{"Helper with flags 1", "Helper with flags 0"}},
		{63, 0, [2]int64{8, -2}, "\x01child-1", "the buffer for the ID has fewer than 64 bytes", []string{"Helper with flags 1"}},
		{64, abi.CodeTooMany, [2]int64{-9, -9}, "", "too many", nil},
	} {
		calls := newCalls()
		calls.RefuseLife = c.refuse
		if c.refuse != 0 {
			calls.Why = c.why
		}
		if err := instantiate(t, e, guest(c.capacity).Bytes()).Run(context.Background(), frame("{}"), calls); err != nil {
			t.Fatal(err)
		}
		reply := calls.reply.Data
		got := [2]int64{int64(binary.LittleEndian.Uint64(reply)), int64(binary.LittleEndian.Uint64(reply[8:]))}
		text := func(at int) string { return strings.TrimRight(string(reply[at:at+64]), "\x00") }
		if id, why := text(16), text(80); got != c.want || id != c.id || why != c.why || !slices.Equal(calls.Spawned, c.spawned) {
			t.Errorf("%d, %d: got %v %q %q, spawned %q", c.capacity, c.refuse, got, id, why, calls.Spawned)
		}
	}
}
