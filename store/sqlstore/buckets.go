package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// buckets keeps the ranges of tokens that hosts create reminders from.
type buckets struct{ *db }

const bucketFields = `prefix, vector, idx, app, creator, closed_at, owner, epoch, used, delivered_till, created_at, rate`

func scanBucket(row pgx.CollectableRow) (actor.BucketRow, error) {
	var b actor.BucketRow
	var vector string
	var prefix, index, epoch, used, rate int64
	var closed *time.Time
	var till *int64
	err := row.Scan(&prefix, &vector, &index, &b.App, &b.Creator, &closed, &b.Owner, &epoch, &used, &till, &b.CreatedAt, &rate)
	b.Bucket = actor.Bucket{Prefix: actor.Prefix(prefix), Index: uint32(index)}
	copy(b.Bucket.Vector[:], vector)
	b.Epoch, b.Used, b.Rate, b.CreatedAt = uint64(epoch), uint32(used), uint32(rate), b.CreatedAt.UTC()
	if closed != nil {
		b.Closed, b.ClosedAt = true, closed.UTC()
	}
	if till != nil {
		b.DeliveredTill = time.UnixMicro(*till).UTC()
	}
	return b, err
}

// allocateBucket takes the next index of an app and makes its bucket, in one statement.
const allocateBucket = `WITH l AS (
	UPDATE greenroom_lap SET next = CASE WHEN next >= $2 THEN 1 ELSE next + 1 END,
		vector = CASE WHEN next >= $2 THEN $3 ELSE vector END
	WHERE app = $1 RETURNING prefix, vector, next - 1 AS idx
) INSERT INTO greenroom_bucket (prefix, vector, idx, app, creator, owner, epoch, used, created_at)
SELECT l.prefix, l.vector, l.idx, $1, $4, '', 1, 0, now() FROM l RETURNING ` + bucketFields

func (s *buckets) AllocateBucket(ctx context.Context, app string, creator actor.HostID, fresh actor.Vector) (row actor.BucketRow, err error) {
	if err := store.ValidateAllocation(app, fresh); err != nil {
		return row, err
	}
	for range maxAttempts {
		err = s.readFor(ctx, share(app), "allocate a bucket", func(ctx context.Context, conn *pgxpool.Conn) error {
			rows, err := conn.Query(ctx, allocateBucket, app, actor.BucketsOfLap, fresh.String(), string(creator))
			if err != nil {
				return err
			}
			row, err = pgx.CollectExactlyOneRow(rows, scanBucket)
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			// The first bucket of an app. Another app may take the same number at the
			// same moment: then nothing is inserted, and the next try sees it.
			_, err = conn.Exec(ctx, `INSERT INTO greenroom_lap (app, prefix, vector, next)
				SELECT $1, COALESCE(max(prefix), 0) + 1, $2, 0 FROM greenroom_lap ON CONFLICT DO NOTHING`, app, fresh.String())
			return err
		})
		if err != nil || row.App != "" {
			return row, err
		}
	}
	return row, unavailable("allocate a bucket", errors.New("other apps were given a prefix each time"))
}

func bucketArgs(b actor.Bucket) []any {
	return []any{int64(b.Prefix), b.Vector.String(), int64(b.Index)}
}

const thisBucket = ` WHERE prefix = $1 AND vector = $2 AND idx = $3`

// AssignBucket implements [store.Reminders]. Asked again since the answer was lost, it
// finds what it has done.
func (s *buckets) AssignBucket(ctx context.Context, b actor.Bucket, epoch uint64, owner actor.HostID) (row actor.BucketRow, done bool, err error) {
	err = s.read(ctx, "assign a bucket", func(ctx context.Context) error {
		rows, err := s.leases.Query(ctx, `UPDATE greenroom_bucket SET owner = $5, epoch = $4 + 1`+thisBucket+
			` AND (epoch = $4 OR epoch = $4 + 1 AND owner = $5) RETURNING `+bucketFields, append(bucketArgs(b), int64(epoch), string(owner))...)
		if err != nil {
			return err
		}
		row, err = pgx.CollectExactlyOneRow(rows, scanBucket)
		if done = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return row, done && err == nil, err
}

func (s *buckets) CloseBucket(ctx context.Context, b actor.Bucket) error {
	_, err := s.execFor(ctx, shareOfPrefix(b.Prefix), "close a bucket", `UPDATE greenroom_bucket SET closed_at = now()`+thisBucket+` AND closed_at IS NULL`, bucketArgs(b)...)
	return err
}

func (s *buckets) SaveBuckets(ctx context.Context, progress []store.BucketProgress) error {
	var prefixes, indexes, used, epochs, tills, rates int8s
	var vectors texts
	for _, p := range progress {
		prefixes, vectors, indexes = append(prefixes, int64(p.Bucket.Prefix)), append(vectors, p.Bucket.Vector.String()), append(indexes, int64(p.Bucket.Index))
		till := int64(-1 << 63) // not said
		if !p.DeliveredTill.IsZero() {
			till = p.DeliveredTill.UnixMicro()
		}
		used, epochs, tills, rates = append(used, int64(p.Used)), append(epochs, int64(p.Epoch)), append(tills, till), append(rates, int64(p.Rate))
	}
	_, err := s.execFor(ctx, hostItself, "save buckets", `UPDATE greenroom_bucket AS b SET used = GREATEST(b.used, c.used),
		delivered_till = CASE WHEN c.epoch = b.epoch AND c.till > -9223372036854775808 THEN GREATEST(b.delivered_till, c.till) ELSE b.delivered_till END,
		rate = CASE WHEN c.epoch = b.epoch THEN c.rate ELSE b.rate END
		FROM unnest($1::int8[], $2::text[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[]) AS c (prefix, vector, idx, used, epoch, till, rate)
		WHERE b.prefix = c.prefix AND b.vector = c.vector AND b.idx = c.idx`, prefixes, vectors, indexes, used, epochs, tills, rates)
	return err
}

func (s *buckets) RemoveBucket(ctx context.Context, b actor.Bucket, closedBefore time.Time) (gone bool, err error) {
	err = s.readFor(ctx, shareOfPrefix(b.Prefix), "remove a bucket", func(ctx context.Context, conn *pgxpool.Conn) error {
		if _, err := conn.Exec(ctx, `DELETE FROM greenroom_bucket`+thisBucket+` AND closed_at < $4
			AND NOT EXISTS (SELECT 1 FROM greenroom_reminder AS r WHERE r.prefix = $1 AND r.vector = $2 AND r.token BETWEEN $5 AND $6)`,
			append(bucketArgs(b), closedBefore, int64(b.First()), int64(b.First())+actor.BucketSize-1)...); err != nil {
			return err
		}
		return conn.QueryRow(ctx, `SELECT NOT EXISTS (SELECT 1 FROM greenroom_bucket`+thisBucket+`)`, bucketArgs(b)...).Scan(&gone)
	})
	return gone && err == nil, err
}

func (s *buckets) Buckets(ctx context.Context, after actor.Bucket, limit int) ([]actor.BucketRow, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	vector := ""
	if after != (actor.Bucket{}) {
		vector = after.Vector.String()
	}
	return query(ctx, s.db, hostItself, "list buckets", scanBucket, `SELECT `+bucketFields+` FROM greenroom_bucket WHERE (prefix, vector, idx) > ($1, $2, $3)
		ORDER BY prefix, vector, idx LIMIT $4`, int64(after.Prefix), vector, int64(after.Index), limit)
}
