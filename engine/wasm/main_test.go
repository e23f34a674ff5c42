package wasm

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine/enginetest"
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

// newEngine makes an engine; see [enginetest.Config].
func newEngine(tb testing.TB, cfg Config) *Engine {
	tb.Helper()
	cfg.EngineConfig = enginetest.Config(tb, cfg.EngineConfig)
	e, err := New(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	enginetest.CloseAtEnd(tb, e, func() (int64, int64) { return e.Stats().Instances, e.Stats().MemoryBytes })
	return e
}

const testMemory = 16 << 20

func instantiate(tb testing.TB, e *Engine, wasm []byte) *instance {
	tb.Helper()
	return enginetest.NewInstance(tb, enginetest.Load(tb, e, wasm), testMemory).(*instance)
}

func frame(payload string) *abi.Turn {
	return &abi.Turn{
		What: abi.WhatMethod, App: "default", Type: "T", ID: "1", Method: "Do", InvocationID: "inv",
		TimeUnixNano: 1, Payload: []byte(payload),
	}
}
