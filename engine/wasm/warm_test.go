package wasm

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// warming is a guest that replies with what its greenroom_warm left: a global, how
// often it was called, and what the host answered it.
func warming(warm []byte, more func(*Builder)) Guest {
	return Guest{
		Imports: []Import{Host("reply", "iiii", "i"), Host("state_revision", "", "l")},
		Turn: Code(
			I32Const(8192), GlobalGet(1), Store(),
			I32Const(0), I32Const(0), I32Const(8192), I32Const(16), Call(0), Drop,
			// A mark that the next actor must not find.
			GlobalGet(1), I32Const(100), I32Add, GlobalSet(1),
			I32Const(0)),
		More: func(b *Builder) {
			b.Global(0)
			if more != nil {
				more(b)
			}
			b.Func(abi.ExportWarm, nil, nil, 0, warm...)
		},
	}
}

var countAndAsk = Code(
	GlobalGet(1), I32Const(1), I32Add, GlobalSet(1),
	I32Const(8200), Call(1), []byte{0x37, 3, 0}) // i64.store: the host's answer

// What a guest did in greenroom_warm is in every instance and comes back for every
// actor; it was done once, outside of any turn.
func TestWarmIsInTheImage(t *testing.T) {
	e := newEngine(t, Config{})
	p := load(t, e, warming(countAndAsk, nil).Bytes())
	for range 2 {
		i, err := p.NewInstance(context.Background(), testMemory)
		if err != nil {
			t.Fatal(err)
		}
		defer i.Close(context.Background())
		for _, id := range []string{"a", "b", "c"} {
			calls, f := newCalls(), frame("{}")
			f.ID = id
			if err := i.Run(context.Background(), f, calls); err != nil {
				t.Fatal(err)
			}
			got := calls.reply.Data
			if times := binary.LittleEndian.Uint32(got); times != 1 {
				t.Errorf("actor %s: warmed up %d times", id, times)
			}
			if answer := int64(binary.LittleEndian.Uint64(got[8:])); answer != int64(abi.CodeNoTurn) {
				t.Errorf("the host answered %d, want %d", answer, abi.CodeNoTurn)
			}
		}
	}
}

// Where no image can be taken, nothing is warmed up: the guest would pay for it at
// every change of actor.
func TestWarmNeedsAnImage(t *testing.T) {
	e := newEngine(t, Config{})
	growing := func(b *Builder) {
		b.Table(1)
		b.Func("", nil, []byte{I32}, 0, 0xd0, 0x70, 0x41, 0, 0xfc, 15, 0) // table.grow
	}
	i := instantiate(t, e, warming(countAndAsk, growing).Bytes())
	calls := newCalls()
	if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
		t.Fatal(err)
	}
	if times := binary.LittleEndian.Uint32(calls.reply.Data); i.program.detached || times != 0 {
		t.Errorf("detached %v, warmed up %d times", i.program.detached, times)
	}
}

// A module whose greenroom_warm is no good is refused when it is uploaded; one that
// got into a store nevertheless runs without an image.
func TestWarmFails(t *testing.T) {
	for name, tc := range map[string]struct {
		warm    []byte
		timeout time.Duration
		text    string
	}{
		"traps":          {Code(Unreachable), 10 * time.Minute, "fails in greenroom_warm: unreachable"},
		"burns fuel":     {Forever(), 10 * time.Minute, "used more than 1000000000 units of fuel"},
		"takes too long": {Forever(), 50 * time.Millisecond, "did not return within 50ms"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, Config{InspectTimeout: tc.timeout})
			wasm := warming(tc.warm, nil).Bytes()
			_, found, err := e.Inspect(context.Background(), wasm)
			if err != nil || len(found) != 1 || found[0].Code != FaultWarm || !strings.Contains(found[0].Message, tc.text) {
				t.Fatalf("found %q, %v", found, err)
			}
			calls := newCalls()
			if err := instantiate(t, e, wasm).Run(context.Background(), frame("{}"), calls); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Too little memory for an image under one limit says nothing of a larger one.
func TestImageUnderALargerLimit(t *testing.T) {
	e := newEngine(t, Config{})
	grow := Code(I32Const(32), MemoryGrow(), I32Const(-1), 0x46, If(Unreachable))
	p := load(t, e, warming(Code(countAndAsk, grow), nil).Bytes())
	for _, tc := range []struct {
		limit int64
		times uint32
	}{{1 << 20, 0}, {4 << 20, 1}, {1 << 20, 0}} {
		i, err := p.NewInstance(context.Background(), tc.limit)
		if err != nil {
			t.Fatal(err)
		}
		defer i.Close(context.Background())
		calls := newCalls()
		if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
			t.Fatal(err)
		}
		if times := binary.LittleEndian.Uint32(calls.reply.Data); times != tc.times {
			t.Errorf("under %d bytes: warmed up %d times, want %d", tc.limit, times, tc.times)
		}
	}
}
