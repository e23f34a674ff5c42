package extism

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	"github.com/greenroom-run/greenroom/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

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

const testMemory = 8 << 20

func instantiate(tb testing.TB, p engine.Program) *instance {
	tb.Helper()
	return enginetest.NewInstance(tb, p, testMemory).(*instance)
}

func frame(id, method, payload string) *abi.Turn {
	return &abi.Turn{
		What: abi.WhatMethod, App: "default", Type: "T", ID: id, Method: method, InvocationID: "inv",
		TimeUnixNano: 1, Payload: []byte(payload),
	}
}

// plugin reads what build/extism/setup.sh built.
func plugin(tb testing.TB, name string) []byte {
	tb.Helper()
	wasm, err := os.ReadFile("../../.cache/extism/" + name + ".wasm")
	if err != nil {
		tb.Fatalf("%v: run make setup, which builds the plug-ins", err)
	}
	return wasm
}
