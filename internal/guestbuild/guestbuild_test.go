package guestbuild_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

const reactor = `package main

//go:wasmexport answer
func answer() int32 { return 42 }

func main() {}
`

var wasmMagic = []byte("\x00asm\x01\x00\x00\x00")

// guest writes a folder of files, given as name and text in turn.
func guest(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tools makes a folder with shell scripts, given as name and body in turn, and
// puts it first on PATH.
func tools(t *testing.T, scripts ...string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the tools are shell scripts")
	}
	dir := t.TempDir()
	for i := 0; i < len(scripts); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, scripts[i]), []byte("#!/bin/sh\n"+scripts[i+1]), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func wantModule(t *testing.T, path string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(got, wasmMagic) {
		t.Fatalf("%s is not a Wasm module: it starts with %q", path, got[:min(len(got), 8)])
	}
}

func TestDetect(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files []string
		want  guestbuild.Language
		err   string
	}{
		{"go", []string{"go.mod", "module x"}, guestbuild.LanguageGo, ""},
		{"rust", []string{"Cargo.toml", ""}, guestbuild.LanguageRust, ""},
		{"both", []string{"go.mod", "", "Cargo.toml", ""}, "", "has both a go.mod and a Cargo.toml"},
		{"neither", []string{"main.c", ""}, "", "neither a go.mod nor a Cargo.toml"},
		{"a folder of that name", []string{"go.mod/file", ""}, "", "neither a go.mod nor a Cargo.toml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := guestbuild.Detect(guest(t, tc.files...))
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			var folder *guestbuild.FolderError
			if tc.err == "" && err != nil || tc.err != "" && (!errors.As(err, &folder) || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got error %v, want %q", err, tc.err)
			}
		})
	}
	if _, err := guestbuild.Detect(filepath.Join(t.TempDir(), "absent")); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a folder that is absent: %v", err)
	}
}

func TestGoGuest(t *testing.T) {
	dir := guest(t, "go.mod", "module example.com/things/shelf/v2 // a comment\n\ngo 1.25\n", "main.go", reactor)
	got, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: dir, Toolchain: guestbuild.Go})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "build", "shelf.wasm"); got.Path != want {
		t.Errorf("path %s, want %s", got.Path, want)
	}
	if got.Toolchain != guestbuild.Go || got.Took <= 0 {
		t.Errorf("result %+v", got)
	}
	wantModule(t, got.Path)
	wasm, err := os.ReadFile(got.Path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(wasm, []byte("main.answer")) {
		t.Error("the module has no names of functions for the stacks of traps")
	}
}

// An enclosing workspace and the user's own flags must not reach the guest.
func TestGoGuestIgnoresWorkspaceAndFlags(t *testing.T) {
	root := guest(t, "go.work", "go 1.25\n\nuse ./elsewhere\n", "elsewhere/go.mod", "module elsewhere\n",
		"g/go.mod", "module g\n\ngo 1.25\n", "g/main.go", reactor)
	t.Setenv("GOFLAGS", "-mod=vendor -race")
	t.Setenv("GOWORK", "")
	got, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: filepath.Join(root, "g"), Toolchain: guestbuild.Go})
	if err != nil {
		t.Fatal(err)
	}
	wantModule(t, got.Path)
}

func TestConcurrentBuildsOfOneFolder(t *testing.T) {
	dir := guest(t, "go.mod", "module g\n\ngo 1.25\n", "main.go", reactor)
	out := filepath.Join(t.TempDir(), "deep", "er", "g.wasm")
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			got, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: dir, Out: out, Toolchain: guestbuild.Go})
			if err == nil && got.Path != out {
				err = fmt.Errorf("path %s, want %s", got.Path, out)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	wantModule(t, out)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), ".greenroom-build-*")); len(left) > 0 {
		t.Errorf("temporary folders left behind: %q", left)
	}
}

// Source that does not compile shows what the compiler said, and leaves the
// last good module alone.
func TestCompileError(t *testing.T) {
	dir := guest(t, "go.mod", "module g\n\ngo 1.25\n", "main.go", "package main\n\nfunc main() { undefinedThing() }\n", "build/g.wasm", "last good")
	var log bytes.Buffer
	_, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: dir, Toolchain: guestbuild.Go, Log: &log})
	var compile *guestbuild.CompileError
	if !errors.As(err, &compile) {
		t.Fatalf("got %v, want a CompileError", err)
	}
	for _, text := range []string{compile.Output, err.Error(), log.String()} {
		if !strings.Contains(text, "main.go:3:15: undefined: undefinedThing") {
			t.Errorf("the compiler's complaint is missing in %q", text)
		}
	}
	if kept, _ := os.ReadFile(filepath.Join(dir, "build", "g.wasm")); string(kept) != "last good" {
		t.Errorf("the last good module was replaced by %q", kept)
	}
}

func TestCanceledBuild(t *testing.T) {
	dir := guest(t, "go.mod", "module g\n\ngo 1.25\n", "main.go", reactor)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := guestbuild.Build(ctx, guestbuild.Request{Dir: dir, Toolchain: guestbuild.Go}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestRefusedRequests(t *testing.T) {
	for _, tc := range []struct {
		name      string
		files     []string
		toolchain string
		err       string
	}{
		{"cargo for go", []string{"go.mod", "module g\n"}, guestbuild.Cargo, `is a go guest, which the toolchain "cargo" cannot build`},
		{"go for rust", []string{"Cargo.toml", ""}, guestbuild.Go, `is a rust guest, which the toolchain "go" cannot build`},
		{"unknown", []string{"go.mod", "module g\n"}, "gcc", `the toolchain "gcc" cannot build`},
		{"no Go files", []string{"go.mod", "module g\n", "cmd/main.go", reactor}, "", "has a go.mod and no Go files, so no guest"},
		{"no module line", []string{"go.mod", "go 1.25\n"}, "", "has a go.mod without a module line"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: guest(t, tc.files...), Toolchain: tc.toolchain})
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
		})
	}
}

func TestTinyGoChoice(t *testing.T) {
	const writesModule = `
if [ "$1" = version ]; then echo "tinygo version $VERSION linux/amd64 (using go version go1.26.8 and LLVM version 20.1.1)"; exit 0; fi
if [ -n "$REFUSE" ]; then echo "error: requires go version 1.19 through 1.25, got go1.26" >&2; exit 1; fi
echo "$@" > args
printf '\000asm\001\000\000\000' > "$3"
`
	for _, tc := range []struct {
		name, version, refuse, force string
		want, note, err              string
	}{
		{name: "fit", version: "0.40.1", want: guestbuild.TinyGo},
		{name: "too old", version: "0.39.0", want: guestbuild.Go, note: "TinyGo 0.39 is too old"},
		{name: "too old but forced", version: "0.39.0", force: guestbuild.TinyGo, err: "install TinyGo 0.40 or newer"},
		{name: "refuses this go", version: "0.40.1", refuse: "1", want: guestbuild.Go, note: "does not know this Go version"},
		{name: "refuses this go but forced", version: "0.40.1", refuse: "1", force: guestbuild.TinyGo, err: "requires go version"},
		{name: "fit but go forced", version: "0.40.1", force: guestbuild.Go, want: guestbuild.Go},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tools(t, "tinygo", writesModule)
			t.Setenv("VERSION", tc.version)
			t.Setenv("REFUSE", tc.refuse)
			dir := guest(t, "go.mod", "module g\n\ngo 1.25\n", "main.go", reactor)
			var log bytes.Buffer
			got, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: dir, Toolchain: tc.force, Log: &log})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Toolchain != tc.want {
				t.Errorf("built with %s, want %s", got.Toolchain, tc.want)
			}
			if !strings.Contains(log.String(), tc.note) {
				t.Errorf("log %q lacks %q", log.String(), tc.note)
			}
			wantModule(t, got.Path)
			if tc.want == guestbuild.TinyGo {
				args, _ := os.ReadFile(filepath.Join(dir, "args"))
				for _, flag := range []string{"-target=wasip1", "-buildmode=c-shared", "-scheduler=none", "-no-debug"} {
					if !strings.Contains(string(args), flag) {
						t.Errorf("tinygo was called without %s: %s", flag, args)
					}
				}
			}
		})
	}
}
