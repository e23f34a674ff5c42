package extism

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"

	sdk "github.com/extism/go-sdk"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/sync/singleflight"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/meter"
)

// Engine compiles and runs Extism plug-ins. It is safe for concurrent use.
type Engine struct {
	cfg       Config
	log       *slog.Logger
	compilers chan struct{} // a slot per compilation
	pool      confine.Account
	gate      confine.Gate
	flight    singleflight.Group

	mu     sync.Mutex
	recent *simplelru.LRU[actor.Digest, *program]
	open   map[*compiled]struct{} // freed when nothing reaches their program, or by Close
}

var _ engine.Engine = (*Engine)(nil)

// Stats are an engine's numbers at one moment.
type Stats struct {
	Instances   int64 // open ones
	MemoryBytes int64 // memory that they hold, as the plug-ins and kernels see it
	Programs    int   // compiled plug-ins in memory
}

// New makes an engine.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	recent, err := simplelru.NewLRU[actor.Digest, *program](cfg.MaxPrograms, nil)
	if err != nil {
		return nil, fmt.Errorf("extism engine: %w", err)
	}
	e := &Engine{
		cfg: cfg, log: cfg.Logger, compilers: make(chan struct{}, cfg.Compilers),
		recent: recent, open: make(map[*compiled]struct{}),
	}
	e.pool.Max = int64(cfg.MaxInstances)
	if cfg.CacheDir != "" {
		e.cfg.CacheDir, err = filepath.Abs(cfg.CacheDir)
		if err == nil {
			err = os.MkdirAll(e.cfg.CacheDir, 0o700)
		}
		if err != nil {
			e.log.Warn("compiled plug-ins are not cached on disk", "dir", cfg.CacheDir, "error", err)
			e.cfg.CacheDir = ""
		}
	}
	return e, nil
}

// Stats returns the engine's numbers.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Stats{Instances: e.pool.Instances(), MemoryBytes: e.pool.Bytes(), Programs: e.recent.Len()}
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
	e.recent.Purge()
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
// plug-in at the same time, and goes on when they leave. One that has faults is
// an [*actor.InvalidModuleError].
func (e *Engine) Load(ctx context.Context, digest actor.Digest, wasm func(context.Context) ([]byte, error)) (engine.Program, error) {
	if !e.gate.Enter() {
		return nil, fmt.Errorf("load plug-in %s: %w", digest.Short(), actor.ErrStopping)
	}
	defer e.gate.Leave()
	if p := e.cached(digest); p != nil {
		return p, nil
	}
	shared := context.WithoutCancel(ctx)
	result := e.flight.DoChan(string(digest), func() (any, error) {
		if !e.gate.Enter() {
			return nil, actor.ErrStopping
		}
		defer e.gate.Leave()
		if p := e.cached(digest); p != nil {
			return p, nil
		}
		return e.load(shared, digest, wasm)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, fmt.Errorf("load plug-in %s: %w", digest.Short(), r.Err)
		}
		return r.Val.(*program), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("load plug-in %s: %w", digest.Short(), confine.Ended(ctx))
	}
}

func (e *Engine) load(ctx context.Context, digest actor.Digest, wasm func(context.Context) ([]byte, error)) (_ *program, err error) {
	defer func() {
		// This runs on singleflight's goroutine, where a panic would end the process.
		if r := recover(); r != nil {
			err = &panicError{what: "loading a plug-in", value: r, stack: debug.Stack()}
		}
	}()
	code, err := wasm(ctx)
	if err != nil {
		return nil, err
	}
	m, faults := e.check(code, maxMemory)
	if len(faults) > 0 {
		return nil, &actor.InvalidModuleError{Faults: faults}
	}
	p, err := e.compile(ctx, digest, code, m)
	if err != nil {
		return nil, err
	}
	e.keep(p)
	return p, nil
}

func (e *Engine) cached(d actor.Digest) *program {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, _ := e.recent.Get(d)
	return p
}

func (e *Engine) keep(p *program) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recent.Add(p.digest, p)
}

// compile makes a program of a plug-in that has no faults. Beyond the number of
// compilers it waits.
func (e *Engine) compile(ctx context.Context, digest actor.Digest, wasm []byte, m *binary.Module) (*program, error) {
	select {
	case e.compilers <- struct{}{}:
		defer func() { <-e.compilers }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	code, err := prepare(wasm)
	if err != nil {
		return nil, err
	}
	c, err := newCompiled(ctx, code, e.cfg.CacheDir)
	if err != nil && e.cfg.CacheDir != "" {
		// The plug-in or the cache is at fault: without the cache it shows.
		cacheErr := err
		if c, err = newCompiled(ctx, code, ""); err == nil {
			e.log.Warn("a plug-in could not be compiled through the disk cache; compiled without it",
				"dir", e.cfg.CacheDir, "module", digest.Short(), "error", cacheErr)
		}
	}
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.open[c] = struct{}{}
	e.mu.Unlock()
	return newProgram(e, digest, c, m), nil
}

// prepare returns a plug-in as it is run.
func prepare(wasm []byte) ([]byte, error) {
	rewired := rewire(wasm)
	m, err := binary.Parse(rewired)
	if err != nil {
		return nil, err
	}
	metered, _, err := meter.Rewrite(rewired, meter.Config{MaxDepth: confine.MaxDepth, ImportCost: importCost})
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

// newCompiled compiles a plug-in. A panic of the compiler is an error about this
// plug-in: it must not end a host that serves others.
func newCompiled(ctx context.Context, code []byte, cacheDir string) (c *compiled, err error) {
	c = &compiled{cache: wazero.NewCompilationCache()}
	if cacheDir != "" {
		if c.cache, err = wazero.NewCompilationCacheWithDir(cacheDir); err != nil {
			return nil, err
		}
	}
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{what: "the compiler", value: r, stack: debug.Stack()}
		}
		if err != nil {
			err = errors.Join(err, c.close(context.WithoutCancel(ctx)))
			c = nil
		}
	}()
	c.plugin, err = sdk.NewCompiledPlugin(ctx,
		sdk.Manifest{
			Wasm: []sdk.Wasm{sdk.WasmData{Data: code, Name: "main"}},
			// Nothing is granted. The functions that would use these are ours.
			Config: map[string]string{}, AllowedHosts: []string{}, AllowedPaths: map[string]string{},
			Memory: &sdk.ManifestMemory{MaxHttpResponseBytes: 0, MaxVarBytes: 0},
		},
		sdk.PluginConfig{
			RuntimeConfig: wazero.NewRuntimeConfig().
				WithCoreFeatures(api.CoreFeaturesV2).
				WithCloseOnContextDone(true).
				WithDebugInfoEnabled(false). // DWARF is a large decoder of hostile bytes
				WithCompilationCache(c.cache),
		},
		hostFunctions())
	return c, err
}

func (c *compiled) close(ctx context.Context) error {
	var err error
	if c.plugin != nil {
		err = c.plugin.Close(ctx)
	}
	return errors.Join(err, c.cache.Close(ctx))
}

// panicError is a bug of ours, of the SDK or of the runtime.
type panicError struct {
	what  string
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.what, e.value) }
