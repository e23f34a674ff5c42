package bare

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
)

const (
	// InsertRole makes a reminder of a single INSERT.
	InsertRole = "sql-insert"
	// BulkRole writes very many reminders into Greenroom's own table.
	BulkRole = "sql-bulk"
)

// The table has the columns and indexes of Greenroom's own.
const (
	createReminders = `CREATE TABLE IF NOT EXISTS bare_reminder (
		app text, type text, id text, name text, written int2 NOT NULL, prefix int8 NOT NULL, vector text NOT NULL, token int8 NOT NULL,
		bucket int8 NOT NULL, version int8 NOT NULL, spec text NOT NULL, content_type text NOT NULL, payload bytea NOT NULL, due int8 NOT NULL,
		fire_at int8 NOT NULL, remaining int8 NOT NULL, failures int8 NOT NULL, paused bool NOT NULL, last_error text NOT NULL,
		created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, PRIMARY KEY (app, type, id, name))`
	indexTokens    = `CREATE UNIQUE INDEX IF NOT EXISTS bare_reminder_token ON bare_reminder (prefix, vector, token)`
	indexDue       = `CREATE INDEX IF NOT EXISTS bare_reminder_due ON bare_reminder (prefix, vector, bucket, fire_at, token) WHERE NOT paused`
	insertReminder = `INSERT INTO bare_reminder VALUES ('default', 'Counter', $1, $2, 2, 1, $3, $4::int8, $4::int8 / 100000, 1, $5, '', $6, $7::int8, $7::int8, 1, 0, false, '', now(), now())`
)

// insertSpec is what Greenroom keeps of a reminder that fires once, as JSON.
const insertSpec = `{"method":"Add","at":1800000000000000}`

// Insert plays [InsertRole].
func Insert(ctx context.Context, s SQL) (load.Result, error) {
	pool := s.open(ctx)
	defer pool.Close()
	for _, statement := range []string{createReminders, indexTokens, indexDue} {
		must.Get(pool.Exec(ctx, statement))
	}
	const due = 1_800_000_000_000_000
	vector := rand.Text() // of this run
	return load.Drive(ctx, s.Plan, func(ctx context.Context, worker, target, n int) error {
		token := int64(worker)<<32 + int64(n) // each connection has its own, one after the other
		_, err := pool.Exec(ctx, insertReminder, id(target), vector+strconv.FormatInt(token, 36), vector, token, insertSpec, []byte("1"), due+token)
		return err
	})
}

// Bulk says which reminders to write: as many as tokens are in the buckets, at most Count.
type Bulk struct {
	URL     string
	Buckets []BulkBucket
	Count   int
	// First is when the first of them is due, in microseconds since 1970, and Span over how
	// many microseconds from then on the others are, spread over all buckets. Of so many as
	// Every one is due at Past instead, unless it is 0.
	First, Span int64
	Every, Past int64
	App, Type   string
	Actors      int
	Spec        string // what the store keeps of it, with %s for the due time
}

// BulkBucket is a bucket that they are written into.
type BulkBucket struct {
	Prefix, Index, First int64
	Vector               string
	Tokens               int64
}

// Load plays [BulkRole]. The rows are those of reminders that were set and not touched
// since.
func Load(ctx context.Context, s Bulk) (written int, err error) {
	conn := must.Get(pgx.Connect(ctx, s.URL))
	defer must.Close(func() error { return conn.Close(context.WithoutCancel(ctx)) })
	must.Get(conn.Exec(ctx, `SET synchronous_commit = off`))
	for _, b := range s.Buckets {
		n := min(b.Tokens, int64(s.Count-written))
		// The n-th token of a bucket is not the n-th to be due.
		_, err := conn.Exec(ctx, `INSERT INTO greenroom_reminder (app, type, id, name, written, prefix, vector, token, bucket, version, spec,
			content_type, payload, due, fire_at, remaining, failures, paused, last_error, created_at, updated_at)
			SELECT $1, $2, 'c' || (n % $3), 'b' || ($6 + n), 2, $4, $5, $6 + n, $7, 1, replace($8, '%s', t.due::text), '', '1', t.due, t.due, 1, 0, false, '', now(), now()
			FROM generate_series(0, $9::int8 - 1) AS n, LATERAL (SELECT CASE WHEN $12::int8 > 0 AND n % greatest($12::int8, 1) = 0 THEN $13::int8
				ELSE $10::int8 + (n * 7919 % $9::int8) * $11::int8 / $9::int8 END AS due) AS t`,
			s.App, s.Type, int64(s.Actors), b.Prefix, b.Vector, b.First, b.Index, s.Spec, n, s.First, s.Span, s.Every, s.Past)
		if err != nil {
			return written, fmt.Errorf("write bucket %d: %w", b.Index, err)
		}
		written += int(n)
	}
	_, err = conn.Exec(ctx, `VACUUM ANALYZE greenroom_reminder`)
	return written, err
}
