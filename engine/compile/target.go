package compile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"time"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/greenroom-run/greenroom/engine/meter"
)

// Target is what code is for. Code is only found by a runtime that is configured
// as it was when it was compiled.
type Target string

const (
	// Native is code for guests of the native ABI.
	Native Target = "native"
	// Plugin is code for Extism plug-ins: the runtime looks for the end of the
	// context in loops, and the code of Extism's kernel is beside it.
	Plugin Target = "plugin"
)

// RuntimeConfig is how runtimes of the target must be configured.
func (t Target) RuntimeConfig(cache wazero.CompilationCache) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfig(). // the compiler where there is one
						WithCoreFeatures(api.CoreFeaturesV2).
						WithCloseOnContextDone(t == Plugin).
						WithDebugInfoEnabled(false). // DWARF is a large decoder of hostile bytes
						WithCompilationCache(cache)
}

// Loading returns a context with which wazero's CompileModule loads code from its
// cache, and fails where there is none instead of compiling.
//
// With more than one worker wazero looks at the context before each function, and
// nowhere else; TestLoadingNeverCompiles pins that.
func Loading(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	cancel(errNotCompiled)
	return experimental.WithCompilationWorkers(ctx, 2)
}

// NewPlugin has the Extism SDK load a plug-in. ctx is that of [Loading], or the
// SDK compiles it.
func NewPlugin(ctx context.Context, code []byte, cache wazero.CompilationCache, functions []sdk.HostFunction) (*sdk.CompiledPlugin, error) {
	return sdk.NewCompiledPlugin(ctx,
		sdk.Manifest{
			Wasm: []sdk.Wasm{sdk.WasmData{Data: code, Name: "main"}},
			// Nothing is granted. The functions that would use these are ours.
			Config: map[string]string{}, AllowedHosts: []string{}, AllowedPaths: map[string]string{},
			Memory: &sdk.ManifestMemory{MaxHttpResponseBytes: 0, MaxVarBytes: 0},
		},
		sdk.PluginConfig{RuntimeConfig: Plugin.RuntimeConfig(cache)},
		functions)
}

// compileInto prepares and compiles a module, and writes both its prepared form and
// its code into the folder of the request.
func compileInto(ctx context.Context, req request, m Module) (err error) {
	cache, err := wazero.NewCompilationCacheWithDir(req.Dir)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	defer func() { _ = cache.Close(ctx) }() // what counts is on disk
	defer func() {
		if r := recover(); r != nil {
			err = &CrashError{Problem: fmt.Sprint(r), Output: string(debug.Stack())}
		}
	}()
	t := req.Target
	code := make([]byte, m.Code.Size())
	if _, err := io.ReadFull(io.NewSectionReader(m.Code, 0, m.Code.Size()), code); err != nil {
		return fmt.Errorf("read the module: %w", err)
	}
	code, err = m.Prepare(code)
	switch size := (*meter.SizeError)(nil); {
	case errors.As(err, &size), len(code) > MaxPrepared:
		return &LimitError{Limit: LimitMeter, Memory: MaxPrepared}
	case err != nil:
		return &InvalidError{Problem: err.Error()}
	}
	if err := keepPrepared(req.Dir, req.Key, code); err != nil {
		return fmt.Errorf("write the prepared module: %w", err)
	}
	rt := wazero.NewRuntimeWithConfig(ctx, t.RuntimeConfig(cache))
	defer func() { _ = rt.Close(ctx) }() // as above

	before := allocated()
	compiled, err := rt.CompileModule(Loading(ctx), code)
	if err == nil { // there is nothing to compile in it
		_ = compiled.Close(ctx) // as above
	} else if !errors.Is(err, errNotCompiled) {
		return &InvalidError{Problem: err.Error()}
	}
	if allocated()-before > req.Decode {
		return &LimitError{Limit: LimitDecode, Memory: req.Decode}
	}

	switch t {
	case Native:
		if compiled, err = rt.CompileModule(ctx, code); err == nil {
			_ = compiled.Close(ctx) // as above
		}
	case Plugin:
		var p *sdk.CompiledPlugin
		if p, err = NewPlugin(ctx, code, cache, nil); err == nil {
			_ = p.Close(ctx) // as above
		}
	default:
		return fmt.Errorf("compile: unknown target %q", t)
	}
	if err != nil {
		return compilerError(err)
	}
	entries, err := files(req.Dir)
	if err != nil {
		return err
	}
	total := -int64(len(code)) // which is among them
	for _, e := range entries {
		total += e.size
	}
	if total > req.Code {
		return &LimitError{Limit: LimitCode, Memory: req.Code}
	}
	return nil
}

// compilerError tells the module's faults from those of the disk.
func compilerError(err error) error {
	var path *os.PathError
	var link *os.LinkError
	if errors.As(err, &path) || errors.As(err, &link) {
		return fmt.Errorf("write compiled code: %w", err)
	}
	return &InvalidError{Problem: err.Error()}
}

// allocated is what was allocated on Go's heap so far, in bytes.
func allocated() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// file is one that a child wrote.
type file struct {
	path string // relative to the cache's folder
	size int64
	made time.Time
}

// files lists what children wrote into a folder.
func files(dir string) ([]file, error) {
	folders, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []file
	for _, f := range folders {
		if !f.IsDir() || !holdsFiles(f.Name()) {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() { // gone meanwhile otherwise
				found = append(found, file{filepath.Join(f.Name(), e.Name()), info.Size(), info.ModTime()})
			}
		}
	}
	return found, nil
}
