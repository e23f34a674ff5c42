package wasm

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/enginetest"
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
			p := enginetest.Load(t, e, g.Bytes())
			for _, limit := range []uint64{0, 3_000_000} {
				i, err := p.NewInstance(context.Background(), testMemory)
				if err != nil {
					t.Fatal(err)
				}
				calls := newCalls()
				calls.fuel.Limit = limit
				ctx := enginetest.Deadline(t, 10*time.Minute)
				if limit == 0 {
					ctx = enginetest.Deadline(t, 20*time.Millisecond)
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

// enteringCalls runs another turn from a host function.
type enteringCalls struct {
	*fakeCalls
	within func()
}

func (c *enteringCalls) StateVersion() uint64 { c.within(); return 1 }

// An instance is not entered again while it runs a turn, and the turn goes on. A
// turn within takes another instance, also one of the same actor.
func TestInstanceInUseIsNotEntered(t *testing.T) {
	e := newEngine(t, Config{})
	wasm := Guest{Imports: []Import{Host("state_version", "", "l")}, Turn: Code(Call(0), Drop, I32Const(0))}.Bytes()
	i, other := instantiate(t, e, wasm), instantiate(t, e, wasm)
	var again, within error
	err := i.Run(context.Background(), frame(""), &enteringCalls{newCalls(), func() {
		again = i.Run(context.Background(), frame(""), newCalls())
		within = other.Run(context.Background(), frame(""), newCalls())
	}})
	if again == nil || !strings.Contains(again.Error(), "runs a turn") {
		t.Errorf("entered again: %v", again)
	}
	if err != nil || within != nil {
		t.Errorf("the turn: %v, the one within: %v", err, within)
	}
	if err := i.Run(context.Background(), frame(""), newCalls()); err != nil {
		t.Errorf("the next turn: %v", err)
	}
}

// Guests that loop yield their processor, in turns and while an instance is made.
func TestGuestsYield(t *testing.T) {
	e := newEngine(t, Config{})
	loops := instantiate(t, e, Guest{Turn: Code(Forever(), I32Const(0))}.Bytes())
	enginetest.CheckYields(t, func(ctx context.Context) error { return loops.Run(ctx, frame("{}"), newCalls()) })
	p := enginetest.Load(t, e, Guest{Init: Forever()}.Bytes())
	enginetest.CheckYields(t, func(ctx context.Context) error {
		_, err := p.NewInstance(ctx, testMemory)
		return err
	})
}
