package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// goGuest builds a guest of standard Go, once per process.
var goGuest = func() func(tb testing.TB, dir string) []byte {
	var mu sync.Mutex
	built := map[string][]byte{}
	return func(tb testing.TB, dir string) []byte {
		tb.Helper()
		if testing.Short() {
			tb.Skip("builds a guest")
		}
		mu.Lock()
		defer mu.Unlock()
		if wasm := built[dir]; wasm != nil {
			return wasm
		}
		out := filepath.Join(tb.TempDir(), "guest.wasm")
		if _, err := guestbuild.Build(context.Background(), guestbuild.Request{Dir: dir, Out: out, Toolchain: "go"}); err != nil {
			tb.Fatal(err)
		}
		wasm, err := os.ReadFile(out)
		if err != nil {
			tb.Fatal(err)
		}
		built[dir] = wasm
		return wasm
	}
}()

const (
	counterDir = "../../examples/counter"
	troubleDir = "testdata/trouble"
)

func guestEngine(tb testing.TB) *Engine {
	tb.Helper()
	return newEngine(tb, Config{EngineConfig: compile.EngineConfig{Compiler: enginetest.InChildren(tb, compile.Config{Dir: compiledGuests})}})
}

func call(id, method, payload string) *abi.Turn {
	return &abi.Turn{What: abi.WhatMethod, App: "default", Type: "Counter", ID: id, Method: method,
		InvocationID: "i", TimeUnixNano: 1, Payload: []byte(payload)}
}

func TestCounter(t *testing.T) {
	e := guestEngine(t)
	wasm := goGuest(t, counterDir)
	m, found, err := e.Inspect(context.Background(), bytes.NewReader(wasm))
	if err != nil || len(found) > 0 {
		t.Fatalf("%v, %v", found, err)
	}
	if len(m.Types) != 1 || m.Types[0].Name != "Counter" {
		t.Fatalf("manifest %+v", m)
	}
	p := enginetest.Load(t, e, wasm)
	i, err := p.NewInstance(context.Background(), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close(context.Background())

	// Two actors by turns on one instance: neither sees the other.
	actors := map[string]*fakeCalls{"a": newCalls(), "b": newCalls()}
	for n := 1; n <= 50; n++ {
		for id, amount := range map[string]int{"a": 1, "b": 100} {
			c := actors[id]
			c.revision = uint64(n)<<32 + uint64(amount) // never the same for two actors
			if err := i.Run(context.Background(), call(id, "Add", fmt.Sprintf(`{"amount":%d}`, amount)), c); err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf(`{"count":%d}`, n*amount); string(c.reply.Data) != want {
				t.Fatalf("actor %s replied %s, want %s", id, c.reply.Data, want)
			}
		}
	}
	if got := string(actors["a"].state["count"]); got != "50" {
		t.Errorf("state %q", actors["a"].state)
	}
	err = i.Run(context.Background(), call("a", "Add", `{"amount":9223372036854775807}`), actors["a"])
	var ge *actor.GuestError
	if !errors.As(err, &ge) || ge.Code != "overflow" {
		t.Errorf("got %v", err)
	}
	if err := i.Run(context.Background(), call("a", "Add", `{"amount":"one"}`), actors["a"]); !errors.As(err, &ge) || ge.Status != 3 {
		t.Errorf("wrong JSON: %v", err)
	}
	if err := i.Run(context.Background(), call("a", "Get", ``), actors["a"]); err != nil || string(actors["a"].reply.Data) != `{"count":50}` {
		t.Errorf("after errors: %v, %s", err, actors["a"].reply.Data)
	}
}

func TestTrouble(t *testing.T) {
	e := guestEngine(t)
	p := enginetest.Load(t, e, goGuest(t, troubleDir))
	for _, tc := range []struct {
		method string
		kind   actor.TrapKind
		is     error
		text   string
	}{
		{"Panic", actor.TrapUnreachable, nil, "panic: everything is lost"},
		{"NilMap", actor.TrapUnreachable, nil, "panic: assignment to entry in nil map"},
		{"Exit", actor.TrapUnreachable, nil, "the guest exited with code 3"},
		{"Recurse", actor.TrapMemory, nil, "above its limit of 16777216: "}, // Go's stacks lie in the guest's memory,
		{"Hoard", actor.TrapMemory, nil, "above its limit of 16777216: "},
		{"Loop", "", actor.ErrDeadline, ""},
	} {
		t.Run(tc.method, func(t *testing.T) {
			i, err := p.NewInstance(context.Background(), testMemory)
			if err != nil {
				t.Fatal(err)
			}
			defer i.Close(context.Background())
			limit := 10 * time.Minute
			if tc.is != nil {
				limit = 100 * time.Millisecond
			}
			turn := call("a", tc.method, "")
			turn.Type = "Trouble"
			err = i.Run(enginetest.Deadline(t, limit), turn, newCalls())
			var trap *actor.TrapError
			if tc.is != nil && !errors.Is(err, tc.is) || tc.is == nil && (!errors.As(err, &trap) || trap.Kind != tc.kind) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %T: %v", err, err)
			}
		})
	}
}

func TestPrintIsLogged(t *testing.T) {
	e := guestEngine(t)
	i, err := enginetest.Load(t, e, goGuest(t, troubleDir)).NewInstance(context.Background(), 32<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close(context.Background())
	calls := newCalls()
	turn := call("a", "Print", "")
	turn.Type = "Trouble"
	if err := i.Run(context.Background(), turn, calls); err != nil {
		t.Fatal(err)
	}
	if want := []logLine{{0, "to stdout"}, {4, "to stderr, without an end"}}; !slices.Equal(calls.logs, want) {
		t.Errorf("got %q", calls.logs)
	}
}

// The same turn gives the same answer, on a fresh instance and on a used one,
// and sees nothing of the machine.
func TestDeterminism(t *testing.T) {
	e := guestEngine(t)
	p := enginetest.Load(t, e, goGuest(t, troubleDir))
	var answers []string
	for range 2 {
		i, err := p.NewInstance(context.Background(), 32<<20)
		if err != nil {
			t.Fatal(err)
		}
		defer i.Close(context.Background())
		for range 2 {
			calls := newCalls()
			turn := call("a", "Environment", "")
			turn.Type = "Trouble"
			turn.TimeUnixNano = calls.clock.UnixNano()
			if err := i.Run(enginetest.Deadline(t, 10*time.Minute), turn, calls); err != nil {
				t.Fatal(err)
			}
			answers = append(answers, string(calls.reply.Data))
		}
	}
	for _, a := range answers {
		if a != answers[0] {
			t.Errorf("answers differ:\n%s\n%s", answers[0], a)
		}
	}
	var got struct {
		Now, Ctx, Random string
		Slept, Files     bool
		Args, Env        int
	}
	if err := json.Unmarshal([]byte(answers[0]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Now != "2026-01-02T03:04:05.000000006Z" || got.Ctx != got.Now || !got.Slept || !got.Files || got.Args > 0 || got.Env > 0 {
		t.Errorf("got %s", answers[0])
	}
}

func BenchmarkInstantiateGo(b *testing.B) {
	e := guestEngine(b)
	p := enginetest.Load(b, e, goGuest(b, counterDir))
	for b.Loop() {
		i, err := p.NewInstance(context.Background(), 64<<20)
		if err != nil {
			b.Fatal(err)
		}
		i.Close(context.Background())
	}
}
