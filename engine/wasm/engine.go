package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/meter"
)

// Engine compiles and runs guests. It is safe for concurrent use.
type Engine struct {
	cfg          Config
	log          *slog.Logger
	compiler     *compile.Compiler
	ownsCompiler bool // and closes it
	cache        wazero.CompilationCache
	runtime      *wasmRuntime
	programs     *compile.Programs[program]
	pool         memoryPool
	functions    functions
	gate         confine.Gate
	halted       atomic.Bool // guests are to stop
	// closeGrace is for how long Close waits for guests that are to stop.
	closeGrace time.Duration
}

var _ engine.Engine = (*Engine)(nil)

// Stats are an engine's numbers at one moment.
type Stats struct {
	Instances   int64 // open ones
	MemoryBytes int64 // resident because of them, as last counted
	Programs    int   // compiled modules that are kept in memory
	// ProgramBytes is what compiled modules take, also those that are in memory
	// only because an instance of them is open.
	ProgramBytes int64
}

// New makes an engine. It fails where wazero has no compiler for the machine.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.Validate("wasm"); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	if !compilerSupported() {
		return nil, errors.New("wasm engine: this machine's processor has no Wasm compiler; run the server on amd64 with SSE4.1, or on arm64")
	}
	e := &Engine{cfg: cfg, log: cfg.Logger, compiler: cfg.Compiler, closeGrace: time.Second}
	e.pool.Max, e.pool.pages = int64(cfg.MaxInstances), newPagemap()
	e.programs = compile.NewPrograms(cfg.MaxPrograms, cfg.ProgramBytes, (*program).inUse, cfg.Logger)
	if err := e.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("wasm engine: %w", err), e.closeCompiler())
	}
	return e, nil
}

func (e *Engine) open(ctx context.Context) (err error) {
	if e.compiler == nil {
		if e.compiler, err = compile.New(compile.Config{Logger: e.log}); err != nil {
			return err
		}
		e.ownsCompiler = true
	}
	if e.cache, err = wazero.NewCompilationCacheWithDir(e.compiler.Dir()); err != nil {
		return err
	}
	e.runtime, err = newRuntime(ctx, e.cache)
	return err
}

func (e *Engine) closeCompiler() error {
	if !e.ownsCompiler {
		return nil
	}
	return e.compiler.Close()
}

// Stats returns the engine's numbers.
func (e *Engine) Stats() Stats {
	programs, bytes := e.programs.Len()
	return Stats{Instances: e.pool.Instances(), MemoryBytes: e.pool.Bytes(), Programs: programs, ProgramBytes: bytes}
}

// Close waits for the calls in flight until ctx ends, then stops the guests that
// run and closes every instance. If a guest is still in a host function after
// another second, it returns ctx's error and frees nothing, since freeing memory
// under running code would end the process. It is safe twice; calls after it
// give [actor.ErrStopping].
func (e *Engine) Close(ctx context.Context) error {
	if err := e.gate.Close(ctx); err != nil {
		e.halted.Store(true)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.closeGrace)
		defer cancel()
		if e.gate.Close(grace) != nil {
			return fmt.Errorf("close wasm engine: guests still run: %w", err)
		}
	}
	err := errors.Join(e.runtime.Close(ctx), e.cache.Close(ctx), e.closeCompiler())
	return errors.Join(err, e.pool.unmap())
}

// wasmRuntime is a wazero runtime with the modules that guests import.
type wasmRuntime struct{ wazero.Runtime }

func newRuntime(ctx context.Context, cache wazero.CompilationCache) (*wasmRuntime, error) {
	rt := &wasmRuntime{wazero.NewRuntimeWithConfig(ctx, compile.Native.RuntimeConfig(cache))}
	err := instantiateWASI(ctx, rt)
	if err == nil {
		err = instantiateHost(ctx, rt)
	}
	if err == nil {
		err = instantiateMeter(ctx, rt)
	}
	if err != nil {
		return nil, errors.Join(err, rt.Close(ctx))
	}
	return rt, nil
}

// compile makes a program of a module that has no faults.
func (e *Engine) compile(ctx context.Context, code compile.Module, m *binary.Module) (*program, error) {
	prepared := binary.Prepare(m)
	var compiled wazero.CompiledModule
	var room compile.Room
	_, err := e.compiler.Load(ctx, code, func(ctx context.Context, code []byte, bytes int64) (err error) {
		bytes += decodedTimes * int64(len(code))
		if room, err = e.programs.Admit(ctx, bytes); err != nil {
			return err
		}
		if compiled, err = guardedCompile(ctx, e.runtime, code); err != nil {
			e.programs.Release(room)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	p := newProgram(e, code.Digest, compiled, m, &prepared)
	p.room = room
	return p, nil
}

// Load implements [engine.Engine]. One compilation serves all who ask for a
// module at the same time, and ends when all have left. A module that has
// faults is an [*actor.InvalidModuleError].
func (e *Engine) Load(ctx context.Context, digest actor.Digest, wasm func(context.Context) ([]byte, error)) (engine.Program, error) {
	p, err := e.programs.Load(ctx, &e.gate, digest, func(ctx context.Context) (*program, error) {
		code, err := wasm(ctx)
		if err != nil {
			return nil, err
		}
		m, faults := check(code, maxPages*confine.PageSize)
		if len(faults) > 0 {
			return nil, &actor.InvalidModuleError{Faults: faults}
		}
		p, err := e.compile(ctx, toCompile(digest, bytes.NewReader(code), m.Cost()), m)
		if err != nil {
			return nil, err
		}
		e.programs.Put(digest, p, p.room)
		return p, nil
	})
	if err != nil {
		return nil, fmt.Errorf("load module %s: %w", digest.Short(), err)
	}
	return p, nil
}

// toCompile is the module for the compiler.
func toCompile(digest actor.Digest, code actor.Code, cost uint64) compile.Module {
	return compile.Module{Digest: digest, Target: compile.Native, Code: code, Cost: cost, Prepare: prepare, Version: preparedVersion}
}

func init() { compile.Serve(compile.Native, checkUpload, prepare) }

// prepare returns a guest as it is run.
func prepare(wasm []byte) ([]byte, error) {
	m, err := binary.Parse(wasm)
	if err != nil {
		return nil, err
	}
	code, _, err := meter.Rewrite(binary.Prepare(m).Wasm(), meter.Config{MaxDepth: confine.MaxDepth, MaxBytes: compile.MaxPrepared})
	return code, err
}

// preparedVersion is of what prepare writes: TestPreparedVersion says when it changes.
const preparedVersion = "1"

// decodedTimes is how many times the size of a module a runtime takes for it
// decoded, besides its machine code.
const decodedTimes = 3

// guardedCompile has the runtime load a module. A panic of it is an error about
// this module: it must not end a host that serves others.
func guardedCompile(ctx context.Context, rt *wasmRuntime, code []byte) (c wazero.CompiledModule, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &confine.PanicError{What: "loading compiled code", Value: r, Stack: debug.Stack()}
		}
	}()
	return rt.CompileModule(ctx, code)
}
