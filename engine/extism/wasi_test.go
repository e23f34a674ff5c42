package extism

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	"github.com/greenroom-run/greenroom/engine/wasi"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// wasiPlug is a plug-in that uses WASI alone: fd_write, fd_close and poll_oneoff.
func wasiPlug(t *testing.T, do []byte) []byte {
	t.Helper()
	b := &Builder{}
	b.ImportFunc(envModule, "input_length", nil, []byte{I64}) // makes it a plug-in
	b.ImportFunc(wasi.Module, "fd_write", []byte{I32, I32, I32, I32}, []byte{I32})
	b.ImportFunc(wasi.Module, "fd_close", []byte{I32}, []byte{I32})
	b.ImportFunc(wasi.Module, "poll_oneoff", []byte{I32, I32, I32, I32}, []byte{I32})
	b.Memory(100, 0)
	b.Data(16, []byte("\x20\x00\x00\x00\x06\x00\x00\x00"))
	b.Data(32, []byte("hello\n"))
	b.Func("Do", nil, []byte{I32}, 1, do...)
	wasm, err := manifest.Embed(b.Bytes(), []byte(`{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// WASI reads the plug-in's memory, not the kernel's, and its descriptors stay open.
func TestWASIOfPlugins(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, enginetest.Load(t, e, wasiPlug(t, Code(
		I32Const(1), Call(2), Drop,
		I32Const(1), I32Const(16), I32Const(1), I32Const(24), Call(1)))))
	for range 2 {
		c := newCalls()
		if err := i.Run(context.Background(), frame("x", "Do", ""), c); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.logs, "|"); !strings.HasSuffix(got, "hello") || len(c.logs) != 1 {
			t.Errorf("logged %q", got)
		}
		if c.fuel.Used < 2_000 {
			t.Errorf("printing used %d units of fuel", c.fuel.Used)
		}
	}
}

// A call that subscribes to very much is charged by it, and stopped within.
func TestPollBomb(t *testing.T) {
	e := newEngine(t, Config{})
	p := enginetest.Load(t, e, wasiPlug(t, Code(
		Loop(Code(I32Const(0), I32Const(0), I32Const(100_000), I32Const(0), Call(3), Drop, Again())...), I32Const(0))))
	c := newCalls()
	c.fuel.Limit = 1_000_000
	var out *actor.FuelError
	if err := instantiate(t, p).Run(context.Background(), frame("x", "Do", ""), c); !errors.As(err, &out) {
		t.Errorf("under a limit: %v", err)
	}
	if err := instantiate(t, p).Run(enginetest.Deadline(t, 20*time.Millisecond), frame("x", "Do", ""), newCalls()); !errors.Is(err, actor.ErrDeadline) {
		t.Errorf("under a deadline: %v", err)
	}
}
