package wasm

import (
	"context"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// The engine's own share of a turn and of an instance: the guest does nothing.

func BenchmarkInstantiate(b *testing.B) {
	e := newEngine(b, Config{})
	p := enginetest.Load(b, e, Guest{}.Bytes())
	b.ReportAllocs()
	for b.Loop() {
		i, err := p.NewInstance(context.Background(), 64<<20)
		if err != nil {
			b.Fatal(err)
		}
		i.Close(context.Background())
	}
}

func BenchmarkTurn(b *testing.B) {
	e := newEngine(b, Config{})
	i := instantiate(b, e, Guest{}.Bytes())
	calls, turn := newCalls(), frame("{}")
	b.ReportAllocs()
	for b.Loop() {
		if err := i.Run(context.Background(), turn, calls); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSwitch runs the turns of two actors by turns on one instance, which is
// reset for each.
func BenchmarkSwitch(b *testing.B) {
	e := newEngine(b, Config{})
	switchActors(b, instantiate(b, e, Guest{}.Bytes()), frame("{}"))
}

func switchActors(b *testing.B, i engine.Instance, turn *abi.Turn) {
	b.Helper()
	calls, ids := newCalls(), []string{"1", "2"}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		turn.ID = ids[n%2]
		if err := i.Run(context.Background(), turn, calls); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHostCall makes 1,000 calls of a host function in a turn.
func BenchmarkHostCall(b *testing.B) {
	e := newEngine(b, Config{})
	i := instantiate(b, e, Guest{
		Imports: []Import{Host("state_revision", "", "l")},
		Turn: Code(I32Const(1000), LocalSet(2), Loop(Code(Call(0), Drop,
			LocalGet(2), I32Const(1), I32Sub, LocalSet(2), LocalGet(2), 0x0d, 0)...), I32Const(0)),
	}.Bytes())
	calls, turn := newCalls(), frame("{}")
	for b.Loop() {
		if err := i.Run(context.Background(), turn, calls); err != nil {
			b.Fatal(err)
		}
	}
}
