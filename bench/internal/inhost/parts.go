package inhost

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/wasm"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/pipeline"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/store"
)

var quiet = slog.New(slog.DiscardHandler)

// parts is what hosts run on: a store, an engine, and a module that is deployed.
type parts struct {
	host  host.Config // to add to
	close []func() error
}

// assemble makes parts on a store, which is theirs from then on, also after an
// error; end closes them.
func assemble(ctx context.Context, st store.Store, wasmFile string) (*parts, error) {
	p := &parts{close: []func() error{st.Close}}
	engine, err := wasm.New(ctx, wasm.Config{EngineConfig: compile.EngineConfig{Logger: quiet}})
	if err != nil {
		return nil, p.end(err)
	}
	p.close = append(p.close, func() error { return engine.Close(ctx) })
	mods, err := modules.New(modules.Config{Store: st, Inspector: engine, Logger: quiet})
	if err != nil {
		return nil, p.end(err)
	}
	if err := mods.Start(ctx); err != nil {
		return nil, p.end(err)
	}
	p.close = append(p.close, func() error { return mods.Stop(ctx) })
	if err := deploy(ctx, mods, wasmFile); err != nil {
		return nil, p.end(err)
	}
	p.host = host.Config{Committer: st, Modules: mods, Engine: engine, Logger: quiet}
	if !st.Shared() {
		p.host.Pipeline = pipeline.Disk()
	}
	return p, nil
}

// end closes the parts, the last one first, and returns err with what went wrong.
func (p *parts) end(err error) error {
	for _, closePart := range slices.Backward(p.close) {
		err = errors.Join(err, closePart())
	}
	return err
}

func deploy(ctx context.Context, mods *modules.Service, path string) error {
	module, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	m, err := mods.Upload(ctx, actor.DefaultApp, bytes.NewReader(module), func(modules.Stage) {})
	if err != nil {
		return err
	}
	_, _, err = mods.Deploy(ctx, modules.DeployRequest{App: actor.DefaultApp, Digest: m.Digest})
	return err
}
