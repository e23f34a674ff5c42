package throttle

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Counter counts what apps store.
type Counter interface {
	// CountStored counts what an app stores of what some quotas bound. It may take long.
	CountStored(ctx context.Context, app string, quotas []actor.Quota) (actor.Stored, error)
}

const (
	// countAgain is after how long what an app stores is counted again while it grows, and
	// countFull after how long once half of what it may grow by is used up.
	countAgain, countFull = 30 * time.Second, 2 * time.Second
	// countShare bounds the part of the time in which a host counts: one in so many.
	countShare = 20
	// countTimeout bounds a count.
	countTimeout = 5 * time.Minute
)

// stored is what is known of what an app stores. The zero value knows nothing.
type stored struct {
	mu       sync.Mutex
	known    bool
	counted  actor.Stored // what the store had, by the last count
	grown    actor.Stored // by turns of this host, since that count began
	counting bool
	failed   bool      // the last count has
	at       time.Time // when the last count has ended
	took     time.Duration
	quotas   []actor.Quota // that it counted
}

// isDue reports whether a count is to begin, of what quotas bound: the last one is so old, and none is under way. The
// caller has the lock, and begins it.
func (s *stored) isDue(quotas []actor.Quota, now time.Time, age time.Duration) bool {
	switch age = max(age, countShare*s.took); {
	case s.failed:
		age = max(countFull, countShare*s.took)
	case !s.known || !slices.Equal(quotas, s.quotas):
		age = 0
	}
	return !s.counting && now.Sub(s.at) >= age
}

// count counts, and takes over what was found. before is what turns had grown by when it began: that is in the
// store by then, but for what commits under way have.
func (s *stored) count(ctx context.Context, by Counter, app string, quotas []actor.Quota, before actor.Stored) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	began := time.Now()
	found, err := by.CountStored(ctx, app, quotas)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counting, s.at = false, time.Now()
	s.took = s.at.Sub(began)
	if s.failed = err != nil; s.failed {
		return err
	}
	s.known, s.counted, s.quotas = true, found, quotas
	s.grown.Add(before, -1)
	return nil
}
