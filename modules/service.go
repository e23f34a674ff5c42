package modules

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Service keeps modules and deployments. All methods may be called concurrently.
type Service struct {
	cfg   Config
	store store.Modules
	log   *slog.Logger

	current   atomic.Pointer[table]
	refresh   refresher
	preparing modulesQueue

	mu      sync.Mutex // guards the lifecycle
	started bool
	stop    context.CancelFunc
	tasks   sync.WaitGroup
}

// New makes a service. It serves no type before Start or Refresh.
func New(cfg Config) (*Service, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	s := &Service{cfg: cfg, store: cfg.Store, log: cfg.Logger}
	s.current.Store(&table{})
	s.refresh.init(s.read)
	s.preparing.init()
	return s, nil
}

// Start reads the deployments and begins to prepare what serves and to poll for
// new ones. It waits for the store alone. A second call does nothing.
func (s *Service) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return nil
	}
	if err := s.Refresh(ctx, ""); err != nil {
		return fmt.Errorf("start modules: %w", err)
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.started = true
	s.tasks.Go(func() { s.poll(ctx) })
	s.tasks.Go(func() { s.prepareAll(ctx) })
	return nil
}

// Stop ends polling and preparing, and waits for both. It is safe twice and before
// Start; the other methods work on.
func (s *Service) Stop(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		s.stop()
		s.tasks.Wait()
		s.started = false
	}
	return nil
}

func (s *Service) poll(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.PollInterval)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := s.read(ctx, "")
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			s.log.Warn("cannot read deployments; serving the last known ones", "error", err)
		case err == nil && failing:
			s.log.Info("deployments can be read again")
		}
		failing = err != nil
	}
}

// Module returns a module's description. d may be a prefix of at least 6
// digits. The error is [actor.ErrModuleNotFound] or an [*actor.ArgumentError].
func (s *Service) Module(ctx context.Context, app string, d actor.Digest) (actor.Module, error) {
	d, err := s.resolve(ctx, app, d)
	if err != nil {
		return actor.Module{}, err
	}
	m, err := s.store.Module(ctx, app, d)
	if err != nil {
		return actor.Module{}, fmt.Errorf("module %s: %w", d.Short(), err)
	}
	return m, nil
}

// List returns modules in order of digest above after, at most limit (1 to
// 1000, 0 meaning 100).
func (s *Service) List(ctx context.Context, app string, after actor.Digest, limit int) ([]actor.Module, error) {
	if err := actor.ValidateName("app", app); err != nil {
		return nil, err
	}
	ms, err := s.store.ListModules(ctx, app, after, pageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("list modules: %w", err)
	}
	return ms, nil
}

// Apps returns the apps that have modules, or had a type deployed, in byte order
// above after, at most limit (1 to 1000, 0 meaning 100).
func (s *Service) Apps(ctx context.Context, after string, limit int) ([]store.AppInfo, error) {
	apps, err := s.store.ListApps(ctx, after, pageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("list apps: %w", err)
	}
	return apps, nil
}

// Bytes returns a module as it was uploaded. d may be a prefix.
func (s *Service) Bytes(ctx context.Context, app string, d actor.Digest) ([]byte, error) {
	d, err := s.resolve(ctx, app, d)
	if err != nil {
		return nil, err
	}
	return s.ModuleBytes(ctx, app, d)
}

// ModuleBytes returns the bytes of the module with exactly this digest, checked
// against it; [actor.ErrModuleNotFound], [actor.ErrModuleDamaged].
func (s *Service) ModuleBytes(ctx context.Context, app string, d actor.Digest) ([]byte, error) {
	wasm, err := s.store.ModuleBytes(ctx, app, d)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", d.Short(), err)
	}
	if got := actor.DigestOf(wasm); got != d {
		return nil, fmt.Errorf("read module %s: its bytes have the digest %s: %w", d.Short(), got.Short(), actor.ErrModuleDamaged)
	}
	return wasm, nil
}

// Delete removes a module that serves no type now: [actor.ErrModuleInUse]
// otherwise. d may be a prefix. Generations that used it can no longer be
// rolled back to.
func (s *Service) Delete(ctx context.Context, app string, d actor.Digest) error {
	d, err := s.resolve(ctx, app, d)
	if err != nil {
		return err
	}
	if err := s.store.DeleteModule(ctx, app, d); err != nil {
		return fmt.Errorf("delete module %s: %w", d.Short(), err)
	}
	s.log.Info("module deleted", "app", app, "module", d.Short())
	return nil
}

const (
	defaultPage = 100
	maxPage     = 1000
)

func pageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}
