package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/store"
)

// sweeper remembers how far each shard of an index has been swept. Rows swept
// before leave garbage at the front of the index, which CockroachDB keeps for
// hours; scans start above it.
type sweeper struct {
	*db
	// statement removes at most $4 rows of shard $1, from time $2 up to bound $3.
	statement string

	mu    sync.Mutex
	swept [shards]time.Time
}

// sweepMargin is above the longest statement and the largest difference between
// the clocks of two database nodes: a tombstone of an earlier time than what
// was swept can still appear for as long.
const sweepMargin = MaxTimeout + time.Minute

// sweep removes rows until the limit or the bound is reached everywhere.
func (w *sweeper) sweep(ctx context.Context, limit int, bound func(context.Context) (time.Time, error)) (int, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return 0, err
	}
	now, err := w.Now(ctx)
	if err != nil {
		return 0, err
	}
	before, err := bound(ctx)
	if err != nil {
		return 0, err
	}
	removed := 0
	for shard := range shards {
		for removed < limit {
			batch := min(limit-removed, maxGroupRows)
			changed, err := w.execFor(ctx, hostItself, "sweep", w.statement, shard, w.from(shard, before), before, batch)
			n := int(changed)
			removed += n
			if err != nil {
				return removed, err
			}
			if n < batch {
				w.done(shard, before, now)
				break
			}
		}
	}
	return removed, nil
}

// from returns where to start looking in a shard.
func (w *sweeper) from(shard int, before time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if from := w.swept[shard]; from.Before(before) && !from.IsZero() {
		return from
	}
	return time.Unix(0, 0)
}

// done notes that a shard has no tombstone before the given time, seen at now.
func (w *sweeper) done(shard int, before, now time.Time) {
	if now.Before(before) {
		before = now
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if from := before.Add(-sweepMargin); from.After(w.swept[shard]) {
		w.swept[shard] = from
	}
}
