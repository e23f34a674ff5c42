package modules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
)

// Stage is how far an upload has come.
type Stage uint8

// The stages, in order. A module that is known already passes none of them.
const (
	StageValidating Stage = 1
	StageStoring    Stage = 2
)

// maxTries bounds how often a change is tried again after its answer was lost
// or another one came first.
const maxTries = 8

// Upload inspects a module and stores it. Nothing is stored of a module that is
// refused: an [*actor.InvalidModuleError] with every fault found, or
// [actor.ErrModuleTooLarge]. progress is called at the start of each stage, on
// the caller's goroutine; it may be nil. wasm is read piece by piece, but for what the
// Inspector does.
func (s *Service) Upload(ctx context.Context, app string, wasm actor.Code, progress func(Stage)) (actor.Module, error) {
	if err := actor.ValidateName("app", app); err != nil {
		return actor.Module{}, err
	}
	if wasm.Size() > s.cfg.MaxBytes {
		return actor.Module{}, fmt.Errorf("the module has %d bytes; at most %d are allowed, by --max-module of the server: %w", wasm.Size(), s.cfg.MaxBytes, actor.ErrModuleTooLarge)
	}
	digest, err := actor.DigestOfCode(wasm)
	if err != nil {
		return actor.Module{}, err
	}
	known, err := s.store.Module(ctx, app, digest)
	if err == nil {
		return known, nil
	}
	if !errors.Is(err, actor.ErrModuleNotFound) {
		return actor.Module{}, fmt.Errorf("upload module %s: %w", digest.Short(), err)
	}
	if progress == nil {
		progress = func(Stage) {}
	}

	progress(StageValidating)
	manifest, faults, err := s.cfg.Inspector.Inspect(engine.WithOwner(ctx, app), wasm)
	if err != nil {
		return actor.Module{}, fmt.Errorf("upload module %s: %w", digest.Short(), err)
	}
	if len(faults) > 0 {
		return actor.Module{}, &actor.InvalidModuleError{Faults: faults}
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return actor.Module{}, fmt.Errorf("upload module %s: encode manifest: %w", digest.Short(), err)
	}

	progress(StageStoring)
	m, err := s.put(ctx, actor.Module{App: app, Digest: digest, Size: wasm.Size(), Manifest: text}, wasm)
	if err != nil {
		return actor.Module{}, fmt.Errorf("upload module %s: %w", digest.Short(), err)
	}
	s.log.Info("module stored", "app", app, "module", digest.Short(), "bytes", m.Size)
	return m, nil
}

// put stores a module and reads it back, for the time that the store gave it.
func (s *Service) put(ctx context.Context, m actor.Module, wasm actor.Code) (actor.Module, error) {
	var err error
	for range maxTries {
		if err = s.store.PutModule(ctx, m, wasm); !errors.Is(err, actor.ErrAmbiguous) {
			break
		}
	}
	if err != nil {
		return actor.Module{}, err
	}
	return s.store.Module(ctx, m.App, m.Digest)
}
