package extism

import (
	"bytes"
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	"github.com/greenroom-run/greenroom/engine/judge"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// inChildren makes an engine whose modules are compiled by child processes, which
// take this much memory.
func inChildren(t *testing.T, memory int64) (*Engine, *compile.Compiler) {
	t.Helper()
	c := enginetest.InChildren(t, compile.Config{Memory: memory})
	return newEngine(t, Config{EngineConfig: compile.EngineConfig{Compiler: c}}), c
}

// judged checks that a plug-in that does not end well has got its faults, and has
// left nothing in the cache.
func judged(t *testing.T, name string, e *Engine, c *compile.Compiler, wasm []byte) []actor.Fault {
	t.Helper()
	_, found, err := e.Inspect(context.Background(), bytes.NewReader(wasm))
	if err != nil || len(found) == 0 {
		t.Errorf("%s: faults %v, %v", name, found, err)
	}
	for _, pattern := range []string{"compiling-*", "entries/*", "wazero-*/*"} {
		if left, err := filepath.Glob(filepath.Join(c.Dir(), pattern)); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
	return found
}

// described gives a module the manifest of a plug-in, whose method it does not have:
// it is refused once it has been compiled, if not before.
func described(t *testing.T, wasm []byte) []byte {
	t.Helper()
	wasm, err := manifest.Embed(wasm, []byte(`{"abi":1,"types":[{"name":"T","methods":[{"name":"Missing"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// The shapes that exhaust compilers are refused unseen as plug-ins, too.
func TestBombsAreRefusedUnseen(t *testing.T) {
	e, c := inChildren(t, 64<<20)
	for _, b := range Bombs(PluginImport()) {
		found := judged(t, b.Name, e, c, described(t, b.Make(b.Big)))
		if !slices.ContainsFunc(found, func(f actor.Fault) bool { return f.Code == judge.Limit }) {
			t.Errorf("%s: %v", b.Name, found)
		}
	}
}

// What is within the bounds is compiled by a child or refused by one, whatever a
// compiler needs for the kernel and for what is put around exports.
func TestBombsInChildren(t *testing.T) {
	e, c := inChildren(t, 256<<20)
	for _, b := range Bombs(PluginImport()) {
		for _, f := range judged(t, b.Name, e, c, described(t, b.Make(b.Small))) {
			if f.Code != judge.Limit && f.Code != judge.MissingExport && f.Code != judge.Memory {
				t.Errorf("%s: %v", b.Name, f)
			}
		}
	}
}

// Plug-ins with bytes that are not what they were, of which many pass the reader: the
// compiler's crash is the child's.
func TestDamagedPluginsInChildren(t *testing.T) {
	e, c := inChildren(t, 128<<20)
	random := rand.New(rand.NewPCG(1, 2))
	wasm := described(t, plug(Code(block(8), Drop, I32Const(0))))
	for n := range 60 {
		damaged := slices.Clone(wasm)
		for range 1 + n%3 {
			damaged[8+random.IntN(len(damaged)-8)] = byte(random.Uint32())
		}
		judged(t, "damaged", e, c, damaged)
	}
	for n := range 20 {
		noise := append(Header(), make([]byte, 1<<n)...)
		for i := len(Header()); i < len(noise); i++ {
			noise[i] = byte(random.Uint32())
		}
		judged(t, "noise", e, c, noise)
	}
}
