// Package guestbuild compiles a guest's source folder to a Wasm module that
// Greenroom accepts, with whichever toolchain the machine has.
//
// It is the one place that knows compilers and their flags: the command line
// and the tests that need a real guest both go through [Build]. Builds are
// cached by the compilers' own caches, may run concurrently, also of the same
// folder, and replace the output in one step, so that nobody reads half a
// module.
package guestbuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The toolchains of [Request.Toolchain] and [Result.Toolchain].
const (
	Go     = "go"
	TinyGo = "tinygo"
	Cargo  = "cargo"
)

// Language is what a guest folder is written in.
type Language string

// The languages that [Detect] tells apart.
const (
	LanguageGo   Language = "go"
	LanguageRust Language = "rust"
)

// Request says what to build.
type Request struct {
	// Dir is the folder with the guest's go.mod or Cargo.toml. Required.
	Dir string
	// Out is the module's path. Defaults to build/<name>.wasm inside Dir, where
	// name is that of the Go module or of the Rust package.
	Out string
	// Toolchain forces one: "go", "tinygo" or "cargo". Empty picks TinyGo for Go
	// where a fit one is installed, since its modules are a hundredth of the
	// size, else Go; and cargo for Rust.
	Toolchain string
	// Log gets notes and the compiler's output as it comes. Nil discards both;
	// the output of a failed build is in the error in any case.
	Log io.Writer
}

// Result is a finished build.
type Result struct {
	// Path is the module's path, under Dir unless Out said otherwise.
	Path string
	// Toolchain is the one that built it.
	Toolchain string
	Took      time.Duration
}

// CompileError is source that does not compile.
type CompileError struct {
	Toolchain string
	// NotBegun reports that the toolchain compiled nothing, such as cargo that cannot reach its
	// registry.
	NotBegun bool
	// Output is all that the compiler printed.
	Output string
}

func (e *CompileError) Error() string {
	return e.Problem() + ":\n" + strings.TrimRight(e.Output, "\n")
}

// Problem is the error without the toolchain's output.
func (e *CompileError) Problem() string {
	if e.NotBegun {
		return e.Toolchain + " failed before it compiled the guest"
	}
	return fmt.Sprintf("the guest does not compile (%s)", e.Toolchain)
}

// ToolchainError is a toolchain that is missing or unfit.
type ToolchainError struct {
	// Missing is set if it is not installed at all.
	Missing bool
	Problem string
	// Remedy is a command or a sentence that puts it right.
	Remedy string
}

func (e *ToolchainError) Error() string { return e.Problem + "; " + e.Remedy }

// FolderError is a folder that holds no guest, or not the one asked for.
type FolderError struct {
	Dir     string
	Problem string
}

func (e *FolderError) Error() string { return fmt.Sprintf("folder %s %s", e.Dir, e.Problem) }

// Detect returns the language of a guest folder, a [*FolderError] if it has none
// or more than one.
func Detect(dir string) (Language, error) {
	isGo, err := isFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	isRust, err := isFile(filepath.Join(dir, "Cargo.toml"))
	if err != nil {
		return "", err
	}
	switch {
	case isGo && isRust:
		return "", &FolderError{Dir: dir, Problem: "has both a go.mod and a Cargo.toml; keep each guest in a folder of its own"}
	case isGo:
		return LanguageGo, nil
	case isRust:
		return LanguageRust, nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", &FolderError{Dir: dir, Problem: "does not exist"}
	}
	return "", &FolderError{Dir: dir, Problem: "has neither a go.mod nor a Cargo.toml; name the folder of a guest, or make one with `greenroom new`"}
}

func isFile(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("detect guest language: %w", err)
	}
	return info.Mode().IsRegular(), nil
}

// Build compiles the guest in req.Dir. It fails with a [*FolderError], a
// [*ToolchainError] or a [*CompileError], or with the error of ctx.
func Build(ctx context.Context, req Request) (Result, error) {
	start := time.Now()
	lang, err := Detect(req.Dir)
	if err != nil {
		return Result{}, err
	}
	dir, err := filepath.Abs(req.Dir)
	if err != nil {
		return Result{}, fmt.Errorf("resolve guest folder: %w", err)
	}
	b := &build{dir: dir, out: req.Out, log: req.Log}
	if b.log == nil {
		b.log = io.Discard
	}
	var toolchain string
	switch {
	case lang == LanguageGo && (req.Toolchain == "" || req.Toolchain == Go || req.Toolchain == TinyGo):
		toolchain, err = b.goGuest(ctx, req.Toolchain)
	case lang == LanguageRust && (req.Toolchain == "" || req.Toolchain == Cargo):
		toolchain, err = Cargo, b.rustGuest(ctx)
	default:
		err = &FolderError{Dir: req.Dir, Problem: fmt.Sprintf("is a %s guest, which the toolchain %q cannot build; leave the toolchain out", lang, req.Toolchain)}
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // the compiler was killed: its output does not matter
		}
		return Result{}, err
	}
	path := b.out
	if req.Out == "" {
		// As the caller wrote the folder, not made absolute.
		path = filepath.Join(req.Dir, "build", filepath.Base(b.out))
	}
	return Result{Path: path, Toolchain: toolchain, Took: time.Since(start)}, nil
}

// build is one build under way.
type build struct {
	dir string // absolute
	out string // empty until the name is known, if the request gave none
	log io.Writer
}

func (b *build) note(format string, args ...any) {
	fmt.Fprintf(b.log, "note: "+format+"\n", args...)
}

// place calls produce with a temporary path beside the output, then renames it.
// name is used if the request gave no output path.
func (b *build) place(name string, produce func(tmp string) error) error {
	if b.out == "" {
		b.out = filepath.Join(b.dir, "build", name+".wasm")
	}
	out, err := filepath.Abs(b.out)
	if err != nil {
		return fmt.Errorf("resolve output path: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("make output folder: %w", err)
	}
	// A folder of its own: compilers refuse to overwrite some kinds of files.
	tmp, err := os.MkdirTemp(filepath.Dir(out), ".greenroom-build-")
	if err != nil {
		return fmt.Errorf("make temporary output: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	wasm := filepath.Join(tmp, filepath.Base(out))
	if err := produce(wasm); err != nil {
		return err
	}
	if err := os.Chmod(wasm, 0o644); err != nil {
		return fmt.Errorf("place module: %w", err)
	}
	if err := os.Rename(wasm, out); err != nil {
		return fmt.Errorf("place module: %w", err)
	}
	return nil
}

// run runs a compiler in the guest's folder. Its environment is this process's
// with env on top. A failure is a [*CompileError] with all it printed on
// standard error. Standard output is returned, also of a failure, and not logged, since it is
// for machines.
func (b *build) run(ctx context.Context, toolchain string, env []string, name string, args ...string) (stdout []byte, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = b.dir
	// Later entries win.
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second // a killed compiler may leave children that hold its pipes
	var out, errOut bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = io.MultiWriter(&errOut, b.log)
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return nil, fmt.Errorf("run %s: %w", name, err)
		}
		return out.Bytes(), &CompileError{Toolchain: toolchain, Output: errOut.String()}
	}
	return out.Bytes(), nil
}
