package guestbuild

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// distributionRust is where distributions put cargo and rustc.
	distributionRust = "/usr/bin"
	rustTarget       = "wasm32-unknown-unknown"
	// rustStack is the shadow stack of a Rust guest, in bytes. The linker's
	// default of 1 MiB would make every instance start at 1.1 MB.
	rustStack = 65536
)

func (b *build) rustGuest(ctx context.Context) error {
	tc, err := findRust(ctx, distributionRust)
	if err != nil {
		return err
	}
	args := []string{"build", "--release", "--lib", "--target", rustTarget, "--message-format", "json-render-diagnostics"}
	env := tc.env()
	if tc.buildStd {
		args = append(args, "-Zbuild-std=std,panic_abort")
	}
	says, err := b.says("stack-size", ".cargo/config.toml", ".cargo/config", "build.rs")
	if err != nil {
		return err
	}
	if !says {
		env = append(env, stackFlag(os.Getenv("RUSTFLAGS"))...)
	}
	if says, err = b.says("strip", "Cargo.toml", ".cargo/config.toml", ".cargo/config"); err != nil {
		return err
	}
	if !says {
		// The standard library comes with megabytes of debug information. The
		// names stay, for the stacks of traps.
		env = append(env, "CARGO_PROFILE_RELEASE_STRIP=debuginfo")
	}
	stdout, err := b.run(ctx, Cargo, env, tc.cargo, args...)
	failed := (*CompileError)(nil)
	if errors.As(err, &failed) {
		failed.NotBegun = !bytes.Contains(stdout, []byte(`"reason":"build-finished"`)) // cargo's last message
		if note := tc.noteOf(failed); note != "" {
			failed.Output += note
			_, _ = io.WriteString(b.log, note) // behind the compiler's own
		}
	}
	if err != nil {
		return err
	}
	artifact, err := cargoArtifact(stdout)
	if err != nil {
		return err
	}
	if artifact == "" {
		return &FolderError{Dir: b.dir, Problem: "builds no Wasm library; add `crate-type = [\"cdylib\"]` under [lib] in its Cargo.toml"}
	}
	name := strings.TrimSuffix(filepath.Base(artifact), ".wasm")
	return b.place(name, func(tmp string) error { return copyFile(tmp, artifact) })
}

// noteOf says what in the choice of this Rust a build may have failed for; often empty.
func (r *rust) noteOf(failed *CompileError) string {
	switch {
	case lacksLibrary(failed.Output):
		return fmt.Sprintf("note: %s has built with %s; a rust-toolchain file of the folder may choose another toolchain, which needs the target as well: %s\n",
			located(r.cargo), r.where(), addTarget)
	case failed.NotBegun && r.why != "":
		note := fmt.Sprintf("note: built with %s (%s), since %s\n", r.version, located(r.cargo), r.why)
		if r.builds == buildsWithoutFeatures {
			note += fmt.Sprintf("note: cargo before %s does not fetch packages, such as serde, from the sparse registry of crates.io\n", minRustFeatures)
		}
		return note
	}
	return ""
}

// lacksLibrary reports whether a compiler has found no standard library for the target.
func lacksLibrary(output string) bool {
	return strings.Contains(output, "target may not be installed") || strings.Contains(output, "can't find crate for `core`") || strings.Contains(output, "can't find crate for `std`")
}

// located returns where on PATH a program is, or its name.
func located(program string) string {
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	return program
}

// where names the compiler, for people.
func (r *rust) where() string {
	return fmt.Sprintf("%s at %s, whose libraries are in %s", r.version, located(r.rustc), r.sysroot)
}

// stackFlag returns the environment that makes the stack [rustStack] bytes.
// Cargo ignores a target's own flags when RUSTFLAGS is set, so the flag goes
// where it counts.
func stackFlag(rustflags string) []string {
	flag := fmt.Sprintf("-C link-arg=-zstack-size=%d", rustStack)
	switch {
	case strings.Contains(rustflags, "stack-size"):
		return nil
	case rustflags != "":
		return []string{"RUSTFLAGS=" + rustflags + " " + flag}
	}
	return []string{"CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=" + flag}
}

// says reports whether one of the project's files mentions a word: then the
// project decides for itself.
func (b *build) says(word string, files ...string) (bool, error) {
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(b.dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, fmt.Errorf("read cargo configuration: %w", err)
		}
		if bytes.Contains(text, []byte(word)) {
			return true, nil
		}
	}
	return false, nil
}

// cargoArtifact reads cargo's messages for the Wasm library that was built last:
// that of the package itself, after its dependencies.
func cargoArtifact(messages []byte) (path string, err error) {
	sc := bufio.NewScanner(bytes.NewReader(messages))
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var msg struct {
			Reason string `json:"reason"`
			Target struct {
				CrateTypes []string `json:"crate_types"`
			} `json:"target"`
			Filenames []string `json:"filenames"`
		}
		if json.Unmarshal(sc.Bytes(), &msg) != nil || msg.Reason != "compiler-artifact" || !slices.Contains(msg.Target.CrateTypes, "cdylib") {
			continue
		}
		for _, f := range msg.Filenames {
			if strings.HasSuffix(f, ".wasm") {
				path = f
			}
		}
	}
	if err := sc.Err(); err != nil {
		return "", fmt.Errorf("read cargo's messages: %w", err)
	}
	return path, nil
}

func copyFile(dst, src string) error {
	in, err := os.Open(src)
	if err != nil {
		return fmt.Errorf("read built module: %w", err)
	}
	defer in.Close()
	out, err := os.Create(dst)
	if err != nil {
		return fmt.Errorf("copy built module: %w", err)
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return fmt.Errorf("copy built module: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("copy built module: %w", err)
	}
	return nil
}

// rust is one installed Rust that can build for Wasm.
type rust struct {
	cargo, rustc string // paths or names on PATH
	linker       string // empty: rustc's own
	buildStd     bool   // compile the standard library from its source
	sysroot      string
	version      string
	builds       ability
	why          string // it is taken and not the first on PATH; often empty
}

func (r rust) env() []string {
	env := []string{"RUSTC=" + r.rustc}
	if r.linker != "" {
		env = append(env, "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="+r.linker)
	}
	if r.buildStd {
		// -Zbuild-std is not stable; Debian ships no prebuilt Wasm library with
		// its newer compiler.
		env = append(env, "RUSTC_BOOTSTRAP=1")
	}
	return env
}

// findRust picks the Rust to build with, of the one on PATH and the one in the
// distribution's folder, /usr/bin: the one that builds more, and of two alike that on PATH.
// The error is a [*ToolchainError].
func findRust(ctx context.Context, distribution string) (rust, error) {
	var found []rust
	for _, c := range []rust{
		{cargo: "cargo", rustc: "rustc"},
		{cargo: filepath.Join(distribution, "cargo"), rustc: filepath.Join(distribution, "rustc")},
	} {
		if c.probe(ctx) {
			c.builds = c.ability(c.sysroot)
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return rust{}, &ToolchainError{
			Missing: true,
			Problem: "cargo and rustc are not installed",
			Remedy:  "run `curl https://sh.rustup.rs -sSf | sh -s -- --target " + rustTarget + "`, or on Debian `apt-get install -y --no-install-recommends rustc cargo libstd-rust-dev-wasm32 lld`",
		}
	}
	first, chosen := found[0], found[0]
	for _, c := range found[1:] {
		if c.builds > chosen.builds {
			chosen = c
			chosen.why = fmt.Sprintf("%s, the first on PATH, %s", first.version, first.builds)
			if first.builds == lacksTarget && first.ofRustup(distribution) {
				chosen.why += " (" + addTarget + " gives it one)"
			}
		}
	}
	switch chosen.builds {
	case lacksTarget:
		remedy := "run `apt-get install -y --no-install-recommends libstd-rust-dev-wasm32 lld`"
		if first.ofRustup(distribution) {
			remedy = "run " + addTarget
		}
		return chosen, &ToolchainError{Problem: fmt.Sprintf("%s, %s", first.where(), lacksTarget), Remedy: remedy}
	case tooOld:
		v, _ := findVersion(chosen.version)
		return chosen, &ToolchainError{Problem: fmt.Sprintf("Rust %s is too old", v), Remedy: fmt.Sprintf("install Rust %s or newer, as by rustup (https://rustup.rs)", minRust)}
	}
	return chosen, nil
}

const addTarget = "`rustup target add " + rustTarget + "`"

// ofRustup reports whether it is rustup that adds targets to it. A toolchain of rustup's may
// be on PATH by itself, and rustup beside the distribution's Rust, which it does not change.
func (r *rust) ofRustup(distribution string) bool {
	if filepath.Base(filepath.Dir(r.sysroot)) == "toolchains" {
		return true
	}
	_, err := exec.LookPath("rustup")
	return err == nil && r.sysroot != filepath.Dir(distribution)
}

// ability is what a Rust builds; more is higher.
type ability int

const (
	lacksTarget ability = iota
	tooOld
	buildsWithoutFeatures
	buildsAll
)

func (a ability) String() string {
	if a == lacksTarget {
		return "has no standard library for " + rustTarget
	}
	return "is older"
}

func (r *rust) ability(sysroot string) ability {
	v, ok := findVersion(r.version)
	switch {
	case !r.complete(sysroot):
		return lacksTarget
	case ok && v.less(minRust):
		return tooOld
	case ok && v.less(minRustFeatures):
		return buildsWithoutFeatures
	}
	return buildsAll // also one of a version that cannot be read
}

// probe asks rustc for its version and sysroot, and reports whether there is one.
func (r *rust) probe(ctx context.Context) bool {
	if _, err := exec.LookPath(r.cargo); err != nil {
		return false
	}
	out, err := exec.CommandContext(ctx, r.rustc, "--version").Output()
	if err != nil {
		return false
	}
	r.version = strings.TrimSpace(string(out))
	out, err = exec.CommandContext(ctx, r.rustc, "--print", "sysroot").Output()
	r.sysroot = strings.TrimSpace(string(out))
	return err == nil
}

// complete reports whether the Rust at sysroot can build for Wasm, and fills in
// how.
func (r *rust) complete(sysroot string) bool {
	libs, _ := filepath.Glob(filepath.Join(sysroot, "lib/rustlib", rustTarget, "lib/libstd-*.rlib"))
	_, noSource := os.Stat(filepath.Join(sysroot, "lib/rustlib/src/rust/library/std/Cargo.toml"))
	r.buildStd = len(libs) == 0 && noSource == nil
	if len(libs) == 0 && !r.buildStd {
		return false
	}
	if own, _ := filepath.Glob(filepath.Join(sysroot, "lib/rustlib/*/bin/rust-lld")); len(own) > 0 {
		return true
	}
	r.linker = wasmLinker()
	return r.linker != ""
}

// wasmLinker returns LLVM's Wasm linker, empty if there is none. Distributions
// add the version to its name.
func wasmLinker() string {
	if p, err := exec.LookPath("wasm-ld"); err == nil {
		return p
	}
	var newest string
	var newestVersion int
	found, _ := filepath.Glob("/usr/bin/wasm-ld-*")
	for _, p := range found {
		if v, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(p), "wasm-ld-")); err == nil && v > newestVersion {
			newest, newestVersion = p, v
		}
	}
	return newest
}
