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

// TestWatch: a guest watches the host of an actor, or a service, watches it anew, and ends that. It
// replies with the three results, and why the last was refused.
func TestWatch(t *testing.T) {
	t.Run("host_watch", func(t *testing.T) {
		testWatch(t, Host("host_watch", "iiiiii", "i"), Code(I32Const(2048), I32Const(4), I32Const(2052), I32Const(2)), "Room/r1")
	})
	t.Run("service_watch", func(t *testing.T) {
		testWatch(t, Host("service_watch", "iiii", "i"), Code(I32Const(2048), I32Const(6)), "Roomr1")
	})
}

func testWatch(t *testing.T, function Import, name []byte, of string) {
	e := newEngine(t, Config{})
	store := []byte{0x36, 2, 0} // i32.store
	watch := func(at, methodLen int32) []byte {
		return Code(I32Const(at), name, I32Const(2054), I32Const(methodLen), Call(0), store)
	}
	g := Guest{
		Imports: []Import{function, Host("problem", "ii", "l"), Host("reply", "iiii", "i")},
		More:    func(b *Builder) { b.Data(2048, []byte("Room"+"r1"+"Lost")) },
		Turn: Code(
			watch(8192, 4), watch(8196, 4), watch(8200, 0),
			I32Const(8208), I32Const(64), Call(1), Drop,
			I32Const(0), I32Const(0), I32Const(8192), I32Const(80), Call(2), Drop, I32Const(0),
		),
	}
	for _, c := range []struct {
		refuse abi.Code
		want   [3]int32
		why    string
	}{
		{0, [3]int32{0, 1, 1}, ""},
		{abi.CodeTooMany, [3]int32{-9, -9, -9}, "too many"},
	} {
		calls := newCalls()
		calls.RefuseLife, calls.Why = c.refuse, c.why
		if err := instantiate(t, e, g.Bytes()).Run(context.Background(), frame("{}"), calls); err != nil {
			t.Fatal(err)
		}
		reply := calls.reply.Data
		var got [3]int32
		for i := range got {
			got[i] = int32(binary.LittleEndian.Uint32(reply[4*i:]))
		}
		if why := strings.TrimRight(string(reply[16:]), "\x00"); got != c.want || why != c.why || !slices.Equal(calls.Watches, []string{of + " Lost", of + " Lost", of + " "}) || len(calls.Watched) != 0 {
			t.Errorf("%d: got %v %q, watches %v", c.refuse, got, why, calls.Watches)
		}
	}
}
