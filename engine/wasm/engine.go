package wasm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/meter"
)

// Engine compiles and runs guests. It is safe for concurrent use.
type Engine struct {
	cfg      Config
	log      *slog.Logger
	cache    wazero.CompilationCache // nil without a disk cache
	cacheDir string
	// primary uses the disk cache, if there is one. plain never does: it is
	// made when the disk cache fails.
	primary *wasmRuntime
	plain   func() (*wasmRuntime, error)

	compilers chan struct{} // a slot per compilation
	programs  *programs
	pool      memoryPool
	functions functions
	gate      confine.Gate
	halted    atomic.Bool // guests are to stop
	// closeGrace is for how long Close waits for guests that are to stop.
	closeGrace time.Duration
}

var _ engine.Engine = (*Engine)(nil)

// Stats are an engine's numbers at one moment.
type Stats struct {
	Instances   int64 // open ones
	MemoryBytes int64 // resident because of them, as last counted
	Programs    int   // compiled modules in memory
}

// New makes an engine. It fails where wazero has no compiler for the machine,
// unless cfg allows the interpreter.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	if !compilerSupported() && !cfg.AllowInterpreter {
		return nil, errors.New("wasm engine: this machine's processor has no Wasm compiler (amd64 with SSE4.1 and arm64 have one); allow the interpreter to run guests about a hundred times slower")
	}
	e := &Engine{cfg: cfg, log: cfg.Logger, compilers: make(chan struct{}, cfg.Compilers), closeGrace: time.Second}
	e.pool.Max, e.pool.pages = int64(cfg.MaxInstances), newPagemap()
	e.programs = newPrograms(cfg.MaxPrograms)
	e.plain = sync.OnceValues(func() (*wasmRuntime, error) { return newRuntime(context.WithoutCancel(ctx), nil) })
	if cfg.CacheDir != "" {
		e.openCache()
	}
	var err error
	if e.cache == nil {
		e.primary, err = e.plain()
	} else {
		e.primary, err = newRuntime(ctx, e.cache)
	}
	if err != nil {
		return nil, fmt.Errorf("wasm engine: %w", err)
	}
	return e, nil
}

// openCache opens the disk cache, or warns and goes without.
func (e *Engine) openCache() {
	dir, err := filepath.Abs(e.cfg.CacheDir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		e.cache, err = wazero.NewCompilationCacheWithDir(dir)
	}
	if err != nil {
		e.cache = nil
		e.log.Warn("compiled modules are not cached on disk", "dir", e.cfg.CacheDir, "error", err)
		return
	}
	e.cacheDir = dir
}

// Stats returns the engine's numbers.
func (e *Engine) Stats() Stats {
	return Stats{Instances: e.pool.Instances(), MemoryBytes: e.pool.Bytes(), Programs: e.programs.len()}
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
	err := e.primary.Close(ctx)
	if e.cache != nil {
		if plain, perr := e.plain(); perr == nil {
			err = errors.Join(err, plain.Close(ctx))
		}
		err = errors.Join(err, e.cache.Close(ctx))
	}
	return errors.Join(err, e.pool.unmap())
}

// wasmRuntime is a wazero runtime with the modules that guests import.
type wasmRuntime struct{ wazero.Runtime }

func newRuntime(ctx context.Context, cache wazero.CompilationCache) (*wasmRuntime, error) {
	cfg := wazero.NewRuntimeConfig(). // the compiler where there is one
						WithCoreFeatures(api.CoreFeaturesV2).
						WithDebugInfoEnabled(false) // DWARF is a large decoder of hostile bytes
	if cache != nil {
		cfg = cfg.WithCompilationCache(cache)
	}
	rt := &wasmRuntime{wazero.NewRuntimeWithConfig(ctx, cfg)}
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

// compile makes a program of a module that has no faults. Beyond the number of
// compilers it waits.
func (e *Engine) compile(ctx context.Context, digest actor.Digest, m *binary.Module) (*program, error) {
	select {
	case e.compilers <- struct{}{}:
		defer func() { <-e.compilers }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	prepared := binary.Prepare(m)
	// The bytes decide the name in the disk cache: another meter, other code.
	code, _, err := meter.Rewrite(prepared.Wasm, meter.Config{MaxDepth: confine.MaxDepth})
	if err != nil {
		return nil, err
	}
	compiled, err := guardedCompile(ctx, e.primary, code)
	rt := e.primary
	if err != nil && e.cache != nil {
		// The module or the cache is at fault: without the cache it shows.
		plain, perr := e.plain()
		if perr != nil {
			return nil, perr
		}
		cacheErr := err
		rt = plain
		if compiled, err = guardedCompile(ctx, plain, code); err == nil {
			e.log.Warn("the cache of compiled modules is damaged or cannot be written; emptying it",
				"dir", e.cacheDir, "module", digest.Short(), "error", cacheErr)
			e.emptyCache()
		}
	}
	if err != nil {
		return nil, err
	}
	return newProgram(e, digest, rt, compiled, m, &prepared), nil
}

// emptyCache removes what wazero wrote; all of it can be made again.
func (e *Engine) emptyCache() {
	entries, _ := filepath.Glob(filepath.Join(e.cacheDir, "wazero-*", "*"))
	for _, entry := range entries {
		if err := os.Remove(entry); err != nil {
			e.log.Warn("cannot remove a cached module", "file", entry, "error", err)
			return
		}
	}
}

// guardedCompile compiles. A panic of the compiler is an error about this
// module: it must not end a host that serves others.
func guardedCompile(ctx context.Context, rt *wasmRuntime, code []byte) (c wazero.CompiledModule, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{what: "the compiler", value: r, stack: debug.Stack()}
		}
	}()
	return rt.CompileModule(ctx, code)
}

// panicError is a bug of ours or of the runtime.
type panicError struct {
	what  string
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.what, e.value) }
