package extism

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/enginetest"
)

// The plug-ins of examples/extism-*, written with the PDKs of two languages.

func counter(tb testing.TB) []byte { return plugin(tb, "counter") }

// ledger has its manifest beside it.
func ledger(tb testing.TB) []byte {
	tb.Helper()
	text, err := os.ReadFile("../../examples/extism-ledger/manifest.json")
	if err != nil {
		tb.Fatal(err)
	}
	wasm, err := manifest.Embed(plugin(tb, "ledger"), text)
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

func TestInspectPlugins(t *testing.T) {
	e := newEngine(t, Config{EngineConfig: compile.EngineConfig{Compiler: enginetest.InProcess(t, compile.Config{Dir: t.TempDir()})}})
	for _, tt := range []struct {
		wasm    []byte
		typ     string
		methods []string
	}{
		{counter(t), "Counter", []string{"Add", "Get", "WhoAmI"}},
		{ledger(t), "Ledger", []string{"deposit", "withdraw", "pay", "balance", "note", "report"}},
	} {
		spec, found, err := e.Inspect(context.Background(), bytes.NewReader(tt.wasm))
		if err != nil || len(found) > 0 {
			t.Fatalf("%s: %v %v", tt.typ, found, err)
		}
		var methods []string
		for _, m := range spec.Types[0].Methods {
			methods = append(methods, m.Name)
		}
		if spec.Types[0].Name != tt.typ || !slices.Equal(methods, tt.methods) || spec.Types[0].Placement != abi.PlacementRing {
			t.Errorf("got %+v", spec.Types)
		}
		if !Accepts(tt.wasm) {
			t.Error("it is not recognised")
		}
	}
	if n := e.Stats().Programs; n != 2 {
		t.Errorf("%d programs are kept", n)
	}
}

func TestCounter(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, enginetest.Load(t, e, counter(t)))
	ctx := context.Background()
	actors := map[string]*fakeCalls{"a": newCalls(), "b": newCalls()}
	var fuel uint64
	for n := 1; n <= 5; n++ {
		for id, amount := range map[string]int{"a": 1, "b": 100} {
			c := actors[id]
			c.fuel.Used = 0
			if err := i.Run(ctx, frame(id, "Add", fmt.Sprint(amount)), c); err != nil {
				t.Fatal(err)
			}
			if got, want := string(c.reply.Data), fmt.Sprint(n*amount); got != want {
				t.Fatalf("actor %s replied %s, want %s", id, got, want)
			}
			if fuel = c.fuel.Used; fuel == 0 {
				t.Error("the turn used no fuel")
			}
		}
	}
	a := actors["a"]
	if a.state["count"] != "5" || a.formats["count"] != abi.FormatJSON || !slices.Contains(a.logs, "info: counted to 5") {
		t.Errorf("state %q, logs %q", a.state, a.logs)
	}

	var ge *actor.GuestError
	if err := i.Run(ctx, frame("a", "Add", "-6"), a); !errors.As(err, &ge) || ge.Code != "below_zero" || ge.Status != statusFailedPrecondition || a.failed != ge {
		t.Errorf("below zero: %v", err)
	}
	if err := i.Run(ctx, frame("a", "Add", "much"), a); !errors.As(err, &ge) || ge.Status != statusInvalidArgument {
		t.Errorf("no number: %v", err)
	}
	if err := i.Run(ctx, frame("a", "WhoAmI", ""), a); err != nil || string(a.reply.Data) !=
		`{"app":"default","type":"T","id":"a","method":"WhoAmI","invocation_id":"inv","content_type":"application/json","read_only":false}` {
		t.Errorf("%v, %s", err, a.reply.Data)
	}
	a.readOnly = true
	if err := i.Run(ctx, frame("a", "Add", "1"), a); !errors.As(err, &ge) || ge.Code != "read_only" {
		t.Errorf("a write in a read-only turn: %v", err)
	}
	if err := i.Run(ctx, frame("a", "Get", ""), a); err != nil || string(a.reply.Data) != "5" {
		t.Errorf("after errors: %v, %s", err, a.reply.Data)
	}
}

func TestLedger(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, enginetest.Load(t, e, ledger(t)))
	ctx := context.Background()
	c := newCalls()
	for _, step := range []struct{ method, payload, reply string }{
		{"balance", "", `{"cents":0}`},
		{"deposit", `{"cents":500}`, `{"cents":500}`},
		{"withdraw", `{"cents":200}`, `{"cents":300}`},
		{"balance", "", `{"cents":300}`},
		{"note", "first", "1767323045000000006 "},
		{"note", "zwölf", "1767323045000000006 first"},
		{"note", "third", "1767323045000000006 zwölf"},
	} {
		if err := i.Run(ctx, frame("x", step.method, step.payload), c); err != nil || string(c.reply.Data) != step.reply {
			t.Fatalf("%s: %v, %q; want %s", step.method, err, c.reply.Data, step.reply)
		}
	}
	if want := map[string]string{"cents": "300", "note": "third"}; !reflect.DeepEqual(c.state, want) || c.formats["note"] != abi.FormatBytes {
		t.Errorf("state %q", c.state)
	}
	var ge *actor.GuestError
	err := i.Run(ctx, frame("x", "withdraw", `{"cents":301}`), c)
	if !errors.As(err, &ge) || ge.Code != "overdrawn" || ge.Message != "301 cents are wanted, 300 are there" {
		t.Errorf("overdrawn: %v", err)
	}
	// A message to another ledger.
	if err := i.Run(ctx, frame("x", "pay", `{"to":"y","cents":100}`), c); err != nil || string(c.reply.Data) != `{"cents":200}` {
		t.Errorf("pay: %v, %s", err, c.reply.Data)
	}
	want := []abi.Message{{Type: "Ledger", ID: "y", Method: "deposit", Payload: []byte(`{"cents":100}`), Undelivered: "deposit"}}
	if !reflect.DeepEqual(c.Sent, want) {
		t.Errorf("sent %+v", c.Sent)
	}
	c.RefuseLife = abi.CodeFull
	if err := i.Run(ctx, frame("x", "pay", `{"to":"y","cents":100}`), c); !errors.As(err, &ge) || ge.Code != "inbox_full" || !ge.Retryable {
		t.Errorf("a full inbox: %v", err)
	}
	// The PDK's own errors.
	err = i.Run(ctx, frame("x", "deposit", `{"cents":"all"}`), c)
	if !errors.As(err, &ge) || ge.Status != statusUnknown || !strings.Contains(ge.Message, "expected u32") {
		t.Errorf("wrong JSON: %v", err)
	}
	// Variables are the actor's state, so another actor has none.
	other := newCalls()
	if err := i.Run(ctx, frame("y", "note", "mine"), other); err != nil || strings.Contains(string(other.reply.Data), "third") {
		t.Errorf("another actor: %v, %s", err, other.reply.Data)
	}
	c.readOnly = true
	if err := i.Run(ctx, frame("x", "note", "again"), c); !errors.As(err, &ge) || ge.Code != "read_only" {
		t.Errorf("a variable set in a read-only turn: %v", err)
	}
}

// The same turn uses the same fuel, whatever ran before and on whatever instance.
func TestFuelIsDeterministic(t *testing.T) {
	e := newEngine(t, Config{})
	p := enginetest.Load(t, e, counter(t))
	var first uint64
	for range 2 {
		i := instantiate(t, p)
		for n, id := range []string{"a", "b", "c"} {
			if n > 0 {
				if err := i.Run(context.Background(), frame(id, "Add", "much"), newCalls()); err == nil {
					t.Fatal("no error")
				}
			}
			c := newCalls()
			if err := i.Run(context.Background(), frame(id+"'", "Add", "12"), c); err != nil {
				t.Fatal(err)
			}
			if first == 0 {
				first = c.fuel.Used
			}
			if c.fuel.Used != first {
				t.Errorf("used %d, before %d", c.fuel.Used, first)
			}
		}
	}
	i := instantiate(t, p)
	c := newCalls()
	c.fuel.Limit = first - 1
	var fe *actor.FuelError
	if err := i.Run(context.Background(), frame("a", "Add", "12"), c); !errors.As(err, &fe) || fe.Limit != first-1 {
		t.Errorf("with too little: %v", err)
	}
	c = newCalls()
	c.fuel.Limit = first
	if err := instantiate(t, p).Run(context.Background(), frame("a", "Add", "12"), c); err != nil {
		t.Errorf("with just enough: %v", err)
	}
}

func BenchmarkTurn(b *testing.B) {
	for _, name := range []string{"same actor", "another actor each turn"} {
		b.Run(name, func(b *testing.B) {
			e := newEngine(b, Config{})
			i := instantiate(b, enginetest.Load(b, e, counter(b)))
			calls := newCalls()
			ids := []string{"a", "a"}
			if name != "same actor" {
				ids[1] = "b"
			}
			n := 0
			for b.Loop() {
				n++
				if err := i.Run(context.Background(), frame(ids[n%2], "Get", ""), calls); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
