package guestbuild_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// fakeRustc answers what the choice of a toolchain asks; SYSROOT is its root.
const fakeRustc = `
case "$1" in
--version) echo "rustc 1.95.0 (test)" ;;
--print) echo "$SYSROOT" ;;
esac
`

// fakeCargo records its environment and builds an empty module.
const fakeCargo = `
env > "$PWD/env"
echo "$@" > "$PWD/args"
if [ -n "$UNREACHABLE" ]; then echo "error: failed to get serde as a dependency" >&2; exit 101; fi
if [ -n "$FAIL" ]; then echo "error[E0425]: $FAIL" >&2; echo '{"reason":"build-finished","success":false}'; exit 101; fi
printf '\000asm\001\000\000\000' > "$PWD/ledger.wasm"
echo '{"reason":"compiler-artifact","target":{"name":"serde","crate_types":["lib"]},"filenames":["/x/libserde.rlib"]}'
echo '{"reason":"compiler-artifact","target":{"name":"ledger","crate_types":["cdylib","rlib"]},"filenames":["/x/libledger.rlib","'"$PWD"'/ledger.wasm"]}'
`

// rustSysroot makes a sysroot with its own linker, and the Wasm library if asked.
func rustSysroot(t *testing.T, wasm bool) {
	t.Helper()
	files := []string{"lib/rustlib/x/bin/rust-lld", ""}
	if wasm {
		files = append(files, "lib/rustlib/wasm32-unknown-unknown/lib/libstd-1.rlib", "")
	}
	t.Setenv("SYSROOT", guest(t, files...))
	t.Setenv("RUSTFLAGS", "")
}

func TestRustGuest(t *testing.T) {
	const stack = "-C link-arg=-zstack-size=65536"
	for _, tc := range []struct {
		name      string
		files     []string
		rustflags string
		want      string // in cargo's environment
		not       string
	}{
		{name: "plain, stripped", want: "CARGO_PROFILE_RELEASE_STRIP=debuginfo"},
		{name: "the project strips", files: []string{".cargo/config.toml", `strip = true`}, not: "CARGO_PROFILE_RELEASE_STRIP"},
		{name: "plain, small stack", want: "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=" + stack},
		{name: "the project sets a stack", files: []string{".cargo/config.toml", `rustflags = ["-C", "link-arg=-zstack-size=4096"]`}, not: "stack-size"},
		{name: "other flags of the user", rustflags: "-C opt-level=s", want: "RUSTFLAGS=-C opt-level=s " + stack},
		{name: "the user sets a stack", rustflags: "-C link-arg=-zstack-size=4096", want: "RUSTFLAGS=-C link-arg=-zstack-size=4096", not: "65536"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tools(t, "cargo", fakeCargo, "rustc", fakeRustc)
			rustSysroot(t, true)
			t.Setenv("RUSTFLAGS", tc.rustflags)
			dir := guest(t, append(tc.files, "Cargo.toml", "")...)
			got, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(dir, "build", "ledger.wasm"); got.Path != want || got.Toolchain != guestbuild.Cargo {
				t.Errorf("result %+v, want %s by cargo", got, want)
			}
			wantModule(t, got.Path)
			env, _ := os.ReadFile(filepath.Join(dir, "env"))
			if !strings.Contains(string(env), tc.want) {
				t.Errorf("environment lacks %q:\n%s", tc.want, env)
			}
			if tc.not != "" && strings.Contains(string(env), tc.not) {
				t.Errorf("environment has %q:\n%s", tc.not, env)
			}
			args, _ := os.ReadFile(filepath.Join(dir, "args"))
			if !strings.Contains(string(args), "--release") || !strings.Contains(string(args), "--target wasm32-unknown-unknown") {
				t.Errorf("cargo was called with %s", args)
			}
		})
	}
}

func TestRustWithoutWasmLibrary(t *testing.T) {
	if _, err := os.Stat("/usr/bin/rustc"); err == nil {
		t.Skip("the distribution's Rust would be taken")
	}
	tools(t, "cargo", fakeCargo, "rustc", fakeRustc, "rustup", "")
	rustSysroot(t, false)
	_, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: guest(t, "Cargo.toml", "")})
	var missing *guestbuild.ToolchainError
	if !errors.As(err, &missing) || !strings.Contains(missing.Remedy, "`rustup target add wasm32-unknown-unknown`") {
		t.Errorf("got %v, want a ToolchainError with the command to run", err)
	}
}

func TestRustCompileError(t *testing.T) {
	tools(t, "cargo", fakeCargo, "rustc", fakeRustc)
	rustSysroot(t, true)
	for why, names := range map[string]bool{"cannot find value": false, "can't find crate for `core`": true} {
		t.Setenv("FAIL", why)
		var log strings.Builder
		_, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: guest(t, "Cargo.toml", ""), Log: &log})
		var compile *guestbuild.CompileError
		if !errors.As(err, &compile) || !strings.Contains(compile.Output, why) || !strings.HasPrefix(err.Error(), "the guest does not compile (cargo)") {
			t.Errorf("got %v, want a CompileError with the compiler's output", err)
			continue
		}
		for _, text := range []string{compile.Output, log.String()} { // a note names the toolchain that lacks the library
			if strings.Contains(text, "/cargo has built with rustc 1.95.0 (test) at ") != names {
				t.Errorf("%s: %s", why, text)
			}
		}
	}
}

// A cargo that stops before it compiles, as without its registry, says nothing about the source.
func TestCargoThatCompilesNothing(t *testing.T) {
	tools(t, "cargo", fakeCargo, "rustc", fakeRustc)
	rustSysroot(t, true)
	t.Setenv("UNREACHABLE", "1")
	_, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: guest(t, "Cargo.toml", "")})
	if want := "cargo failed before it compiled the guest:\nerror: failed to get serde as a dependency"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// What is taken in the place of the Rust on PATH is named when it compiles nothing.
func TestNoteOfAnotherRust(t *testing.T) {
	note := guestbuild.NoteOfAnotherRust("rustc 1.63.0", "rustc 1.95.0, the first on PATH, has no standard library")
	for _, want := range []string{"built with rustc 1.63.0 (/usr/bin/cargo), since rustc 1.95.0, the first on PATH, has", "cargo before 1.68 does not fetch"} {
		if !strings.Contains(note, want) {
			t.Errorf("%q says nothing of %q", note, want)
		}
	}
	if note := guestbuild.NoteOfAnotherRust("rustc 1.95.0", ""); note != "" {
		t.Errorf("of the first on PATH: %q", note)
	}
}

func TestProbeNamesEveryToolchain(t *testing.T) {
	tools(t, "cargo", fakeCargo, "rustc", fakeRustc)
	rustSysroot(t, true)
	got := guestbuild.Probe(t.Context())
	if len(got) != 3 || got[0].Toolchain != guestbuild.Go || got[1].Toolchain != guestbuild.TinyGo || got[2].Toolchain != guestbuild.Cargo {
		t.Fatalf("got %+v", got)
	}
	if got[0].Err != nil || !strings.HasPrefix(got[0].Version, "go1.") {
		t.Errorf("go: %+v", got[0])
	}
	if got[2].Err != nil || got[2].Version != "rustc 1.95.0 (test)" {
		t.Errorf("cargo: %+v", got[2])
	}
}

// An old Rust builds nothing, or not everything, and is told so.
func TestOldRust(t *testing.T) {
	for _, tc := range []struct{ version, err, note string }{
		{"1.62.1", "Rust 1.62 is too old; install Rust 1.63 or newer", ""},
		{"1.63.0", "", "builds guests without features of the SDK"},
		{"1.68.0", "", ""},
	} {
		tools(t, "cargo", fakeCargo, "rustc", `case "$1" in --version) echo "rustc `+tc.version+` (x 2022-01-01)";; *) echo "$SYSROOT";; esac`)
		rustSysroot(t, true)
		cargo := guestbuild.CargoStatus(t.Context(), t.TempDir()) // without the distribution's
		if err := fmt.Sprint(cargo.Err); cargo.Err == nil && tc.err != "" || cargo.Err != nil && (tc.err == "" || !strings.Contains(err, tc.err)) {
			t.Errorf("%s: %v, want %q", tc.version, cargo.Err, tc.err)
		}
		if !strings.HasPrefix(cargo.Note, tc.note) || tc.note == "" && cargo.Note != "" {
			t.Errorf("%s: note %q, want %q", tc.version, cargo.Note, tc.note)
		}
	}
}

// Of two Rusts the one is taken that builds for Wasm, and of two that do the one that builds
// more; why is said.
func TestTwoRusts(t *testing.T) {
	rustc := func(version string) string {
		return `case "$1" in --version) echo "rustc ` + version + ` (x 2022-01-01)";; *) echo "$(dirname "$0")/sysroot";; esac`
	}
	for _, tc := range []struct {
		name                 string
		onPath, distribution string
		onPathWasm, distWasm bool
		want, why, err, note string
	}{
		{"both build", "1.95.0", "1.90.0", true, true, "rustc 1.95.0", "", "", ""},
		{"the first lacks the target", "1.95.0", "1.90.0", false, true, "rustc 1.90.0", "has no standard library for wasm32-unknown-unknown", "", ""},
		{"the first lacks the target, the other builds less", "1.95.0", "1.63.0", false, true, "rustc 1.63.0", "has no standard library for wasm32-unknown-unknown", "", "builds guests without features"},
		{"the first is too old", "1.62.0", "1.63.0", true, true, "rustc 1.63.0", "rustc 1.62.0 (x 2022-01-01), the first on PATH, is older", "", "builds guests without features"},
		{"the first builds less", "1.63.0", "1.90.0", true, true, "rustc 1.90.0", "is older", "", ""},
		{"the other is older", "1.63.0", "1.62.0", true, true, "rustc 1.63.0", "", "", "builds guests without features"},
		{"both are too old", "1.61.0", "1.62.0", true, true, "rustc 1.61.0", "", "Rust 1.61 is too old", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			usr := t.TempDir()
			tools(t, "cargo", fakeCargo, "rustc", rustc(tc.onPath))
			path, err := exec.LookPath("rustc")
			if err != nil {
				t.Fatal(err)
			}
			write := func(name, text string) {
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			write(filepath.Join(usr, "cargo"), "#!/bin/sh\n"+fakeCargo)
			write(filepath.Join(usr, "rustc"), "#!/bin/sh\n"+rustc(tc.distribution))
			for dir, wasm := range map[string]bool{filepath.Dir(path): tc.onPathWasm, usr: tc.distWasm} {
				write(filepath.Join(dir, "sysroot/lib/rustlib/x/bin/rust-lld"), "")
				if wasm {
					write(filepath.Join(dir, "sysroot/lib/rustlib/wasm32-unknown-unknown/lib/libstd-1.rlib"), "")
				}
			}
			got := guestbuild.CargoStatus(t.Context(), usr)
			if !strings.HasPrefix(got.Version, tc.want) || !strings.Contains(got.Why, tc.why) || (got.Why == "") != (tc.why == "") ||
				!strings.HasPrefix(got.Note, tc.note) || (got.Err == nil) != (tc.err == "") || got.Err != nil && !strings.Contains(got.Err.Error(), tc.err) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A Rust without the target is told the command that adds it: that of rustup to one of its
// toolchains, whichever tools are on PATH, and the distribution's to its own.
func TestRemedyOfAMissingTarget(t *testing.T) {
	const rustup, apt = "`rustup target add wasm32-unknown-unknown`", "libstd-rust-dev-wasm32"
	for name, tc := range map[string]struct {
		sysroot string // below the folder of the test
		tools   []string
		want    string
	}{
		"rustup's toolchain, without rustup on PATH": {"toolchains/stable", nil, rustup},
		"rustup's toolchain":                         {"toolchains/stable", []string{"rustup", ""}, rustup},
		"the distribution's":                         {"usr", nil, apt},
		"the distribution's, before rustup on PATH":  {"usr", []string{"rustup", ""}, apt},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("SYSROOT", filepath.Join(dir, tc.sysroot))
			tools(t, append(tc.tools, "cargo", fakeCargo, "rustc", fakeRustc)...)
			got := guestbuild.CargoStatus(t.Context(), filepath.Join(dir, "usr", "bin"))
			if missing := (*guestbuild.ToolchainError)(nil); !errors.As(got.Err, &missing) || !strings.Contains(missing.Remedy, tc.want) {
				t.Errorf("got %+v, want %s", got, tc.want)
			}
		})
	}
}
