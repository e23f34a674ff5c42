package inhost

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/must"
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
	host host.Config // to add to
	end  func() error
}

// assemble makes parts on a store, which is theirs from then on; end closes them.
func assemble(ctx context.Context, st store.Store, wasmFile string) *parts {
	engine := must.Get(wasm.New(ctx, wasm.Config{EngineConfig: compile.EngineConfig{Logger: quiet}}))
	mods := must.Get(modules.New(modules.Config{Store: st, Inspector: engine, Logger: quiet}))
	must.Check(mods.Start(ctx))
	m := must.Get(mods.Upload(ctx, actor.DefaultApp, bytes.NewReader(must.Get(os.ReadFile(wasmFile))), func(modules.Stage) {}))
	must.Get2(mods.Deploy(ctx, modules.DeployRequest{App: actor.DefaultApp, Digest: m.Digest}))
	p := &parts{
		host: host.Config{Committer: st, Modules: mods, Engine: engine, Logger: quiet},
		end:  func() error { return errors.Join(mods.Stop(ctx), engine.Close(ctx), st.Close()) },
	}
	if !st.Shared() {
		p.host.Pipeline = pipeline.Disk()
	}
	return p
}
