package wasm

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// TestHostWatch: a guest watches the host of an actor, watches it anew, and ends that. It replies
// with the three results, and why the last was refused.
func TestHostWatch(t *testing.T) {
	e := newEngine(t, Config{})
	store, actor := []byte{0x36, 2, 0}, Code(I32Const(2048), I32Const(4), I32Const(2052), I32Const(2)) // i32.store
	watch := func(at, methodLen int32) []byte {
		return Code(I32Const(at), actor, I32Const(2054), I32Const(methodLen), Call(0), store)
	}
	g := Guest{
		Imports: []Import{Host("host_watch", "iiiiii", "i"), Host("problem", "ii", "l"), Host("reply", "iiii", "i")},
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
		if why := strings.TrimRight(string(reply[16:]), "\x00"); got != c.want || why != c.why || len(calls.Watched) != 0 {
			t.Errorf("%d: got %v %q, watched %v", c.refuse, got, why, calls.Watched)
		}
	}
}
