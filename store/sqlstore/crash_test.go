package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/storetest"
)

// A crash is kill -9 of PostgreSQL, with the store's calls in flight.
func TestReopen(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	storetest.RunReopen(t, func(t *testing.T) storetest.Medium {
		database := server.Database(t)
		return storetest.Medium{
			Open: func(t *testing.T) store.Store { return open(t, database) },
			Crash: func(t *testing.T, s store.Store) {
				server.Kill(t)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				server.Restart(t)
			},
		}
	})
}

// One store lives through three crashes of its database while everyone commits:
// each effect is there exactly once if it was acknowledged or settled as
// applied, and not at all if it was refused.
func TestDatabaseIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s := open(t, server.Database(t))
	const writers, crashes, between = 8, 3, 60
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var done, lost atomic.Int64
	progress := make(chan struct{}, 1)
	counts := make([]int, writers)
	var clients sync.WaitGroup
	for i := range writers {
		clients.Go(func() {
			w := &counter{T: t, s: s, k: key(fmt.Sprint(i)), locked: i%2 == 1, lost: &lost}
			for ctx.Err() == nil {
				if w.add() {
					done.Add(1)
					select {
					case progress <- struct{}{}:
					default:
					}
				}
			}
			counts[i] = w.n
		})
	}
	for range crashes {
		for target := done.Load() + between; done.Load() < target; {
			<-progress
		}
		server.Kill(t)
		server.Restart(t)
	}
	for target := done.Load() + between; done.Load() < target; {
		<-progress
	}
	stop()
	clients.Wait()
	for i, want := range counts {
		if got := countOf(t, load(t, s, key(fmt.Sprint(i)))); got != want {
			t.Errorf("actor %d counted %d; %d were acknowledged", i, got, want)
		}
	}
	t.Logf("%d effects, %d outcomes settled by their owners", done.Load(), lost.Load())
}

// counter is the one writer of an actor, and knows how much it added.
type counter struct {
	*testing.T
	s      *sqlstore.Store
	k      actor.Key
	locked bool
	lost   *atomic.Int64
	n      int
}

// add tries to add one, and reports whether it did.
func (w *counter) add() bool {
	// The calls go on to their end after the test has told its writers to stop.
	ctx := w.Context()
	var c *actor.Commit
	var err error
	if w.locked {
		c, err = w.s.LockedTurn(ctx, w.k, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
			next := w.next(row)
			return &next, nil
		})
	} else {
		var rows []actor.Row
		if rows, err = w.s.LoadActors(ctx, []actor.Key{w.k}, actor.LoadOptions{}); err == nil {
			next := w.next(rows[0])
			c, err = &next, w.s.Commit(ctx, []actor.Commit{next})[0]
		}
	}
	if errors.Is(err, actor.ErrAmbiguous) {
		w.lost.Add(1)
		for {
			if err = w.s.Settle(ctx, *c); !errors.Is(err, actor.ErrUnavailable) {
				break
			}
		}
	}
	switch {
	case err == nil:
		w.n++
		return true
	case !errors.Is(err, actor.ErrUnavailable) && !errors.Is(err, actor.ErrStale):
		w.Errorf("%s: %v", w.k, err)
	}
	return false
}

// next adds one to the row, which must show all that was acknowledged.
func (w *counter) next(row actor.Row) actor.Commit {
	if got := countOf(w.T, row); got != w.n {
		w.Errorf("%s counts %d; %d were acknowledged", w.k, got, w.n)
	}
	return write(w.k, row, fmt.Sprintf(`{"n":%d}`, w.n+1))
}
