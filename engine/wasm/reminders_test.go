package wasm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// reminding sets the frame at 2048, and replies with what a second function, given the
// text at 6144, fills a buffer with.
func reminding(frame []byte, text string, second uint32) Guest {
	ask := Code(I32Const(6144), I32Const(int32(len(text))), I32Const(8192), I32Const(4096), Call(second))
	if second == problemAt {
		ask = Code(I32Const(8192), I32Const(4096), Call(second))
	}
	return Guest{
		Imports: []Import{
			Host("reminder_set", "ii", "i"), Host("reminder_get", "iiii", "l"), Host("reminder_names", "iiii", "l"),
			Host("problem", "ii", "l"), Host("reply", "iiii", "i"), Host("reminder_cancel", "ii", "i"),
		},
		More: func(b *Builder) { b.Data(2048, frame); b.Data(6144, []byte(text)) },
		Turn: Code(I32Const(2048), I32Const(int32(len(frame))), Call(0), Drop, ask, []byte{wrap}, LocalSet(2),
			I32Const(0), I32Const(0), I32Const(8192), LocalGet(2), Call(4), Drop, I32Const(0)),
	}
}

// The places of functions in reminding.
const getAt, namesAt, problemAt = 1, 2, 3

func TestReminderFunctions(t *testing.T) {
	e := newEngine(t, Config{})
	r := abi.Reminder{Name: "n", Method: "Do", Payload: []byte("in"), DelayNano: 5, Cron: "@daily", Metadata: []abi.Header{{Name: "a", Value: "b"}}}
	set := abi.AppendReminder(nil, &r)
	ran := func(g Guest, calls *fakeCalls) string {
		t.Helper()
		i := instantiate(t, e, g.Bytes())
		if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
			t.Fatal(err)
		}
		memory, _ := i.mod.Memory().Read(0, i.mod.Memory().Size())
		clear(memory)
		return string(calls.reply.Data)
	}
	calls := newCalls()
	if got := ran(reminding(set, "n", getAt), calls); got != string(set) {
		t.Errorf("got %q, want %q", got, set)
	}
	// What the host keeps is no part of the guest's memory.
	if kept := calls.Kept["n"]; string(abi.AppendReminder(nil, &kept)) != string(set) {
		t.Errorf("kept %+v", kept)
	}
	if got, want := ran(reminding(set, "", namesAt), calls), abi.AppendKeyList(nil, []string{"n"}); got != string(want) {
		t.Errorf("names %q", got)
	}
	calls = newCalls()
	if got := ran(reminding(set[:len(set)-1], "", problemAt), calls); !strings.Contains(got, "reminder frame") || calls.Kept != nil {
		t.Errorf("the problem of a frame that is cut: %q", got)
	}
	calls = newCalls()
	calls.Refuse, calls.Why = abi.CodeInvalid, "it cannot be"
	if got := ran(reminding(set, "", problemAt), calls); got != "it cannot be" {
		t.Errorf("the problem is %q", got)
	}
	// An error of the host ends the guest.
	stopped := errors.New("run again")
	for _, second := range []uint32{getAt, namesAt} {
		calls = newCalls()
		calls.Err = stopped
		if err := instantiate(t, e, reminding(set, "n", second).Bytes()).Run(context.Background(), frame("{}"), calls); !errors.Is(err, stopped) || calls.reply != nil {
			t.Errorf("got %v, reply %v", err, calls.reply)
		}
	}
}
