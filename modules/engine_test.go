package modules_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/judge"
	"github.com/greenroom-run/greenroom/engine/wasm"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/modules"
)

// The whole way: a real engine judges uploads, and loads what was deployed.
func TestWithEngine(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	engine, err := wasm.New(ctx, wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close(ctx)
	s, err := modules.New(modules.Config{Store: f.store, Inspector: engine})
	if err != nil {
		t.Fatal(err)
	}
	var invalid *actor.InvalidModuleError
	_, err = s.Upload(ctx, app, bytes.NewReader(wasmtest.Header()), nil)
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v", err)
	}
	if !slices.ContainsFunc(invalid.Faults, func(f actor.Fault) bool { return f.Code == judge.MissingExport }) {
		t.Errorf("faults %q", invalid.Faults)
	}
	guest := wasmtest.Guest{}.Bytes()
	m, err := s.Upload(ctx, app, bytes.NewReader(guest), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Deploy(ctx, modules.DeployRequest{App: app, Digest: m.Digest}); err != nil {
		t.Fatal(err)
	}
	d, spec, err := s.Current(app, "T")
	if err != nil || len(spec.Methods) != 2 {
		t.Fatalf("%+v, %v", spec, err)
	}
	_, err = engine.Load(ctx, d.Digest, func(ctx context.Context) ([]byte, error) {
		b, err := s.ModuleBytes(ctx, app, d.Digest)
		if !bytes.Equal(b, guest) {
			t.Error("other bytes")
		}
		return b, err
	})
	if err != nil {
		t.Error(err)
	}
}
