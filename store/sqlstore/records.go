package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// records keeps recorded calls.
type records struct {
	*db
	sweeper sweeper
}

// takenBy returns the commits that have a key that is recorded already.
func (s *records) takenBy(ctx context.Context, of share, k *recordColumns) (map[actor.CommitID]bool, error) {
	ids, err := query(ctx, s.db, of, "find recorded keys", pgx.RowTo[uuid], taken, k.commitIDs, k.ids)
	return commitSet(ids), err
}

func commitSet(ids []uuid) map[actor.CommitID]bool {
	set := make(map[actor.CommitID]bool, len(ids))
	for _, id := range ids {
		set[actor.CommitID(id)] = true
	}
	return set
}

// recordedBy returns the commits that have a record of their own, expired or not.
func (s *records) recordedBy(ctx context.Context, commits []*actor.Commit) (map[actor.CommitID]bool, error) {
	var k recordColumns
	for _, c := range commits {
		k.add(c)
	}
	if len(k.ids) == 0 {
		return nil, nil
	}
	ids, err := query(ctx, s.db, shareOfCommits(commits), "settle: read records", pgx.RowTo[uuid], `SELECT i.commit_id FROM unnest($1::uuid[], $2::uuid[]) AS r (commit_id, id)
		JOIN greenroom_idempotency AS i ON i.id = r.id AND i.commit_id = r.commit_id`, k.commitIDs, k.ids)
	return commitSet(ids), err
}

const readRecords = `SELECT c.n, i.record, i.expires_at, clock_timestamp()
FROM unnest($1::uuid[], $2::int8[]) AS c (id, n) JOIN greenroom_idempotency AS i ON i.id = c.id`

// LoadIdempotency reads recorded calls, one statement for each 256 of them.
func (s *records) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	if err := store.ValidateCalls(calls); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := make([]actor.Recorded, len(calls))
	for start := 0; start < len(calls); start += maxGroupRows {
		end := min(start+maxGroupRows, len(calls))
		if err := s.loadRecords(ctx, calls[start:end], found[start:end]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (s *records) loadRecords(ctx context.Context, calls []actor.KeyedCall, into []actor.Recorded) error {
	var ids uuids
	var places int8s
	for i, c := range calls {
		ids = append(ids, uuid(store.RecordIDOf(c)))
		places = append(places, int64(i))
	}
	of := shareOf(len(calls), func(i int) string { return calls[i].Actor.App })
	return s.readFor(ctx, of, "load recorded calls", func(ctx context.Context, conn *pgxpool.Conn) error {
		clear(into)
		var n int64
		var value []byte
		var expires, now time.Time
		return each(ctx, conn, []any{&n, &value, &expires, &now}, func() error {
			if expires.After(now) {
				into[n] = recordedAs(calls[n], value, expires.Sub(now))
			}
			return nil
		}, readRecords, ids, places)
	})
}

// recordedAs reads the value of a record that answers for so much longer.
func recordedAs(c actor.KeyedCall, value []byte, ttl time.Duration) actor.Recorded {
	r, err := store.DecodeRecord(value)
	if err != nil {
		return actor.Recorded{Err: fmt.Errorf("idempotency record of %s: %w: %w", c, actor.ErrStateDamaged, err)}
	}
	r.Actor, r.Method, r.Key, r.TTL = c.Actor, c.Method, c.Key, ttl
	return actor.Recorded{Found: true, Record: r}
}

// sweepRecords removes expired records of one shard, from the time on that the
// last sweep left off.
const sweepRecords = `DELETE FROM greenroom_idempotency AS i USING (
	SELECT id FROM greenroom_idempotency
	WHERE shard = $1 AND expires_at >= $2 AND expires_at <= $3
	ORDER BY expires_at LIMIT $4
) AS old
WHERE i.id = old.id AND i.expires_at <= $3`

// SweepIdempotency removes expired records, shard by shard.
func (s *records) SweepIdempotency(ctx context.Context, limit int) (int, error) {
	return s.sweeper.sweep(ctx, limit, s.Now)
}
