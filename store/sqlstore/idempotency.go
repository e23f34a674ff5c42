package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// taken are the commits, given as $1 with the IDs of their records as $2, of
// which a key is recorded already.
const taken = takenHead + `$1::uuid[], $2::uuid[]` + takenTail

// takenRecords is the same of the records of [writeCommits].
const takenRecords = takenHead + `$21::uuid[], $22::uuid[]` + takenTail

const (
	takenHead = `SELECT r.commit_id FROM unnest(`
	takenTail = `) AS r (commit_id, id)
	JOIN greenroom_idempotency AS i ON i.id = r.id WHERE i.expires_at > clock_timestamp()`
)

// writeRecords is the clause of [writeCommits] that records calls. A key may be
// taken although the commit was held: by one that came between deciding and
// writing, of records alone, which moves no version, or of an actor without a row.
// Or an expired record is in its place. Either way the primary key fails the group
// as a whole, and it goes again after removeExpired. An ON CONFLICT, which would
// spare that, costs every other group half as much again. IS TRUE has PostgreSQL
// look commits up in a hash table instead of comparing each with each.
const writeRecords = `recorded AS (
	INSERT INTO greenroom_idempotency (id, commit_id, shard, expires_at, record)
	SELECT r.id, r.commit_id, r.shard, clock_timestamp() + r.ttl * interval '1 microsecond', r.record
	FROM unnest($21::uuid[], $22::uuid[], $23::int2[], $24::int8[], $25::bytea[]) AS r (commit_id, id, shard, ttl, record)
	WHERE (r.commit_id IN (SELECT h.commit_id FROM held AS h)) IS TRUE
	RETURNING id
)`

// removeExpired makes room for new records of the same calls.
const removeExpired = `DELETE FROM greenroom_idempotency WHERE id = ANY ($1::uuid[]) AND expires_at <= clock_timestamp()`

// isRecordInPlace tells the failure that writeRecords speaks of.
func isRecordInPlace(err *pgconn.PgError) bool {
	return err.Code == "23505" && err.ConstraintName == "greenroom_idempotency_pkey"
}

// makeRoom removes expired records of the calls that a group records, if the
// group failed for one, and returns what is left to be decided: a commit whose
// own records are in its way was applied before, and that is its answer.
func (s *Store) makeRoom(ctx context.Context, group []*attempt, cause error) ([]*attempt, error) {
	var server *pgconn.PgError
	if !errors.As(cause, &server) || !isRecordInPlace(server) {
		return group, nil
	}
	var k records
	for _, a := range group {
		k.add(a.commit)
	}
	err := s.read(ctx, "remove expired records", func(ctx context.Context) error {
		_, err := s.general.Exec(ctx, removeExpired, k.ids)
		return err
	})
	if err != nil {
		return group, err
	}
	own, err := s.recordedBy(ctx, commitsOf(group))
	if err != nil || len(own) == 0 {
		return group, err
	}
	var left []*attempt
	for _, a := range group {
		if !own[a.commit.ID] {
			left = append(left, a)
		}
	}
	return left, nil
}

// records are the recorded calls of one statement, turned on their side.
type records struct {
	dialect        dialect // decides about shards
	ttls           int8s
	commitIDs, ids uuids
	shards         int2s
	values         byteas
	buffer         []byte // that values are in
}

// reset empties the records, and keeps their memory.
func (k *records) reset() {
	*k = records{
		dialect: k.dialect, ttls: k.ttls[:0], commitIDs: k.commitIDs[:0], ids: k.ids[:0],
		shards: k.shards[:0], values: k.values[:0], buffer: k.buffer[:0],
	}
}

func (k *records) add(c *actor.Commit) {
	for i := range c.Records {
		r := &c.Records[i]
		id := store.RecordIDOf(r.Call())
		k.ttls = append(k.ttls, r.TTL.Microseconds())
		k.commitIDs = append(k.commitIDs, uuid(c.ID))
		k.ids = append(k.ids, uuid(id))
		k.shards = append(k.shards, k.dialect.recordShard(id))
		start := len(k.buffer)
		k.buffer = store.AppendRecord(k.buffer, r)
		k.values = append(k.values, k.buffer[start:]) // what it is moved out of, it keeps
	}
}

// recordShard says where in the index of expiries a record goes. On PostgreSQL
// all go to one end of it, which is where an index is cheapest to write to: one
// end for each shard takes almost twice as long. Records that are there already
// may be in any shard.
func (d dialect) recordShard(id store.RecordID) int16 {
	if d == cockroach {
		return int16(id[0] % shards)
	}
	return 0
}

// refusals says why commits that did not hold were refused: a key that is
// recorded goes before a firing that was taken, and that before a version that moved on.
func (s *Store) refusals(ctx context.Context, refused []*attempt) {
	var keyed records
	for _, a := range refused {
		a.err = actor.ErrStale
		keyed.add(a.commit)
	}
	s.refuseTaken(ctx, refused)
	if len(keyed.ids) == 0 {
		return
	}
	exist, err := s.takenBy(ctx, &keyed)
	var own map[actor.CommitID]bool
	if err == nil && len(exist) > 0 {
		own, err = s.recordedBy(ctx, commitsOf(refused))
	}
	for _, a := range refused {
		switch {
		case len(a.commit.Records) == 0:
		case err != nil:
			a.err = unavailable("commit: refused, and why cannot be read", err)
		case own[a.commit.ID]:
			a.err = nil // it was applied before
		case exist[a.commit.ID]:
			a.err = actor.ErrKeyExists
		}
	}
}

// refuseTaken answers the commits with a step that was taken.
func (s *Store) refuseTaken(ctx context.Context, refused []*attempt) {
	var taken map[actor.CommitID]bool
	err := s.read(ctx, "find taken firings", func(ctx context.Context) (err error) {
		taken, err = stepsTaken(ctx, s.general, commitsOf(refused))
		return err
	})
	for _, a := range refused {
		switch {
		case len(a.commit.Reminders.Steps) == 0:
		case err != nil:
			a.err = unavailable("commit: refused, and why cannot be read", err)
		case taken[a.commit.ID]:
			a.err = actor.ErrFiringTaken
		}
	}
}

// takenBy returns the commits that have a key that is recorded already.
func (s *Store) takenBy(ctx context.Context, k *records) (map[actor.CommitID]bool, error) {
	exist := make(map[actor.CommitID]bool)
	err := s.read(ctx, "find recorded keys", func(ctx context.Context) error {
		clear(exist)
		rows, err := s.general.Query(ctx, taken, k.commitIDs, k.ids)
		if err != nil {
			return err
		}
		var id uuid
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
			exist[actor.CommitID(id)] = true
			return nil
		})
		return err
	})
	return exist, err
}

// recordedBy returns the commits that have a record of their own, expired or not.
func (s *Store) recordedBy(ctx context.Context, commits []*actor.Commit) (map[actor.CommitID]bool, error) {
	var k records
	for _, c := range commits {
		k.add(c)
	}
	own := make(map[actor.CommitID]bool)
	if len(k.ids) == 0 {
		return own, nil
	}
	err := s.read(ctx, "settle: read records", func(ctx context.Context) error {
		clear(own)
		rows, err := s.general.Query(ctx, `SELECT i.commit_id FROM unnest($1::uuid[], $2::uuid[]) AS r (commit_id, id)
			JOIN greenroom_idempotency AS i ON i.id = r.id AND i.commit_id = r.commit_id`, k.commitIDs, k.ids)
		if err != nil {
			return err
		}
		var id uuid
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
			own[actor.CommitID(id)] = true
			return nil
		})
		return err
	})
	return own, err
}

const readRecords = `SELECT c.n, i.record, i.expires_at, clock_timestamp()
FROM unnest($1::uuid[], $2::int8[]) AS c (id, n) JOIN greenroom_idempotency AS i ON i.id = c.id`

// LoadIdempotency reads recorded calls, one statement for each 256 of them.
func (s *Store) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
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

func (s *Store) loadRecords(ctx context.Context, calls []actor.KeyedCall, into []actor.Recorded) error {
	var ids uuids
	var places int8s
	for i, c := range calls {
		ids = append(ids, uuid(store.RecordIDOf(c)))
		places = append(places, int64(i))
	}
	return s.read(ctx, "load recorded calls", func(ctx context.Context) error {
		clear(into)
		rows, err := s.general.Query(ctx, readRecords, ids, places)
		if err != nil {
			return err
		}
		var n int64
		var value []byte
		var expires, now time.Time
		_, err = pgx.ForEachRow(rows, []any{&n, &value, &expires, &now}, func() error {
			if expires.After(now) {
				into[n] = recordedAs(calls[n], value, expires.Sub(now))
			}
			return nil
		})
		return err
	})
}

// recordedAs reads the value of a record that answers for so much longer.
func recordedAs(c actor.KeyedCall, value []byte, left time.Duration) actor.Recorded {
	r, err := store.DecodeRecord(value)
	if err != nil {
		return actor.Recorded{Err: fmt.Errorf("idempotency record of %s: %w: %w", c, actor.ErrStateDamaged, err)}
	}
	r.Actor, r.Method, r.Key, r.TTL = c.Actor, c.Method, c.Key, left
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
func (s *Store) SweepIdempotency(ctx context.Context, limit int) (int, error) {
	return s.sweepShards(ctx, limit, &s.recordSweep, sweepRecords, s.Now)
}
