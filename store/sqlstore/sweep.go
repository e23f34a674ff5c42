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
	mu    sync.Mutex
	swept [shards]time.Time
}

// sweepMargin is above the longest statement and the largest difference between
// the clocks of two database nodes: a tombstone of an earlier time than what
// was swept can still appear for as long.
const sweepMargin = MaxTimeout + time.Minute

// sweepShard asks for deleted_at again outside: if the actor was revived in
// between, PostgreSQL checks that condition, not the one inside, on the new row.
const sweepShard = `DELETE FROM greenroom_actor AS a USING (
	SELECT app, type, id FROM greenroom_actor
	WHERE shard = $1 AND deleted_at >= $2 AND deleted_at < $3
	ORDER BY deleted_at LIMIT $4
) AS old
WHERE a.app = old.app AND a.type = old.type AND a.id = old.id AND a.deleted_at < $3`

// SweepTombstones removes old tombstones, shard by shard.
func (s *Store) SweepTombstones(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.sweepShards(ctx, limit, &s.sweep, sweepShard, func(context.Context) (time.Time, error) { return before, nil })
}

// sweepShards runs a statement that removes at most $4 rows of shard $1 from a
// time $2 up to a bound $3, until the limit or the bound is reached everywhere.
func (s *Store) sweepShards(ctx context.Context, limit int, w *sweeper, statement string, bound func(context.Context) (time.Time, error)) (int, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return 0, err
	}
	now, err := s.Now(ctx)
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
			n := 0
			err := s.read(ctx, "sweep", func(ctx context.Context) error {
				tag, err := s.general.Exec(ctx, statement, shard, w.from(shard, before), before, batch)
				n = int(tag.RowsAffected())
				return err
			})
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
