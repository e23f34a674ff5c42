package wasm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// calling calls with the frame at 2048, asks for the result twice, first without a buffer, and
// replies with what it got: the three numbers, and the result.
func calling(frame []byte) Guest {
	store := []byte{0x37, 3, 0} // i64.store
	return Guest{
		Imports: []Import{Host("call", "ii", "l"), Host("call_result", "ii", "l"), Host("reply", "iiii", "i")},
		More:    func(b *Builder) { b.Data(2048, frame) },
		Turn: Code(
			I32Const(8192), I32Const(2048), I32Const(int32(len(frame))), Call(0), store,
			I32Const(8200), I32Const(0), I32Const(0), Call(1), store,
			I32Const(8208), I32Const(8216), I32Const(256), Call(1), store,
			I32Const(0), I32Const(0), I32Const(8192), I32Const(24+256), Call(2), Drop, I32Const(0),
		),
	}
}

// loopingAfterCall calls and then runs without end.
func loopingAfterCall(frame []byte) Guest {
	return Guest{
		Imports: []Import{Host("call", "ii", "l")},
		More:    func(b *Builder) { b.Data(2048, frame) },
		Turn:    Code(I32Const(2048), I32Const(int32(len(frame))), Call(0), Drop, Forever(), I32Const(0)),
	}
}

func TestCallFunctions(t *testing.T) {
	e := newEngine(t, Config{})
	message := abi.Message{Type: "Account", ID: "bob", Method: "Deposit", Payload: []byte("5"), LimitMillis: 100}
	encoded := abi.AppendMessage(nil, &message)
	calls := newCalls()
	calls.Result = abi.Result{ContentType: "text/plain", Payload: []byte("12")}
	want := abi.AppendResult(nil, &calls.Result)
	i := instantiate(t, e, calling(encoded).Bytes())
	if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
		t.Fatal(err)
	}
	got := calls.reply.Data
	if n := int(got[0]); n != len(want) || int(got[8]) != n || int(got[16]) != n || string(got[24:24+n]) != string(want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if len(calls.Called) != 1 || string(abi.AppendMessage(nil, &calls.Called[0])) != string(encoded) {
		t.Errorf("called %+v", calls.Called)
	}
	memory, _ := i.mod.Memory().Read(0, i.mod.Memory().Size())
	clear(memory)
	if calls.Called[0].ID != "bob" {
		t.Error("the message is the guest's memory")
	}

	// What the turn has used is known while it calls, and it may be left less.
	calls, used := newCalls(), uint64(0)
	calls.fuel.Limit = 1_000_000
	calls.During = func() {
		used = calls.fuel.Running
		calls.fuel.Limit = used + 1_000
	}
	i = instantiate(t, e, calling(encoded).Bytes())
	if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
		t.Error(err)
	}
	if f := calls.fuel; used == 0 || f.Running != 0 || f.Used <= used {
		t.Errorf("%d used before the call, and then %+v", used, f)
	}
	calls = newCalls()
	calls.During = func() { calls.fuel.Limit = 1 } // and nothing else bounds it
	i = instantiate(t, e, loopingAfterCall(encoded).Bytes())
	if err := i.Run(context.Background(), frame("{}"), calls); !errors.As(err, new(*actor.FuelError)) {
		t.Errorf("a turn that loops when nothing is left ends with %v", err)
	}

	for name, tc := range map[string]struct {
		frame  []byte
		refuse abi.Code
		want   int64
	}{
		"malformed": {[]byte("no frame"), 0, int64(abi.CodeInvalid)},
		"read-only": {encoded, abi.CodeReadOnly, int64(abi.CodeReadOnly)},
	} {
		calls := newCalls()
		calls.RefuseCalls = tc.refuse
		i := instantiate(t, e, calling(tc.frame).Bytes())
		if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
			t.Fatal(name, err)
		}
		if got := calls.reply.Data; int64(int8(got[0])) != tc.want || int8(got[8]) != int8(abi.CodeNotFound) {
			t.Errorf("%s: got %v", name, got[:24])
		}
	}

	ended := errors.New("the chain has ended")
	calls = newCalls()
	calls.CallErr = ended
	err := instantiate(t, e, calling(encoded).Bytes()).Run(context.Background(), frame("{}"), calls)
	if !errors.Is(err, ended) || strings.Contains(err.Error(), "panic") {
		t.Errorf("error %v", err)
	}
}
