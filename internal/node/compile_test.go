package node_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/engine/judge"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/internal/node"
)

// eventually waits for what no event tells of.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

func glob(t *testing.T, pattern ...string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// endless is a module within all bounds that takes a compiler minutes.
func endless(t *testing.T) []byte {
	t.Helper()
	for _, b := range wasmtest.Bombs() {
		if b.Name == "nests of loops" {
			return b.Make(15)
		}
	}
	t.Fatal("the bomb is gone")
	return nil
}

// A module that takes its compiler forever holds up no call, and the compilation
// ends with the client that asked for it.
func TestNeighboursOfACompilation(t *testing.T) {
	dir := t.TempDir()
	r := start(t, node.Config{CacheDir: dir, CompileTime: patience})
	r.deploy(t, "", manifestOf(1).Bytes())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	uploaded := make(chan error, 1)
	go func() {
		_, err := r.upload(ctx, "", endless(t))
		uploaded <- err
	}()
	eventually(t, "a compilation", func() bool { return len(glob(t, dir, "compiling-*")) > 0 })
	for range 20 {
		if _, err := r.call(t.Context(), "", "T", "neighbour", "Do", ""); err != nil {
			t.Fatal(err)
		}
	}
	if len(glob(t, dir, "compiling-*")) == 0 {
		t.Error("the compilation was over before its neighbours were")
	}
	cancel()
	if err := <-uploaded; connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("the upload: %v", err)
	}
	eventually(t, "the end of the compilation", func() bool { return len(glob(t, dir, "compiling-*")) == 0 })
	if n := len(glob(t, dir, "entries", "*")); n != 1 {
		t.Errorf("the cache has %d modules, want the neighbour's alone", n)
	}
}

// A compilation that passes its time is refused in words, and leaves nothing.
func TestCompilationThatTakesTooLong(t *testing.T) {
	dir := t.TempDir()
	r := start(t, node.Config{CacheDir: dir, CompileTime: 50 * time.Millisecond})
	refused(t, r, dir, "takes more than 50ms", endless(t))
	refused(t, r, dir, "the machine may be busy", endless(t))
	refused(t, r, dir, "--compile-time", endless(t))
	refused(t, r, dir, judge.CompileTime, endless(t))
}

// What compiles and is refused afterwards leaves nothing either.
func TestRefusedModuleLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	r := start(t, node.Config{CacheDir: dir, CompileTime: patience})
	refused(t, r, dir, "start", wasmtest.Guest{Init: wasmtest.Code(wasmtest.Unreachable)}.Bytes())
	refused(t, r, dir, "manifest", wasmtest.Guest{Manifest: `{"abi":99}`}.Bytes())
}

// refused checks that a module is refused with such a text or fault, and that
// neither the store nor the cache has anything of it.
func refused(t *testing.T, r *running, dir, text string, wasm []byte) {
	t.Helper()
	_, err := r.upload(t.Context(), "", wasm)
	d := detail(err)
	if connect.CodeOf(err) != connect.CodeInvalidArgument || d == nil ||
		!slices.ContainsFunc(d.Faults, func(f *greenroomv1.ModuleFault) bool { return f.Code == text || strings.Contains(f.Message, text) }) {
		t.Errorf("got %v, detail %v; want %s", err, d, text)
	}
	if list, err := r.modules.ListModules(t.Context(), connect.NewRequest(&greenroomv1.ListModulesRequest{})); err != nil || len(list.Msg.Modules) > 0 {
		t.Errorf("the store has %v, %v", list, err)
	}
	for _, left := range [][]string{{dir, "compiling-*"}, {dir, "entries", "*"}, {dir, "wazero-*", "*"}} {
		if found := glob(t, left...); len(found) > 0 {
			t.Errorf("left %v", found)
		}
	}
}

// The modules that are known to exhaust compilers are refused by the server before
// one sees them, all in the time of one.
func TestBombsAreRefusedByTheServer(t *testing.T) {
	dir := t.TempDir()
	r := start(t, node.Config{CacheDir: dir})
	for _, b := range wasmtest.Bombs() {
		if len(b.Make(b.Big)) < 8<<20 {
			refused(t, r, dir, "limit", b.Make(b.Big))
		}
	}
}
