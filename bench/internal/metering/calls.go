package metering

import (
	"context"
	"os"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/wasm"
)

// calls is a turn without a host: a counter's state, always the same. A guest
// that asks for more than these meets a nil function.
type calls struct {
	engine.Calls
	fuel engine.Fuel
}

var count = []byte("1")

func (*calls) StateGet([]byte) ([]byte, abi.Format, abi.Code)  { return count, abi.FormatJSON, 0 }
func (*calls) StateSet([]byte, []byte, abi.Format) abi.Code    { return 0 }
func (*calls) StateJSON() ([]byte, abi.Code)                   { return []byte(`{"count":1}`), 0 }
func (*calls) StatePatch(before, after []byte) (int, abi.Code) { return 1, 0 }
func (*calls) StateRevision() uint64                           { return 1 }
func (*calls) Reply(string, []byte) abi.Code                   { return 0 }
func (*calls) Log(int32, string)                               {}
func (*calls) Now() time.Time                                  { return time.Unix(0, 0) }
func (c *calls) Fuel() *engine.Fuel                            { return &c.fuel }

// turn is the frame of a turn.
func turn(id, method, payload string) *abi.Turn {
	return &abi.Turn{What: abi.WhatMethod, App: actor.DefaultApp, Type: "Counter", ID: id, Method: method,
		InvocationID: "bench", TimeUnixNano: 1, Payload: []byte(payload)}
}

// memoryLimit is that of guests here, the host's default.
const memoryLimit = 64 << 20

// load compiles a module that is in memory.
func load(ctx context.Context, e *wasm.Engine, module []byte) (engine.Program, error) {
	return e.Load(ctx, actor.DigestOf(module), func(context.Context) ([]byte, error) { return module, nil })
}

func loadFile(ctx context.Context, e *wasm.Engine, path string) (engine.Program, error) {
	module, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return load(ctx, e, module)
}
