package wasm

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// timing sets the frame at 2048 twice, cancels the name at 6144, and replies with the
// three results, and behind them why the last was refused.
func timing(frame []byte, name string) Guest {
	set := Code(I32Const(2048), I32Const(int32(len(frame))), Call(0))
	store := []byte{0x36, 2, 0} // i32.store
	return Guest{
		Imports: []Import{Host("timer_set", "ii", "i"), Host("timer_cancel", "ii", "i"), Host("problem", "ii", "l"), Host("reply", "iiii", "i")},
		More:    func(b *Builder) { b.Data(2048, frame); b.Data(6144, []byte(name)) },
		Turn: Code(
			I32Const(8192), set, store, I32Const(8196), set, store,
			I32Const(8200), I32Const(6144), I32Const(int32(len(name))), Call(1), store,
			I32Const(8204), I32Const(256), Call(2), Drop,
			I32Const(0), I32Const(0), I32Const(8192), I32Const(268), Call(3), Drop, I32Const(0),
		),
	}
}

func TestTimerFunctions(t *testing.T) {
	e := newEngine(t, Config{})
	ran := func(g Guest, calls *fakeCalls) (results [3]int32, problem string) {
		t.Helper()
		i := instantiate(t, e, g.Bytes())
		if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
			t.Fatal(err)
		}
		memory, _ := i.mod.Memory().Read(0, i.mod.Memory().Size())
		clear(memory)
		for n := range results {
			results[n] = int32(binary.LittleEndian.Uint32(calls.reply.Data[4*n:]))
		}
		return results, strings.TrimRight(string(calls.reply.Data[12:]), "\x00")
	}
	set := abi.AppendReminder(nil, &abi.Reminder{Name: "n", Method: "Do", Payload: []byte("in"), DelayNano: 5})
	calls := newCalls()
	if got, _ := ran(timing(set, "other"), calls); got != [3]int32{0, 1, 0} {
		t.Errorf("got %v", got)
	}
	// What the host keeps is no part of the guest's memory.
	if kept := calls.Set["n"]; string(abi.AppendReminder(nil, &kept)) != string(set) {
		t.Errorf("kept %+v", kept)
	}
	calls = newCalls()
	if got, _ := ran(timing(set, "n"), calls); got != [3]int32{0, 1, 1} || len(calls.Set) != 0 {
		t.Errorf("got %v", got)
	}
	calls = newCalls()
	calls.RefuseTimers, calls.Why = abi.CodeTooMany, "an actor has so many"
	if got, problem := ran(timing(set, "n"), calls); got != [3]int32{-9, -9, -9} || problem != calls.Why {
		t.Errorf("got %v, %q", got, problem)
	}
	calls = newCalls()
	if got, _ := ran(timing(set[:len(set)-1], "n"), calls); got != [3]int32{-2, -2, 0} || calls.Set != nil {
		t.Errorf("a frame that is cut: %v", got)
	}
}
