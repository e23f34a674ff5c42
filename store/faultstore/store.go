package faultstore

import (
	"context"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/greenroom-run/greenroom/store"
)

var _ store.Store = (*Store)(nil)

// Config plans faults. The zero value plans none: the store is transparent.
type Config struct {
	// Seed of the faults that happen at a rate.
	Seed uint64
	// Rates are probabilities per operation, 0 to 1.
	Rates map[Fault]float64
}

// Store is a store with faults. All methods may be called concurrently.
type Store struct {
	*plan
	*holds
	actors
	modules
	settings
	services
	cluster
	reminders
	events
	inner store.Store
}

// New wraps inner. Closing the result closes inner.
func New(inner store.Store, cfg Config) *Store {
	p := &plan{
		rng:   rand.New(rand.NewPCG(cfg.Seed, 0)),
		rates: maps.Clone(cfg.Rates),
		armed: make(map[Fault]int),
		fired: make(map[Fault]int),
	}
	h := &holds{}
	return &Store{p, h, actors{inner, p, h}, modules{inner, p}, settings{inner, p}, services{inner}, cluster{inner, p}, reminders{inner, p}, events{inner, p}, inner}
}

// Shared implements [store.Store].
func (s *Store) Shared() bool { return s.inner.Shared() }

// Now implements [store.Store], without faults.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.inner.Now(ctx) }

// Check implements [store.Store], without faults.
func (s *Store) Check(ctx context.Context) error { return s.inner.Check(ctx) }

// Name returns the name of the wrapped store.
func (s *Store) Name() string { return s.inner.Name() }

// Close closes the wrapped store.
func (s *Store) Close() error { return s.inner.Close() }
