package extism

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/meter"
)

// Engine compiles and runs Extism plug-ins. It is safe for concurrent use.
type Engine struct {
	cfg          Config
	log          *slog.Logger
	compiler     *compile.Compiler
	ownsCompiler bool // and closes it
	pool         confine.Account
	gate         confine.Gate
	programs     *compile.Programs[program]

	mu   sync.Mutex
	open map[*compiled]struct{} // freed when nothing reaches their program, or by Close
}

var _ engine.Engine = (*Engine)(nil)

// Stats are an engine's numbers at one moment.
type Stats struct {
	Instances   int64 // open ones
	MemoryBytes int64 // memory that they hold, as the plug-ins and kernels see it
	Programs    int   // compiled plug-ins that are kept in memory
	// ProgramBytes is what compiled plug-ins take, also those that are in memory
	// only because an instance of them is open.
	ProgramBytes int64
}

// New makes an engine.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.Validate("extism"); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	e := &Engine{
		cfg: cfg, log: cfg.Logger, compiler: cfg.Compiler,
		programs: compile.NewPrograms(cfg.MaxPrograms, cfg.ProgramBytes, (*program).inUse, cfg.Logger),
		open:     make(map[*compiled]struct{}),
	}
	e.pool.Max = int64(cfg.MaxInstances)
	if e.compiler == nil {
		var err error
		if e.compiler, err = compile.New(compile.Config{Logger: e.log}); err != nil {
			return nil, fmt.Errorf("extism engine: %w", err)
		}
		e.ownsCompiler = true
	}
	return e, nil
}

// Stats returns the engine's numbers.
func (e *Engine) Stats() Stats {
	programs, bytes := e.programs.Len()
	return Stats{Instances: e.pool.Instances(), MemoryBytes: e.pool.Bytes(), Programs: programs, ProgramBytes: bytes}
}

// Close waits for the calls in flight until ctx ends, then frees every program.
// If plug-ins still run then, it returns ctx's error and frees nothing, since
// freeing memory under running code would end the process. It is safe twice;
// calls after it give [actor.ErrStopping].
func (e *Engine) Close(ctx context.Context) error {
	if err := e.gate.Close(ctx); err != nil {
		return fmt.Errorf("close extism engine: plug-ins still run: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for c := range e.open {
		errs = append(errs, c.close(ctx))
	}
	clear(e.open)
	e.programs.Clear()
	if e.ownsCompiler {
		errs = append(errs, e.compiler.Close())
	}
	return errors.Join(errs...)
}

// discard frees a program that nobody reaches any more. It runs after a garbage
// collection.
func (e *Engine) discard(c *compiled) {
	e.mu.Lock()
	_, open := e.open[c]
	delete(e.open, c)
	e.mu.Unlock()
	if open {
		if err := c.close(context.Background()); err != nil {
			e.log.Warn("cannot free a compiled plug-in", "error", err)
		}
	}
}

// Load implements [engine.Engine]. One compilation serves all who ask for a
// plug-in at the same time, and ends when all have left. One that has faults is
// an [*actor.InvalidModuleError].
func (e *Engine) Load(ctx context.Context, digest actor.Digest, wasm func(context.Context) ([]byte, error)) (engine.Program, error) {
	p, err := e.programs.Load(ctx, &e.gate, digest, func(ctx context.Context) (*program, error) {
		code, err := wasm(ctx)
		if err != nil {
			return nil, err
		}
		m, faults := check(code, maxMemory)
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
		return nil, fmt.Errorf("load plug-in %s: %w", digest.Short(), err)
	}
	return p, nil
}

// compile makes a program of a plug-in that has no faults.
func (e *Engine) compile(ctx context.Context, code compile.Module, m *binary.Module) (*program, error) {
	var c *compiled
	var room compile.Room
	_, err := e.compiler.Load(ctx, code, func(ctx context.Context, code []byte, bytes int64) (err error) {
		bytes += decodedTimes * int64(len(code))
		if room, err = e.programs.Admit(ctx, bytes); err != nil {
			return err
		}
		if c, err = newCompiled(ctx, code, e.compiler.Dir()); err != nil {
			e.programs.Release(room)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.open[c] = struct{}{}
	e.mu.Unlock()
	p := newProgram(e, code.Digest, c, m)
	p.room = room
	return p, nil
}

// decodedTimes is how many times the size of a module a runtime takes for it
// decoded, besides its machine code.
const decodedTimes = 3

// toCompile is the plug-in for the compiler.
func toCompile(digest actor.Digest, code actor.Code, cost uint64) compile.Module {
	return compile.Module{Digest: digest, Target: compile.Plugin, Code: code, Cost: cost, Prepare: prepare, Version: preparedVersion}
}

func init() { compile.Serve(compile.Plugin, checkUpload, prepare) }

// preparedVersion is of what prepare writes: TestPreparedVersion says when it changes.
const preparedVersion = "1"

// prepare returns a plug-in as it is run.
func prepare(wasm []byte) ([]byte, error) {
	rewired := rewire(wasm)
	m, err := binary.Parse(rewired)
	if err != nil {
		return nil, err
	}
	metered, _, err := meter.Rewrite(rewired, meter.Config{MaxDepth: confine.MaxDepth, ImportCost: importCost, MaxBytes: compile.MaxPrepared})
	if err != nil {
		return nil, err
	}
	return settle(metered, m), nil
}

// compiled is the SDK's side of a program: a wazero runtime of its own, since the
// SDK makes one for each plug-in.
type compiled struct {
	plugin *sdk.CompiledPlugin
	// cache owns the compiled code, so that closing it frees that too.
	cache wazero.CompilationCache
}

// newCompiled has the SDK load a plug-in that is compiled. A panic of it is an error
// about this plug-in: it must not end a host that serves others.
func newCompiled(ctx context.Context, code []byte, dir string) (c *compiled, err error) {
	c = &compiled{}
	if c.cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = &confine.PanicError{What: "loading compiled code", Value: r, Stack: debug.Stack()}
		}
		if err != nil {
			err = errors.Join(err, c.close(context.WithoutCancel(ctx)))
			c = nil
		}
	}()
	c.plugin, err = compile.NewPlugin(ctx, code, c.cache, hostFunctions())
	return c, err
}

func (c *compiled) close(ctx context.Context) error {
	var err error
	if c.plugin != nil {
		err = c.plugin.Close(ctx)
	}
	return errors.Join(err, c.cache.Close(ctx))
}
