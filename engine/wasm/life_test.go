package wasm

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/greenroom-run/greenroom/abi"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// living sends the frame at 2048, spawns an actor of the type at 6144 into a buffer of capacity
// bytes, becomes and claims and releases what the type is called, and passes away. It replies
// with the results, and behind them the ID and why the last was refused.
func living(frame []byte, typ string, capacity int32) Guest {
	store, wide := []byte{0x36, 2, 0}, []byte{0x37, 3, 0} // i32.store, i64.store
	name := Code(I32Const(6144), I32Const(int32(len(typ))))
	return Guest{
		Imports: []Import{
			Host("send", "ii", "i"), Host("spawn", "iiii", "l"), Host("become", "ii", "i"), Host("pass_away", "", "i"),
			Host("service_claim", "ii", "i"), Host("service_release", "ii", "i"), Host("problem", "ii", "l"), Host("reply", "iiii", "i"),
		},
		More: func(b *Builder) { b.Data(2048, frame); b.Data(6144, []byte(typ)) },
		Turn: Code(
			I32Const(8192), name, I32Const(8224), I32Const(capacity), Call(1), wide,
			I32Const(8204), name, Call(2), store,
			I32Const(8208), name, Call(4), store,
			I32Const(8212), name, Call(5), store,
			I32Const(8216), Call(3), store,
			I32Const(8200), I32Const(2048), I32Const(int32(len(frame))), Call(0), store,
			I32Const(8320), I32Const(256), Call(6), Drop,
			I32Const(0), I32Const(0), I32Const(8192), I32Const(384), Call(7), Drop, I32Const(0),
		),
	}
}

func TestLifeFunctions(t *testing.T) {
	e := newEngine(t, Config{})
	type outcome struct {
		Spawn                                int64
		Send, Become, Claim, Release, Passed int32
		ID, Problem                          string
	}
	ran := func(g Guest, calls *fakeCalls) outcome {
		t.Helper()
		i := instantiate(t, e, g.Bytes())
		if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
			t.Fatal(err)
		}
		memory, _ := i.mod.Memory().Read(0, i.mod.Memory().Size())
		clear(memory)
		reply := calls.reply.Data
		at := func(n int) int32 { return int32(binary.LittleEndian.Uint32(reply[n:])) }
		text := func(n, size int) string { return strings.TrimRight(string(reply[n:n+size]), "\x00") }
		return outcome{int64(binary.LittleEndian.Uint64(reply)), at(8), at(12), at(16), at(20), at(24), text(32, 64), text(128, 256)}
	}
	message := abi.Message{
		Type: "Order", ID: "7", Method: "Ship", Payload: []byte("5"), DueUnixNano: 5, Undelivered: "NotShipped", Cookie: math.MaxUint64,
		ForwardType: "Depot", ForwardID: "north", OnBehalfType: "Cart", OnBehalfID: "ada",
	}
	encoded := abi.AppendMessage(nil, &message)
	for name, tc := range map[string]struct {
		frame    []byte
		capacity int32
		refuse   abi.Code
		want     outcome
		sent     []abi.Message
	}{
		"done": {encoded, 64, 0, outcome{Spawn: 9, Release: 1, ID: "spawned-1"}, []abi.Message{message}},
		"malformed, and a buffer that could be too small": {encoded[:len(encoded)-1], 63, 0, outcome{Spawn: -2, Send: -2, Release: 1, Problem: "message frame, byte 113: tag 17 claims 3 bytes, 2 are left"}, nil},
		"refused": {encoded, 64, abi.CodeTaken, outcome{Spawn: -10, Send: -10, Become: -10, Claim: -10, Release: -10, Passed: -10, Problem: "why"}, nil},
	} {
		calls := newCalls()
		calls.RefuseLife = tc.refuse
		if tc.refuse != 0 {
			calls.Why = "why"
		}
		if diff := cmp.Diff(tc.want, ran(living(tc.frame, "Order", tc.capacity), calls)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		// What the host keeps is no part of the guest's memory.
		if diff := cmp.Diff(tc.sent, calls.Sent); diff != "" {
			t.Errorf("%s: sent %s", name, diff)
		}
		if done := tc.refuse == 0; calls.Passed != done || (calls.MethodSet == "Order") != done || (len(calls.Spawned) == 1) != (tc.want.Spawn > 0) {
			t.Errorf("%s: %+v", name, calls.Life)
		}
	}

	ended := errors.New("the store has gone")
	calls := newCalls()
	calls.SendErr = ended
	err := instantiate(t, e, living(encoded, "Order", 64).Bytes()).Run(context.Background(), frame("{}"), calls)
	if !errors.Is(err, ended) || strings.Contains(err.Error(), "panic") {
		t.Errorf("error %v", err)
	}
}
