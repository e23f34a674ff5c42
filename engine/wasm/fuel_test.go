package wasm

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// rounds is a turn that runs body n times.
func rounds(n int32, body ...byte) []byte {
	return Code(I32Const(n), LocalSet(2), Loop(Code(body,
		LocalGet(2), I32Const(1), I32Sub, LocalSet(2), LocalGet(2), 0x0d, 0)...), I32Const(0))
}

// The same turn uses the same fuel, on any instance, and a limit of exactly that
// is enough.
func TestFuelIsExact(t *testing.T) {
	e := newEngine(t, Config{})
	wasm := Guest{Turn: rounds(1_000_000)}.Bytes()
	var used []uint64
	for range 3 {
		calls := newCalls()
		if err := instantiate(t, e, wasm).Run(context.Background(), frame("{}"), calls); err != nil {
			t.Fatal(err)
		}
		used = append(used, calls.fuel.Used)
	}
	if used[0] < 1_000_000 || len(slices.Compact(used)) != 1 {
		t.Fatalf("used %v", used)
	}
	for limit, enough := range map[uint64]bool{used[0]: true, used[0] - 1: false, 1: false} {
		calls := newCalls()
		calls.fuel.Limit = limit
		err := instantiate(t, e, wasm).Run(context.Background(), frame("{}"), calls)
		var out *actor.FuelError
		if enough && err != nil || !enough && !errors.As(err, &out) {
			t.Fatalf("limit %d: %v", limit, err)
		}
		if !enough && (out.Limit != limit || out.Used <= limit || out.Used > used[0] || calls.fuel.Used != out.Used) {
			t.Errorf("limit %d: %+v, account %+v", limit, out, calls.fuel)
		}
	}
}

// What a run before used of a turn's fuel is gone.
func TestFuelOfSeveralRuns(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, e, Guest{Turn: rounds(1000)}.Bytes())
	calls := newCalls()
	if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
		t.Fatal(err)
	}
	calls.fuel.Limit = calls.fuel.Used + 10
	var out *actor.FuelError
	if err := i.Run(context.Background(), frame("{}"), calls); !errors.As(err, &out) || out.Limit != calls.fuel.Limit || out.Used <= out.Limit {
		t.Errorf("got %v", err)
	}
}

// Whatever goes on without an end is stopped by fuel and by time.
func TestRunaways(t *testing.T) {
	e := newEngine(t, Config{})
	keys := func(b *Builder) { b.Data(2048, []byte("{}")) }
	for name, g := range map[string]Guest{
		"loop":      {Turn: Code(Forever(), I32Const(0))},
		"host call": {Imports: []Import{Host("state_revision", "", "l")}, Turn: Code(Loop(Code(Call(0), Drop, Again())...), I32Const(0))},
		"patches": {Imports: []Import{Host("state_patch", "iiii", "i")}, More: keys,
			Turn: Code(Loop(Code(I32Const(2048), I32Const(2), I32Const(2048), I32Const(2), Call(0), Drop, Again())...), I32Const(0))},
		"random": {Imports: []Import{Func("wasi_snapshot_preview1", "random_get", "ii", "i")}, Pages: 200,
			Turn: Code(Loop(Code(I32Const(0), I32Const(12<<20), Call(0), Drop, Again())...), I32Const(0))},
		"sleep": {Imports: []Import{Func("wasi_snapshot_preview1", "sched_yield", "", "i")},
			Turn: Code(Loop(Code(Call(0), Drop, Again())...), I32Const(0))},
		// One call each: what is done within it is stopped.
		"poll": {Imports: []Import{Func("wasi_snapshot_preview1", "poll_oneoff", "iiii", "i")}, Pages: 200,
			Turn: Code(Loop(Code(I32Const(0), I32Const(1<<20), I32Const(200_000), I32Const(0), Call(0), Drop, Again())...), I32Const(0))},
		"print": {Imports: []Import{Func("wasi_snapshot_preview1", "fd_write", "iiii", "i")}, Pages: 200,
			Turn: Code(I32Const(4), I32Const(12<<20), Store(), Loop(Code(I32Const(1), I32Const(0), I32Const(1_000_000), I32Const(0), Call(0), Drop, Again())...), I32Const(0))},
		"fill":   {Pages: 200, Turn: Code(Loop(Code(I32Const(0), I32Const(7), I32Const(12<<20), []byte{0xfc, 11, 0}, Again())...), I32Const(0))},
		"copy":   {Pages: 200, Turn: Code(Loop(Code(I32Const(0), I32Const(6<<20), I32Const(6<<20), []byte{0xfc, 10, 0, 0}, Again())...), I32Const(0))},
		"growth": {Turn: Code(Loop(Code(I32Const(1), MemoryGrow(), Drop, Again())...), I32Const(0))},
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t, e, g.Bytes())
			for _, limit := range []uint64{0, 3_000_000} {
				i, err := p.NewInstance(context.Background(), testMemory)
				if err != nil {
					t.Fatal(err)
				}
				calls := newCalls()
				calls.fuel.Limit = limit
				ctx := deadline(t, 10*time.Minute)
				if limit == 0 {
					ctx = deadline(t, 20*time.Millisecond)
				}
				err = i.Run(ctx, frame("{}"), calls)
				var out *actor.FuelError
				if limit == 0 && !errors.Is(err, actor.ErrDeadline) || limit > 0 && !errors.As(err, &out) {
					t.Errorf("limit %d: %v", limit, err)
				}
				if calls.fuel.Used <= limit {
					t.Errorf("limit %d: used %d", limit, calls.fuel.Used)
				}
				i.Close(context.Background())
			}
		})
	}
}

// recursive calls itself as often as the number in the frame's place says.
func recursive(depth int32) Guest {
	return Guest{Turn: Code(I32Const(depth), Call(3)), More: func(b *Builder) {
		b.Func("down", []byte{I32}, []byte{I32}, 8, Code(
			LocalGet(0), If(Code(LocalGet(0), I32Const(1), I32Sub, Call(3), Drop)...), I32Const(0))...)
		b.Custom("name", slices.Concat([]byte{1}, U32(7), []byte{1, 3, 4}, []byte("down")))
	}}
}

// A guest may recurse deep, and one that goes too deep is told; neither takes
// much of the host's memory.
func TestDepth(t *testing.T) {
	e := newEngine(t, Config{})
	if err := instantiate(t, e, recursive(confine.MaxDepth-100).Bytes()).Run(context.Background(), frame(""), newCalls()); err != nil {
		t.Fatal(err)
	}
	i := instantiate(t, e, recursive(1<<30).Bytes())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := i.Run(context.Background(), frame(""), newCalls())
	runtime.ReadMemStats(&after)
	var trap *actor.TrapError
	if !errors.As(err, &trap) || trap.Kind != actor.TrapStack || !strings.Contains(trap.Message, "more than 10000 deep") || !strings.Contains(trap.Stack, "down") {
		t.Fatalf("got %#v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("the recursion took %d bytes of the host's memory", took)
	}
}

// nestedCalls enters the instance again from a host function.
type nestedCalls struct {
	*fakeCalls
	within func()
}

func (c *nestedCalls) StateVersion() uint64 { c.within(); return 1 }

func TestReentrantEntry(t *testing.T) {
	e := newEngine(t, Config{})
	// A turn counts at 4096, enters again while the frame's size is above that of
	// the empty payload, works, and checks that its frame is as it was.
	g := Guest{Imports: []Import{Host("state_version", "", "l"), Host("reply", "iiii", "i")},
		Turn: Code(
			I32Const(4096), I32Const(4096), Load8(), I32Const(1), I32Add, Store(),
			Call(0), Drop,
			I32Const(1000), LocalSet(2), Loop(Code(LocalGet(2), I32Const(1), I32Sub, LocalSet(2), LocalGet(2), 0x0d, 0)...),
			I32Const(0), I32Const(0), LocalGet(0), LocalGet(1), Call(1), Drop, // replies with its frame
			I32Const(0))}
	const deepest = 5
	i := instantiate(t, e, g.Bytes())
	var levels []*nestedCalls
	var enter func(n int)
	enter = func(n int) {
		calls := &nestedCalls{newCalls(), func() {
			if n < deepest {
				enter(n + 1)
			}
		}}
		levels = append(levels, calls)
		turn := frame(strings.Repeat("x", n))
		if err := i.Run(context.Background(), turn, calls); err != nil {
			t.Fatal(n, err)
		}
		if want := abi.AppendTurn(nil, turn); string(calls.reply.Data) != string(want) {
			t.Errorf("level %d: its frame became %q", n, calls.reply.Data)
		}
	}
	for range 2 { // the levels are used again
		levels = nil
		enter(0)
		for _, l := range levels[1:] {
			if l.fuel.Used == 0 || l.fuel.Used > 2*levels[deepest].fuel.Used {
				t.Errorf("levels used %d, the innermost %d", l.fuel.Used, levels[deepest].fuel.Used)
			}
		}
	}
	if got, _ := i.mod.Memory().ReadByte(4096); got != 2*(deepest+1) {
		t.Errorf("%d turns left a trace", got)
	}
}

// A trap within ends the turns around it, and a limit within is that turn's.
func TestReentrantFailures(t *testing.T) {
	e := newEngine(t, Config{})
	g := Guest{Imports: []Import{Host("state_version", "", "l")},
		// Enters again; within, with a longer frame, traps.
		Turn: Code(LocalGet(1), I32Const(150), 0x4b, If(Unreachable), Call(0), Drop, I32Const(0))}
	i := instantiate(t, e, g.Bytes())
	var inner error
	outer := i.Run(context.Background(), frame(""), &nestedCalls{newCalls(), func() {
		inner = i.Run(context.Background(), frame(strings.Repeat("x", 200)), newCalls())
	}})
	var trap *actor.TrapError
	if !errors.As(inner, &trap) || !errors.As(outer, &trap) || !strings.Contains(outer.Error(), "back into the same") {
		t.Errorf("inner %v, outer %v", inner, outer)
	}

	i = instantiate(t, e, Guest{Imports: []Import{Host("state_version", "", "l")}, Turn: Code(Call(0), Drop, I32Const(0))}.Bytes())
	other := frame("")
	other.ID = "2"
	err := i.Run(context.Background(), frame(""), &nestedCalls{newCalls(), func() {
		inner = i.Run(context.Background(), other, newCalls())
	}})
	if err != nil || inner == nil {
		t.Errorf("another actor's turn within: %v; the outer one: %v", inner, err)
	}
}
