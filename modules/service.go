package modules

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Service keeps modules and deployments. All methods may be called concurrently.
type Service struct {
	*library
	*serving
	*deployer
	pollInterval time.Duration

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
	kept := &library{store: cfg.Store, inspector: cfg.Inspector, maxBytes: cfg.MaxBytes, maxStoredBytes: cfg.MaxStoredBytes, log: cfg.Logger, hosts: cfg.Hosts, imports: cfg.Imports}
	serving := newServing(kept, cfg)
	return &Service{
		library: kept, serving: serving, pollInterval: cfg.PollInterval,
		deployer: &deployer{kept, serving, reminderWarnings{cfg.Reminders, cfg.Logger}},
	}, nil
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
	s.tasks.Go(func() { s.poll(ctx, s.pollInterval) })
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
