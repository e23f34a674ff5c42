package wasm

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	"github.com/greenroom-run/greenroom/engine/guest"
	"github.com/greenroom-run/greenroom/engine/wasi"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// The table has every function of preview 1, as wazero has it, so that any module
// links.
func TestWASIIsComplete(t *testing.T) {
	ctx := context.Background()
	rt := wazero.NewRuntime(ctx)
	defer rt.Close(ctx)
	compiled, err := wasi_snapshot_preview1.NewBuilder(rt).Compile(ctx)
	if err != nil {
		t.Fatal(err)
	}
	theirs := compiled.ExportedFunctions()
	for _, f := range wasi.Functions() {
		def := theirs[f.Name]
		if def == nil {
			t.Errorf("%s is not part of preview 1, or there twice", f.Name)
			continue
		}
		if !bytes.Equal(def.ParamTypes(), f.Params) || !bytes.Equal(def.ResultTypes(), f.Results) {
			t.Errorf("%s is % x -> % x, want % x -> % x", f.Name, f.Params, f.Results, def.ParamTypes(), def.ResultTypes())
		}
		delete(theirs, f.Name)
	}
	for name := range theirs {
		t.Errorf("%s is missing", name)
	}
	if wasi.Module != abi.WASIModule {
		t.Errorf("the module is %s", wasi.Module)
	}
}

// What one actor does to its descriptors does not silence the next one in its
// instance, nor itself.
func TestActorsDoNotShareDescriptors(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, e, Guest{
		Imports: []Import{
			Func(wasi.Module, "fd_write", "iiii", "i"), Func(wasi.Module, "fd_close", "i", "i"), Func(wasi.Module, "fd_renumber", "ii", "i"),
		},
		More: func(b *Builder) { b.Data(2048, append(le32(2056), append(le32(6), "hello\n"...)...)) },
		Turn: Code(
			I32Const(1), I32Const(2048), I32Const(1), I32Const(8192), Call(0), Drop,
			I32Const(1), Call(1), Drop, I32Const(2), Call(1), Drop, I32Const(2), I32Const(1), Call(2), Drop,
			I32Const(2), I32Const(2048), I32Const(1), I32Const(8192), Call(0)),
	}.Bytes())
	for _, id := range []string{"a", "b", "b"} {
		calls, f := newCalls(), frame("{}")
		f.ID = id
		if err := i.Run(context.Background(), f, calls); err != nil {
			t.Fatal(err)
		}
		if want := []logLine{{guest.LevelInfo, "hello"}, {guest.LevelWarn, "hello"}}; !slices.Equal(calls.logs, want) {
			t.Errorf("actor %s logged %q", id, calls.logs)
		}
	}
}

// A start function that the runtime runs, where fuel is out of reach, is stopped
// within a call of the host all the same.
func TestStartFunctionIsChargedForWASI(t *testing.T) {
	e := newEngine(t, Config{EngineConfig: compile.EngineConfig{InitTimeout: 20 * time.Millisecond}})
	g := Guest{
		Imports: []Import{Func(wasi.Module, "fd_write", "iiii", "i")},
		Pages:   1000,
		More: func(b *Builder) {
			b.Table(1)
			b.Func("", nil, []byte{I32}, 0, 0xd0, 0x70, 0x41, 0, 0xfc, 15, 0) // table.grow: the module is not detached
			// Four million vectors of a byte each.
			b.Start(b.Func("", nil, nil, 1, Code(
				I32Const(8<<20), LocalSet(0),
				Loop(Code(LocalGet(0), I32Const(4), I32Add, I32Const(1), Store(),
					LocalGet(0), I32Const(8), I32Add, LocalSet(0),
					LocalGet(0), I32Const(40<<20), I32LtU, 0x0d, 0)...),
				I32Const(1), I32Const(8<<20), I32Const(4<<20), I32Const(0), Call(0), Drop, Unreachable)...))
		},
	}
	_, err := enginetest.Load(t, e, g.Bytes()).NewInstance(context.Background(), 64<<20)
	if !errors.Is(err, actor.ErrDeadline) {
		t.Errorf("got %v", err)
	}
}
