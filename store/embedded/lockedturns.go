package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// lockedTurns runs turns that lock their actors.
type lockedTurns struct {
	*writer
	locks keyLocks
}

// lockedTurnTries is how often a locked turn runs before it gives up against
// commits from outside the lock: of one process, and few, since warm and locked
// turns of an actor exclude each other.
const lockedTurnTries = 10

// LockedTurn implements [store.Actors]. The lock is in memory, since there is
// one process; mutual exclusion of commits comes from the version alone.
func (s *lockedTurns) LockedTurn(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (*actor.Commit, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if err := s.locks.lock(ctx, key); err != nil {
		return nil, err
	}
	defer s.locks.unlock(key)
	for try := 1; ; try++ {
		c, err := s.try(ctx, key, fn)
		if !errors.Is(err, errOvertaken) {
			return c, err
		}
		if try == lockedTurnTries {
			return nil, fmt.Errorf("%s was overtaken %d times: %w", key, try, actor.ErrStale)
		}
	}
}

// errOvertaken is a commit from outside the lock that came between.
var errOvertaken = errors.New("another writer committed during a locked turn")

func (s *lockedTurns) try(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (*actor.Commit, error) {
	f, err := s.find(&actorKeys)
	if err != nil {
		return nil, unavailable(err)
	}
	stored, err := s.load(ctx, f, key)
	f.close()
	if err != nil {
		return nil, err
	}
	if stored.damage != "" {
		return nil, &store.DamagedError{Rows: []store.DamagedRow{stored.damaged(key)}}
	}
	c, err := fn(ctx, stored.row)
	if err != nil || c == nil {
		return nil, err
	}
	if err := store.ValidateTurn(c, key, stored.row.Version); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var refusal error
	err = s.write(ctx, writeOptions{}, func(tx *tx) (err error) {
		calls := callsOf([]actor.Commit{*c})
		if err := tx.records.lookUp(calls); err != nil {
			return unavailable(err)
		}
		refusal, err = tx.commit(c, calls)
		return unavailable(err)
	})
	switch {
	case errors.Is(err, actor.ErrAmbiguous):
		return c, err
	case err != nil:
		return nil, err
	case errors.Is(refusal, actor.ErrStale):
		return nil, errOvertaken
	case refusal != nil:
		return nil, refusal
	}
	return c, nil
}

// keyLocks are the locks of locked turns. A lock exists while somebody holds it
// or waits for it.
type keyLocks struct {
	mu    sync.Mutex
	byKey map[actor.Key]*keyLock
}

type keyLock struct {
	users int           // holder and waiters
	token chan struct{} // of capacity 1; full: held
}

func (l *keyLocks) lock(ctx context.Context, k actor.Key) error {
	l.mu.Lock()
	if l.byKey == nil {
		l.byKey = make(map[actor.Key]*keyLock)
	}
	kl := l.byKey[k]
	if kl == nil {
		kl = &keyLock{token: make(chan struct{}, 1)}
		l.byKey[k] = kl
	}
	kl.users++
	l.mu.Unlock()
	select {
	case kl.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		l.drop(k, kl)
		return ctx.Err()
	}
}

func (l *keyLocks) unlock(k actor.Key) {
	l.mu.Lock()
	kl := l.byKey[k]
	l.mu.Unlock()
	<-kl.token
	l.drop(k, kl)
}

func (l *keyLocks) drop(k actor.Key, kl *keyLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kl.users--; kl.users == 0 {
		delete(l.byKey, k)
	}
}
