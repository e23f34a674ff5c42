package faultstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
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
	// inner is a field, not embedded: a method that the contract gains must be
	// thought about here before it compiles.
	inner store.Store
	plan  plan
	holds holds
}

// New wraps inner. Closing the result closes inner.
func New(inner store.Store, cfg Config) *Store {
	return &Store{inner: inner, plan: plan{
		rng:   rand.New(rand.NewPCG(cfg.Seed, 0)),
		rates: maps.Clone(cfg.Rates),
		armed: make(map[Fault]int),
		fired: make(map[Fault]int),
	}}
}

// Arm makes f happen to the next n operations that it fits, besides its rate.
func (s *Store) Arm(f Fault, n int) {
	s.plan.mu.Lock()
	defer s.plan.mu.Unlock()
	s.plan.armed[f] += n
}

// Calm ends all planned faults; counts stay.
func (s *Store) Calm() {
	s.plan.mu.Lock()
	defer s.plan.mu.Unlock()
	clear(s.plan.armed)
	clear(s.plan.rates)
}

// Hold stops the next operation that comes to p.
func (s *Store) Hold(p Point) *Held { return s.holds.add(p) }

// Fired returns how often f has happened.
func (s *Store) Fired(f Fault) int {
	s.plan.mu.Lock()
	defer s.plan.mu.Unlock()
	return s.plan.fired[f]
}

// Pending returns the armed faults that have not happened yet, and the faults
// at a rate that never have. A test that ends with any has not tested them.
func (s *Store) Pending() []Fault {
	s.plan.mu.Lock()
	defer s.plan.mu.Unlock()
	var pending []Fault
	for _, f := range Faults() {
		if s.plan.armed[f] > 0 || s.plan.rates[f] > 0 && s.plan.fired[f] == 0 {
			pending = append(pending, f)
		}
	}
	return pending
}

// Shared implements [store.Store].
func (s *Store) Shared() bool { return s.inner.Shared() }

// LoadActors implements [store.Actors].
func (s *Store) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	if err := s.holds.pass(ctx, BeforeLoad); err != nil {
		return nil, err
	}
	if s.plan.fires(LoadFails) {
		return nil, LoadFails.unavailable()
	}
	return s.inner.LoadActors(ctx, keys, opts)
}

// Versions implements [store.Actors].
func (s *Store) Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error) {
	if err := s.holds.pass(ctx, BeforeVersions); err != nil {
		return nil, err
	}
	if s.plan.fires(VersionsFail) {
		return nil, VersionsFail.unavailable()
	}
	return s.inner.Versions(ctx, keys)
}

// Commit implements [store.Actors].
func (s *Store) Commit(ctx context.Context, commits []actor.Commit) []error {
	if err := s.holds.pass(ctx, BeforeCommit); err != nil {
		return all(commits, err)
	}
	if len(commits) == 0 {
		return nil // nothing for a fault to happen to
	}
	faults := []Fault{CommitFails, CommitLost, CommitPartlyFails}
	if slices.ContainsFunc(store.ValidateGroup(commits), func(err error) bool { return err != nil }) {
		// What is refused may be so because of others of the group: without one of them it
		// would not be.
		faults = faults[:2]
	}
	switch f := s.plan.first(faults...); f {
	case CommitFails:
		return all(commits, f.unavailable())
	case CommitLost:
		return all(commits, f.ambiguous())
	case CommitPartlyFails:
		return s.commitWithout(ctx, commits, s.plan.pick(len(commits)))
	}
	return s.commitAndAnswer(ctx, commits)
}

// commitWithout fails one commit of a group and sends the others.
func (s *Store) commitWithout(ctx context.Context, commits []actor.Commit, out int) []error {
	rest := make([]actor.Commit, 0, len(commits))
	rest = append(append(rest, commits[:out]...), commits[out+1:]...)
	errs := s.commitAndAnswer(ctx, rest)
	return append(append(append([]error(nil), errs[:out]...), CommitPartlyFails.unavailable()), errs[out:]...)
}

func (s *Store) commitAndAnswer(ctx context.Context, commits []actor.Commit) []error {
	errs := s.inner.Commit(ctx, commits)
	if err := s.holds.pass(ctx, AfterCommit); err != nil {
		return all(commits, fmt.Errorf("%w while the answer was on its way: %w", err, actor.ErrAmbiguous))
	}
	if s.plan.fires(CommitReplyLost) {
		return all(commits, CommitReplyLost.ambiguous())
	}
	return errs
}

func all(commits []actor.Commit, err error) []error {
	errs := make([]error, len(commits))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// LockedTurn implements [store.Actors].
func (s *Store) LockedTurn(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (*actor.Commit, error) {
	for {
		var (
			fault Fault
			taken *actor.Commit
		)
		c, err := s.inner.LockedTurn(ctx, key, func(ctx context.Context, row actor.Row) (*actor.Commit, error) {
			fault = ""
			c, err := fn(ctx, row)
			if err != nil || c == nil {
				return c, err
			}
			if err := s.holds.pass(ctx, BeforeTurnCommit); err != nil {
				return nil, err
			}
			if fault = s.plan.first(TurnRetried, TurnFails, TurnLost); fault != "" {
				taken = c
				return nil, errTaken
			}
			return c, nil
		})
		if fault != "" && errors.Is(err, errTaken) {
			switch fault {
			case TurnRetried:
				continue
			case TurnLost:
				return taken, fault.ambiguous()
			default:
				return nil, fault.unavailable()
			}
		}
		if err == nil && c != nil && s.plan.fires(TurnReplyLost) {
			return c, TurnReplyLost.ambiguous()
		}
		return c, err
	}
}

// errTaken ends the inner transaction of a locked turn whose commit a fault took.
var errTaken = errors.New("a planned fault took the commit")

// Settle implements [store.Actors].
func (s *Store) Settle(ctx context.Context, c actor.Commit) error {
	if err := s.holds.pass(ctx, BeforeSettle); err != nil {
		return err
	}
	if s.plan.fires(SettleFails) {
		return SettleFails.unavailable()
	}
	err := s.inner.Settle(ctx, c)
	if s.plan.fires(SettleReplyLost) {
		return SettleReplyLost.unavailable()
	}
	return err
}

// ListActors implements [store.Actors], without faults.
func (s *Store) ListActors(ctx context.Context, q store.ActorQuery) ([]store.ActorInfo, string, error) {
	return s.inner.ListActors(ctx, q)
}

// LoadIdempotency implements [store.Actors].
func (s *Store) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	if s.plan.fires(RecordLoadFails) {
		return nil, RecordLoadFails.unavailable()
	}
	return s.inner.LoadIdempotency(ctx, calls)
}

// SweepIdempotency implements [store.Actors], without faults.
func (s *Store) SweepIdempotency(ctx context.Context, limit int) (int, error) {
	return s.inner.SweepIdempotency(ctx, limit)
}

// SweepTombstones implements [store.Actors], without faults.
func (s *Store) SweepTombstones(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.inner.SweepTombstones(ctx, before, limit)
}

// PutModule implements [store.Modules].
func (s *Store) PutModule(ctx context.Context, m actor.Module, wasm actor.Code) error {
	if s.plan.fires(ModuleWriteFails) {
		return ModuleWriteFails.unavailable()
	}
	return s.inner.PutModule(ctx, m, wasm)
}

// Module implements [store.Modules], without faults.
func (s *Store) Module(ctx context.Context, app string, d actor.Digest) (actor.Module, error) {
	return s.inner.Module(ctx, app, d)
}

// ModuleBytes implements [store.Modules], without faults.
func (s *Store) ModuleBytes(ctx context.Context, app string, d actor.Digest) ([]byte, error) {
	return s.inner.ModuleBytes(ctx, app, d)
}

// ListModules implements [store.Modules], without faults.
func (s *Store) ListModules(ctx context.Context, app string, after actor.Digest, limit int) ([]actor.Module, error) {
	return s.inner.ListModules(ctx, app, after, limit)
}

// DeleteModule implements [store.Modules].
func (s *Store) DeleteModule(ctx context.Context, app string, d actor.Digest) error {
	if s.plan.fires(ModuleWriteFails) {
		return ModuleWriteFails.unavailable()
	}
	return s.inner.DeleteModule(ctx, app, d)
}

// Deploy implements [store.Modules].
func (s *Store) Deploy(ctx context.Context, ds []actor.Deployment) error {
	if s.plan.fires(ModuleWriteFails) {
		return ModuleWriteFails.unavailable()
	}
	return s.inner.Deploy(ctx, ds)
}

// Deployments implements [store.Modules], without faults.
func (s *Store) Deployments(ctx context.Context, app string) ([]actor.Deployment, error) {
	return s.inner.Deployments(ctx, app)
}

// DeploymentHistory implements [store.Modules], without faults.
func (s *Store) DeploymentHistory(ctx context.Context, app, typ string, before uint64, limit int) ([]actor.Deployment, error) {
	return s.inner.DeploymentHistory(ctx, app, typ, before, limit)
}

// ListApps implements [store.Modules], without faults.
func (s *Store) ListApps(ctx context.Context, after string, limit int) ([]store.AppInfo, error) {
	return s.inner.ListApps(ctx, after, limit)
}

// PutSetting implements [store.Settings].
func (s *Store) PutSetting(ctx context.Context, set actor.Setting) error {
	if s.plan.fires(SettingFails) {
		return SettingFails.unavailable()
	}
	return s.inner.PutSetting(ctx, set)
}

// ReplaceSetting implements [store.Settings].
func (s *Store) ReplaceSetting(ctx context.Context, set actor.Setting, was []byte) (bool, error) {
	if s.plan.fires(SettingFails) {
		return false, SettingFails.unavailable()
	}
	return s.inner.ReplaceSetting(ctx, set, was)
}

// DeleteSetting implements [store.Settings].
func (s *Store) DeleteSetting(ctx context.Context, app string, kind actor.SettingKind, name string) error {
	if s.plan.fires(SettingFails) {
		return SettingFails.unavailable()
	}
	return s.inner.DeleteSetting(ctx, app, kind, name)
}

// Settings implements [store.Settings].
func (s *Store) Settings(ctx context.Context, app string) ([]actor.Setting, error) {
	if s.plan.fires(SettingFails) {
		return nil, SettingFails.unavailable()
	}
	return s.inner.Settings(ctx, app)
}

// SettingApps implements [store.Settings].
func (s *Store) SettingApps(ctx context.Context, after string, limit int) ([]string, error) {
	if s.plan.fires(SettingFails) {
		return nil, SettingFails.unavailable()
	}
	return s.inner.SettingApps(ctx, after, limit)
}

// Now implements [store.Store], without faults.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.inner.Now(ctx) }

// Check implements [store.Store], without faults.
func (s *Store) Check(ctx context.Context) error { return s.inner.Check(ctx) }

// Name returns the name of the wrapped store.
func (s *Store) Name() string { return s.inner.Name() }

// Close closes the wrapped store.
func (s *Store) Close() error { return s.inner.Close() }
