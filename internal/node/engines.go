package node

import (
	"context"
	"errors"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/extism"
	"github.com/greenroom-run/greenroom/engine/wasm"
	"github.com/greenroom-run/greenroom/modules"
)

// engines are the engines of a host. What a module imports says which one it is
// for, so nothing about it has to be stored. It is safe for concurrent use.
type engines struct {
	compiler *compile.Compiler // of both
	native   *wasm.Engine
	extism   *extism.Engine
	// plugins remembers which modules are plug-ins, by digest, so that a program
	// that is in memory needs no bytes.
	plugins *lru.Cache[actor.Digest, bool]
	// reclaim closes an instance that the host does not use. Set before use.
	reclaim func(app string) bool
}

var (
	_ engine.Engine     = (*engines)(nil)
	_ modules.Inspector = (*engines)(nil)
)

// remembered is far above the number of modules that serve at a time.
const remembered = 4096

func newEngines(ctx context.Context, cfg Config, apps func() map[actor.Digest][]string) (*engines, error) {
	plugins, err := lru.New[actor.Digest, bool](remembered)
	if err != nil {
		return nil, err
	}
	compiler, err := compile.New(compile.Config{
		Dir: cfg.CacheDir, CacheBytes: cfg.CacheBytes, Apps: apps,
		Processes: cfg.Compilers, Memory: cfg.CompileMemory, Time: cfg.CompileTime, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	shared := compile.EngineConfig{Compiler: compiler, ProgramBytes: cfg.ProgramMemory, InitTimeout: cfg.StartTime, Logger: cfg.Logger}
	native, err := wasm.New(ctx, wasm.Config{EngineConfig: shared})
	if err != nil {
		return nil, errors.Join(err, compiler.Close())
	}
	e, err := extism.New(ctx, extism.Config{EngineConfig: shared})
	if err != nil {
		return nil, errors.Join(err, native.Close(ctx), compiler.Close())
	}
	return &engines{compiler: compiler, native: native, extism: e, plugins: plugins}, nil
}

func (e *engines) Load(ctx context.Context, digest actor.Digest, read func(context.Context) ([]byte, error)) (engine.Program, error) {
	plugin, known := e.plugins.Get(digest)
	if !known {
		code, err := read(ctx)
		if err != nil {
			return nil, err
		}
		plugin = extism.Accepts(code)
		e.plugins.Add(digest, plugin)
		read = func(context.Context) ([]byte, error) { return code, nil }
	}
	if plugin {
		return e.extism.Load(ctx, digest, read)
	}
	return e.native.Load(ctx, digest, read)
}

func (e *engines) Inspect(ctx context.Context, code actor.Code) (*abi.Manifest, []actor.Fault, error) {
	ctx = engine.WithReclaim(ctx, e.reclaim)
	plugin := false
	err := e.compiler.Read(ctx, code, func(wasm []byte) error {
		plugin = extism.Accepts(wasm)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if plugin {
		return e.extism.Inspect(ctx, code)
	}
	return e.native.Inspect(ctx, code)
}

// Instances is how many instances are open.
func (e *engines) Instances() int {
	return int(e.native.Stats().Instances + e.extism.Stats().Instances)
}

// GuestMemory returns how many bytes the instances of guests hold.
func (e *engines) GuestMemory() int64 {
	return e.native.Stats().MemoryBytes + e.extism.Stats().MemoryBytes
}

// Close ends compilations and closes both engines.
func (e *engines) Close(ctx context.Context) error {
	return errors.Join(e.compiler.Close(), e.native.Close(ctx), e.extism.Close(ctx))
}

// prepared returns an error as long as modules that are deployed are not compiled.
func prepared(mods *modules.Service) func() error {
	return func() error {
		if !mods.Prepared() {
			return errors.New("modules that are deployed are not compiled yet")
		}
		return nil
	}
}
