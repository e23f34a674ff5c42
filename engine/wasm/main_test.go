package wasm

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/internal/leaktest"
)

// compiledGuests is where the tests of real guests share what they compile,
// seconds each.
var compiledGuests string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "greenroom-wasm-test-")
	if err != nil {
		panic(err)
	}
	compiledGuests = dir
	goleak.VerifyTestMain(leaktest.Patient(m), goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// newEngine makes an engine that gives guests far more time to start than they
// need, however busy the machine is, unless cfg says otherwise.
func newEngine(tb testing.TB, cfg Config) *Engine {
	tb.Helper()
	if cfg.InitTimeout == 0 {
		cfg.InitTimeout = 5 * time.Minute
	}
	if cfg.InspectTimeout == 0 {
		cfg.InspectTimeout = 5 * time.Minute
	}
	if cfg.Compiler == nil {
		cfg.Compiler = inProcess(tb, compile.Config{})
	}
	e, err := New(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			tb.Errorf("close engine: %v", err)
		}
		if s := e.Stats(); s.Instances != 0 || s.MemoryBytes != 0 {
			tb.Errorf("after close: %+v", s)
		}
	})
	return e
}

// inProcess makes a compiler for modules that the tests made themselves; those of
// package compile, and of hostile modules, have a real one.
func inProcess(tb testing.TB, cfg compile.Config) *compile.Compiler {
	tb.Helper()
	cfg.InProcess = true
	c, err := compile.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("close compiler: %v", err)
		}
	})
	return c
}

func load(tb testing.TB, e *Engine, wasm []byte) engine.Program {
	tb.Helper()
	p, err := e.Load(context.Background(), actor.DigestOf(wasm), func(context.Context) ([]byte, error) { return wasm, nil })
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

const testMemory = 16 << 20

func instantiate(tb testing.TB, e *Engine, wasm []byte) *instance {
	tb.Helper()
	i, err := load(tb, e, wasm).NewInstance(context.Background(), testMemory)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { i.Close(context.Background()) })
	return i.(*instance)
}

func frame(payload string) *abi.Turn {
	return &abi.Turn{
		What: abi.WhatMethod, App: "default", Type: "T", ID: "1", Method: "Do", InvocationID: "inv",
		TimeUnixNano: 1, Payload: []byte(payload),
	}
}

// deadline is how long a guest of a test may run; what is tested is that it
// stops at all.
func deadline(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	tb.Cleanup(cancel)
	return ctx
}
