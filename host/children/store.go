package children

import (
	"context"
	"fmt"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
)

// Committer is what a host needs of a store; [host/storage] has it as well.
type Committer interface {
	LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error)
	Commit(ctx context.Context, commits []actor.Commit) []error
	LockedTurn(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (*actor.Commit, error)
	Settle(ctx context.Context, c actor.Commit) error
	Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error)
	LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error)
	Shared() bool
}

// Store is a store with the rows of children in front: what is asked of children is answered from
// memory, and the rest by the store behind.
type Store struct {
	*Families
	behind Committer
}

// NewStore returns the store behind, with the children of families in front.
func NewStore(families *Families, behind Committer) *Store { return &Store{families, behind} }

// LoadActors returns rows in the order of keys, as package store has it.
func (s *Store) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	if !slices.ContainsFunc(keys, actor.Key.IsAnonymous) {
		return s.behind.LoadActors(ctx, keys, opts)
	}
	return split(keys, func(key actor.Key) actor.Row { return s.rowOf(key) }, s, func(others []actor.Key) ([]actor.Row, error) {
		return s.behind.LoadActors(ctx, others, opts)
	})
}

// Versions returns the versions of rows in the order of keys.
func (s *Store) Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error) {
	if !slices.ContainsFunc(keys, actor.Key.IsAnonymous) {
		return s.behind.Versions(ctx, keys)
	}
	version := func(key actor.Key) actor.RowVersion {
		row := s.rowOf(key)
		return actor.RowVersion{Version: row.Version, Deleted: row.Deleted}
	}
	return split(keys, version, s, func(others []actor.Key) ([]actor.RowVersion, error) { return s.behind.Versions(ctx, others) })
}

// split answers for the children among keys by own, with the lock, and for the others by rest.
func split[T any](keys []actor.Key, own func(actor.Key) T, s *Store, rest func([]actor.Key) ([]T, error)) ([]T, error) {
	var others []actor.Key
	for _, key := range keys {
		if !key.IsAnonymous() {
			others = append(others, key)
		}
	}
	var found []T
	var err error
	if len(others) > 0 {
		if found, err = rest(others); len(found) < len(others) {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]T, len(keys))
	for i, key := range keys {
		if key.IsAnonymous() {
			all[i] = own(key)
		} else {
			all[i], found = found[0], found[1:]
		}
	}
	return all, err
}

// Commit makes commits durable and applies them to children, each whole or not at all.
func (s *Store) Commit(ctx context.Context, commits []actor.Commit) []error {
	if !hasChildren(commits) && !s.mayEnd(commits) {
		return s.behind.Commit(ctx, commits)
	}
	errs := make([]error, len(commits))
	own := make([]actor.Commit, len(commits))
	var rest []actor.Commit
	var at []int // places of rest in commits
	for i := range commits {
		var others actor.Commit
		own[i], others = parts(&commits[i])
		switch {
		case !s.check(&own[i]):
			errs[i] = fmt.Errorf("a volatile child is gone, or not as it was read: %w", actor.ErrStale)
		case writes(&others):
			rest, at = append(rest, others), append(at, i)
		default:
			if errs[i] = s.fence(ctx, others.Fences); errs[i] == nil {
				s.apply(&own[i], &others)
			}
		}
	}
	if len(rest) == 0 {
		return errs
	}
	for n, err := range s.behind.Commit(ctx, rest) {
		i := at[n]
		errs[i] = err
		s.landed(&own[i], &rest[n], err)
	}
	return errs
}

// landed applies to the children what a commit does, or puts them in doubt, as its outcome in the store says.
func (s *Store) landed(own, rest *actor.Commit, err error) {
	switch {
	case err == nil:
		s.apply(own, rest)
	case isAmbiguous(err):
		s.mu.Lock()
		s.doubts(own, rest)
		s.mu.Unlock()
	}
}

// Settle decides an ambiguous commit.
func (s *Store) Settle(ctx context.Context, c actor.Commit) error {
	own, others := parts(&c)
	err := s.behind.Settle(ctx, others)
	switch {
	case err == nil:
		s.apply(&own, &others)
	case isStale(err):
		s.mu.Lock()
		s.undoubts(&own, &others)
		s.mu.Unlock()
	}
	return err
}

// LockedTurn is that of the store. A child has no locked turns, but a parent has them once its type is placed any, and
// such a turn may end its life.
func (s *Store) LockedTurn(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (*actor.Commit, error) {
	if key.IsAnonymous() {
		return nil, fmt.Errorf("locked turn of a volatile child: %w", actor.ErrActorNotFound)
	}
	c, err := s.behind.LockedTurn(ctx, key, fn)
	if c != nil {
		s.landed(&actor.Commit{ID: c.ID}, c, err)
	}
	return c, err
}

// LoadIdempotency is that of the store: calls of children are not recorded.
func (s *Store) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	return s.behind.LoadIdempotency(ctx, calls)
}

// Shared is that of the store.
func (s *Store) Shared() bool { return s.behind.Shared() }

// mayEnd reports whether commits delete an actor that has a family. Few commits delete any, and the others do
// not wait for the lock.
func (s *Store) mayEnd(commits []actor.Commit) bool {
	for i := range commits {
		for j := range commits[i].Rows {
			if w := &commits[i].Rows[j]; w.Delete && s.has(w.Key) {
				return true
			}
		}
	}
	return false
}

// check reports whether the children of a commit are as it has read them.
func (s *Store) check(own *actor.Commit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range own.Rows {
		if !s.holds(own.Rows[i].Fence()) {
			return false
		}
	}
	for _, f := range own.Fences {
		if !s.holds(f) {
			return false
		}
	}
	return true
}

// apply applies the children's part of a commit after the store has applied the rest. A parent that is
// deleted or passes away leaves no children.
func (s *Store) apply(own, rest *actor.Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range own.Rows {
		s.write(own.ID, &own.Rows[i])
	}
	for i := range rest.Rows {
		if rest.Rows[i].Delete {
			s.end(rest.Rows[i].Key)
		}
	}
}

// fence confirms that actors are as a commit has read them. The commit does nothing else in the store.
func (s *Store) fence(ctx context.Context, read []actor.RowFence) error {
	if len(read) == 0 || !s.behind.Shared() { // this host alone writes, and its turns are in order
		return nil
	}
	keys := make([]actor.Key, len(read))
	for i := range read {
		keys[i] = read[i].Key
	}
	now, err := s.behind.Versions(ctx, keys)
	if err != nil {
		return fmt.Errorf("confirm version: %w", err)
	}
	for i := range read {
		if now[i].Version != read[i].Version {
			return fmt.Errorf("%s has version %d, and version %d was read: %w", read[i].Key, now[i].Version, read[i].Version, actor.ErrStale)
		}
	}
	return nil
}
