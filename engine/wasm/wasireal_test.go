//go:build !race

// Compiling these programs takes a minute under the race detector, and nothing in it is concurrent.

package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/greenroom-run/greenroom/engine/wasi"
)

// Programs of real languages cannot tell our WASI from wazero's, where that has the
// same clock and randomness and no files.
func TestWASIServesRealProgramsAsWazeroDoes(t *testing.T) {
	for name, tc := range map[string]struct {
		build func(t *testing.T) []byte
		exit  uint32
	}{
		"go":   {buildGoCommand, 2},
		"rust": {buildRustCommand, 7},
	} {
		t.Run(name, func(t *testing.T) {
			wasm := tc.build(t)
			cache := wazero.NewCompilationCache()
			defer cache.Close(context.Background())
			want, got := runOnWazero(t, cache, wasm, nil), runOnWazero(t, cache, wasm, newCommand)
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if want.exit != tc.exit || !strings.Contains(want.stdout, "slept an hour true") {
				t.Errorf("the program did not do what it is for:\n%s", want)
			}
		})
	}
}

func buildGoCommand(t *testing.T) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a program")
	}
	return buildCommand(t, exec.Command("go", "build", "-o", "$OUT", "testdata/system/main.go"), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-buildvcs=false")
}

// buildRustCommand builds with whichever Rust of the machine has a library for WASI.
func buildRustCommand(t *testing.T) []byte {
	t.Helper()
	for _, rustc := range []string{"rustc", "/usr/bin/rustc"} {
		root, err := exec.Command(rustc, "--print", "sysroot").Output()
		if err != nil {
			continue
		}
		for _, target := range []string{"wasm32-wasip1", "wasm32-wasi"} {
			if found, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "lib/rustlib", target, "lib/libstd-*.rlib")); len(found) > 0 {
				args := []string{"--edition", "2021", "-O", "--target", target, "-o", "$OUT", "testdata/system/system.rs"}
				if ld, err := exec.LookPath("wasm-ld"); err == nil {
					args = append(args, "-C", "linker="+ld)
				}
				return buildCommand(t, exec.Command(rustc, args...))
			}
		}
	}
	t.Fatal("no Rust here has a library for WASI; run: rustup target add wasm32-wasip1, or build/rust/setup.sh")
	return nil
}

func buildCommand(t *testing.T, cmd *exec.Cmd, env ...string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program.wasm")
	cmd.Args[slices.Index(cmd.Args, "$OUT")] = out
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

type programRun struct {
	stdout, stderr string
	exit           uint32
}

func (r programRun) String() string {
	return fmt.Sprintf("exit code %d\n%s--\n%s", r.exit, r.stdout, r.stderr)
}

const programTime = 1_767_323_045_000_000_006

// runOnWazero runs a command, whose WASI is wazero's unless ours is given.
func runOnWazero(t *testing.T, cache wazero.CompilationCache, wasm []byte, ours func(io.Writer, io.Writer) *command) programRun {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache))
	defer rt.Close(ctx)
	var stdout, stderr bytes.Buffer
	cfg := wazero.NewModuleConfig()
	if ours == nil {
		wasi_snapshot_preview1.MustInstantiate(ctx, rt)
		now := int64(programTime)
		cfg = cfg.WithStdout(&stdout).WithStderr(&stderr).WithRandSource(rand.NewChaCha8([32]byte{})).
			WithWalltime(func() (int64, int32) { return programTime / 1_000_000_000, programTime % 1_000_000_000 }, 1).
			WithNanotime(func() int64 { return now }, 1).WithNanosleep(func(ns int64) { now += ns })
	} else {
		c := ours(&stdout, &stderr)
		builder := rt.NewHostModuleBuilder(wasi.Module)
		for _, f := range wasi.Functions() {
			builder.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, mod api.Module, stack []uint64) {
				c.mem = mod.Memory()
				f.Call(c, stack)
			}), f.Params, f.Results).Export(f.Name)
		}
		if _, err := builder.Instantiate(ctx); err != nil {
			t.Fatal(err)
		}
	}
	_, err := rt.InstantiateWithConfig(ctx, wasm, cfg)
	var exit *sys.ExitError
	var own *guestExit
	code := uint32(0)
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case errors.As(err, &own):
		code = own.code
	case err != nil:
		t.Fatal(err)
	}
	return programRun{stdout.String(), stderr.String(), code}
}

// command is a guest outside of any engine.
type command struct {
	mem            api.Memory
	stdout, stderr io.Writer
	slept          int64
	rand           *rand.ChaCha8
}

func newCommand(stdout, stderr io.Writer) *command {
	return &command{stdout: stdout, stderr: stderr, rand: rand.NewChaCha8([32]byte{})}
}

func (c *command) Memory() []byte {
	b, _ := c.mem.Read(0, c.mem.Size())
	return b
}
func (c *command) Spend(uint64)     {}
func (c *command) Now() int64       { return programTime }
func (c *command) Monotonic() int64 { return programTime + c.slept }
func (c *command) Sleep(ns int64)   { c.slept += ns }
func (c *command) Random(p []byte)  { _, _ = c.rand.Read(p) }
func (c *command) Exit(code uint32) { panic(&guestExit{code}) }
func (c *command) Print(descriptor uint32, p []byte) {
	if descriptor == 1 {
		_, _ = c.stdout.Write(p)
	} else {
		_, _ = c.stderr.Write(p)
	}
}
