// Package judge has what the engines have in common when they judge an uploaded
// module: the steps of an inspection, the codes of faults, and the words for a module
// that cannot be read, that does not compile, or that fails as it is tried out.
package judge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/wasi"
	"github.com/greenroom-run/greenroom/internal/typed"
)

// The codes of faults that more than one engine finds.
const (
	NotWasm         = "not_wasm"
	Malformed       = "malformed"
	Limit           = "limit"
	CompileTime     = "compile_time"
	UnknownImport   = "unknown_import"
	ImportSignature = "import_signature"
	MissingExport   = "missing_export"
	ExportSignature = "export_signature"
	Memory          = "memory"
	Compile         = "compile"
	Start           = "start"
	Manifest        = "manifest"
	Service         = "service"
)

// maxFaults bounds a list that a hostile module could make long.
const maxFaults = 100

// Faults collects what is wrong with a module.
type Faults []actor.Fault

// maxMessage bounds the text of a fault, in bytes: a module's names may be long.
const maxMessage = 4 << 10

// Add adds one, unless there are very many.
func (f *Faults) Add(code, format string, args ...any) {
	if len(*f) == maxFaults {
		return
	}
	message := fmt.Sprintf(format, args...)
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	*f = append(*f, actor.Fault{Code: code, Message: message})
}

// Parse reads a module's outline; without one the faults say why.
func Parse(wasm []byte) (*binary.Module, Faults) {
	m, err := binary.Parse(wasm)
	if err == nil {
		return m, nil
	}
	var f Faults
	var be *binary.Error
	switch guess := binary.Guess(wasm); {
	case guess != "":
		f.Add(NotWasm, "the file %s", guess)
	case errors.As(err, &be) && be.Limit:
		f.Add(Limit, "the module cannot be taken: %v", err)
	default:
		f.Add(Malformed, "the module cannot be read: %v", err)
	}
	return nil, f
}

// addCompile adds why a module did not compile, and reports false if that is not
// about the module.
func (f *Faults) addCompile(err error, log *slog.Logger) bool {
	var limit *compile.LimitError
	var invalid *compile.InvalidError
	var crash *compile.CrashError
	var bug *confine.PanicError
	const sorry = "the compiler cannot handle this module; please report it with the module attached"
	switch {
	case errors.As(err, &limit) && limit.Limit == compile.LimitTime:
		f.Add(CompileTime, "the module %v", limit)
	case errors.As(err, &limit):
		f.Add(Limit, "the module %v", limit)
	case errors.As(err, &invalid):
		f.Add(Compile, "does not compile: %v", invalid)
	case errors.As(err, &crash):
		log.Error("the Wasm compiler crashed", "error", err, "output", crash.Output)
		f.Add(Compile, sorry)
	case errors.As(err, &bug):
		log.Error("the Wasm runtime panicked", "error", err, "stack", string(bug.Stack))
		f.Add(Compile, sorry)
	default:
		return false
	}
	return true
}

// AddStep adds what stopped a step of trying a module out, and reports false if it
// was not the module.
func (f *Faults) AddStep(ctx context.Context, code, what string, timeout time.Duration, err error) bool {
	var trap *actor.TrapError
	var onPurpose *actor.GuestError
	var fuel *actor.FuelError
	switch {
	case ctx.Err() != nil:
		return false
	case errors.As(err, &fuel):
		f.Add(code, "%s: it used more than %d units of fuel; do less there", what, fuel.Limit)
	case errors.As(err, &trap):
		message := trap.Message
		if trap.Stack != "" && trap.Kind != actor.TrapStack {
			lines := strings.Split(trap.Stack, "\n")
			message += "; at " + strings.Join(lines[:min(3, len(lines))], " < ")
		}
		f.Add(code, "%s: %s", what, message)
	case errors.As(err, &onPurpose):
		f.Add(code, "%s: it failed: %s", what, onPurpose.Error())
	case errors.Is(err, actor.ErrDeadline):
		f.Add(code, "%s: it did not return within %s; do no work while starting", what, timeout)
	default:
		return false
	}
	return true
}

// Name is that of a function that modules import.
type Name struct{ Module, Name string }

// WASI returns the functions of WASI and their types, to which an engine adds its
// own.
func WASI() map[Name]binary.FuncType {
	known := make(map[Name]binary.FuncType)
	for _, w := range wasi.Functions() {
		known[Name{abi.WASIModule, w.Name}] = FuncType(w.Params, w.Results)
	}
	return known
}

// FuncType returns the type of a function as package binary has it.
func FuncType(params, results []byte) binary.FuncType {
	return binary.FuncType{Params: valueTypes(params), Results: valueTypes(results)}
}

func valueTypes(ts []byte) []binary.ValueType {
	out := make([]binary.ValueType, len(ts))
	for i, t := range ts {
		out[i] = binary.ValueType(t)
	}
	return out
}

// Inspection is what an engine does to judge a module.
type Inspection struct {
	What     string // a module, for errors
	Gate     *confine.Gate
	Compiler *compile.Compiler
	Log      *slog.Logger
	Target   compile.Target
	Memory   int64 // that an instance may begin with, in bytes
	Check    compile.Checker
	// Module returns the module for the compiler.
	Module func(digest actor.Digest, code actor.Code, cost uint64) compile.Module
	// Admit loads the module when it is compiled, tries it out, and keeps its program if
	// it has no faults. It may not keep wasm.
	Admit func(ctx context.Context, m compile.Module, wasm []byte) (*abi.Manifest, []actor.Fault, error)
}

// Run inspects a module. The engine is not closed meanwhile. While the module waits for
// a compiler nothing of it is in memory.
func (i Inspection) Run(ctx context.Context, code actor.Code) (*abi.Manifest, []actor.Fault, error) {
	if !i.Gate.Enter() {
		return nil, nil, fmt.Errorf("inspect %s: %w", i.What, actor.ErrStopping)
	}
	defer i.Gate.Leave()
	m, found, err := i.run(ctx, code)
	if err != nil {
		return nil, nil, fmt.Errorf("inspect %s: %w", i.What, err)
	}
	return m, found, nil
}

func (i Inspection) run(ctx context.Context, code actor.Code) (m *abi.Manifest, found []actor.Fault, err error) {
	cost, found, err := i.Compiler.Check(ctx, i.Target, code, i.Memory, i.Check)
	if err != nil {
		found, err = NotCompiled(ctx, err, i.Log)
	}
	if err != nil || len(found) > 0 {
		return nil, found, err
	}
	digest, err := actor.DigestOfCode(code)
	if err != nil {
		return nil, nil, err
	}
	module := i.Module(digest, code, cost)
	compiled, err := i.Compiler.Compile(ctx, module)
	if err != nil {
		found, err = NotCompiled(ctx, err, i.Log)
		return nil, found, err
	}
	err = i.Compiler.Read(ctx, code, func(wasm []byte) (err error) {
		m, found, err = i.Admit(ctx, module, wasm)
		return err
	})
	if err == nil && len(found) == 0 {
		return m, nil, nil
	}
	// Nothing is left of a module that is refused, but for who had it before.
	discard(compiled, digest, i.Log)
	return nil, found, err
}

// NotCompiled returns what a failed compilation says of a module, or an error that
// is not about it.
func NotCompiled(ctx context.Context, err error, log *slog.Logger) ([]actor.Fault, error) {
	var f Faults
	switch {
	case ctx.Err() != nil:
		return nil, confine.Ended(ctx)
	case f.addCompile(err, log):
		return f, nil
	default:
		return nil, err
	}
}

// discard removes the code of a module that was refused, unless others had it
// before.
func discard(loaded *compile.Loaded, digest actor.Digest, log *slog.Logger) {
	if !loaded.New {
		return
	}
	if err := loaded.Remove(); err != nil {
		log.Warn("cannot remove the code of a module that was refused", "module", digest.Short(), "error", err)
	}
}

// ParseManifest reads what a module says of itself.
func (f *Faults) ParseManifest(text []byte) *abi.Manifest {
	m, wrong := manifest.Parse(text)
	for _, w := range wrong {
		f.Add(w.Code, "the manifest: %s", w.Message)
	}
	if m == nil {
		return nil
	}
	for i := range m.Types {
		if t := &m.Types[i]; !t.Protobuf.IsZero() {
			_, problems := typed.Parse(t)
			for _, p := range problems {
				f.Add(Service, "type %s: %s", t.Name, p)
			}
		}
	}
	return m
}
