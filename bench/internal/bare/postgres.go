package bare

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
)

// The names of the roles over a SQL database.
const (
	// TransactionRole makes a turn of a transaction: BEGIN, SELECT FOR UPDATE,
	// UPDATE, COMMIT.
	TransactionRole = "sql-transaction"
	// GroupRole makes groups of turns of one conditional UPDATE each.
	GroupRole = "sql-group"
	// DatabaseRole makes a database, and drops it in the end.
	DatabaseRole = "sql-database"
)

// SQL says how to load a database.
type SQL struct {
	URL        string
	Plan       load.Plan // Outstanding is the number of connections
	StateBytes int
	// Group is the number of rows in a group of [GroupRole], whose
	// Plan.Outstanding counts rows.
	Group int
	// Records has each row of a group bring one of another table, as a recorded
	// call is.
	Records bool
}

// The table has the columns of Greenroom's own that a turn touches, and the same
// room in its pages.
const (
	createTable = `CREATE TABLE IF NOT EXISTS bare_actor (
		app text, type text, id text, version int8 NOT NULL, commit_id uuid NOT NULL, state bytea NOT NULL,
		updated_at timestamptz NOT NULL, PRIMARY KEY (app, type, id))`
	// fillTable leaves alone what an earlier run has filled.
	fillTable = `INSERT INTO bare_actor SELECT 'default', 'Counter', 'c' || n, 1, gen_random_uuid(), $2::bytea, now()
		FROM generate_series(0, $1::int8 - 1) AS n ON CONFLICT (app, type, id) DO NOTHING`
	selectRow = `SELECT version, state FROM bare_actor WHERE app = $1 AND type = $2 AND id = $3 FOR UPDATE`
	updateRow = `UPDATE bare_actor SET version = $4, commit_id = $5, state = $6, updated_at = clock_timestamp()
		WHERE app = $1 AND type = $2 AND id = $3 AND version = $4 - 1`
	updateGroup = `UPDATE bare_actor AS a SET version = u.version, commit_id = u.commit_id, state = u.state, updated_at = clock_timestamp()
		FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[], $5::uuid[], $6::bytea[]) AS u (app, type, id, version, commit_id, state)
		WHERE a.app = u.app AND a.type = u.type AND a.id = u.id AND a.version = u.version - 1 RETURNING a.id`

	createRecords = `CREATE TABLE IF NOT EXISTS bare_record (
		id uuid PRIMARY KEY, commit_id uuid NOT NULL, expires_at timestamptz NOT NULL, record bytea NOT NULL)`
	indexRecords = `CREATE INDEX IF NOT EXISTS bare_record_expiry ON bare_record (expires_at)`
	// updateRecorded is updateGroup with a record for each row.
	updateRecorded = `WITH held AS (
		UPDATE bare_actor AS a SET version = u.version, commit_id = u.commit_id, state = u.state, updated_at = clock_timestamp()
		FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[], $5::uuid[], $6::bytea[], $7::uuid[], $8::bytea[]) AS u (app, type, id, version, commit_id, state, record_id, record)
		WHERE a.app = u.app AND a.type = u.type AND a.id = u.id AND a.version = u.version - 1 RETURNING u.record_id, u.commit_id, u.record)
		INSERT INTO bare_record (id, commit_id, expires_at, record)
		SELECT h.record_id, h.commit_id, clock_timestamp() + interval '1 day', h.record FROM held AS h RETURNING commit_id`
)

// Transaction plays [TransactionRole].
func Transaction(ctx context.Context, s SQL) (load.Result, error) {
	pool := s.open(ctx)
	defer pool.Close()
	return load.Drive(ctx, s.Plan, func(ctx context.Context, _, target, _ int) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var version int64
			var state []byte
			if err := tx.QueryRow(ctx, selectRow, "default", "Counter", id(target)).Scan(&version, &state); err != nil {
				return err
			}
			state[0]++
			_, err := tx.Exec(ctx, updateRow, "default", "Counter", id(target), version+1, commitID(), state)
			return err
		})
	})
}

// Committer connects, and returns what updates one row, whose version it knows, as
// nobody else writes it, and what disconnects. One goroutine at a time calls them.
func (s SQL) Committer(ctx context.Context) (commit func(ctx context.Context, target int) error, end func() error) {
	pool := s.open(ctx)
	must.Get(pool.Exec(ctx, `UPDATE bare_actor SET version = 1`))
	versions := make([]int64, s.Plan.Actors)
	state := make([]byte, s.StateBytes)
	return func(ctx context.Context, target int) error {
		versions[target]++
		tag, err := pool.Exec(ctx, updateRow, "default", "Counter", id(target), versions[target]+1, commitID(), state)
		if err == nil && tag.RowsAffected() != 1 {
			return fmt.Errorf("%d rows were updated", tag.RowsAffected())
		}
		return err
	}, func() error { pool.Close(); return nil }
}

// Group plays [GroupRole]. Each call of the result is one row; latencies are those
// of groups. Every connection has actors of its own, whose versions it knows.
func Group(ctx context.Context, s SQL) (load.Result, error) {
	plan := s.Plan
	plan.Outstanding /= s.Group
	s.Plan.Outstanding = plan.Outstanding
	pool := s.open(ctx)
	defer pool.Close()
	must.Get(pool.Exec(ctx, `UPDATE bare_actor SET version = 1`))
	plan.Actors /= plan.Outstanding
	if plan.Actors < s.Group {
		return load.Result{}, fmt.Errorf("%s has %d actors for a connection; give %d at least", GroupRole, plan.Actors, s.Group)
	}
	versions := make([][]int64, plan.Outstanding)
	for i := range versions {
		versions[i] = make([]int64, plan.Actors)
	}
	state, record := make([]byte, s.StateBytes), make([]byte, recordBytes)
	res, err := load.Drive(ctx, plan, func(ctx context.Context, worker, target, _ int) error {
		apps, types, ids, next := make([]string, s.Group), make([]string, s.Group), make([]string, s.Group), make([]int64, s.Group)
		commits, states := make([][16]byte, s.Group), make([][]byte, s.Group)
		for i := range s.Group {
			n := (target + i*7919) % plan.Actors // spread as turns of random actors are
			versions[worker][n]++
			apps[i], types[i], ids[i], next[i] = "default", "Counter", id(worker*plan.Actors+n), versions[worker][n]+1
			commits[i], states[i] = commitID(), state
		}
		statement, args := updateGroup, []any{apps, types, ids, next, commits, states}
		if s.Records {
			recordIDs, records := make([][16]byte, s.Group), make([][]byte, s.Group)
			for i := range s.Group {
				recordIDs[i], records[i] = commitID(), record
			}
			statement, args = updateRecorded, append(args, recordIDs, records)
		}
		tag, err := pool.Exec(ctx, statement, args...)
		if err == nil && tag.RowsAffected() != int64(s.Group) {
			return fmt.Errorf("%d rows of %d were updated", tag.RowsAffected(), s.Group)
		}
		return err
	})
	res.Calls *= int64(s.Group)
	return res, err
}

// open connects, and fills the table.
func (s SQL) open(ctx context.Context) *pgxpool.Pool {
	cfg := must.Get(pgxpool.ParseConfig(s.URL))
	cfg.MaxConns = int32(s.Plan.Outstanding)
	if s.Group > 0 { // the planner takes a group for far more rows than it has
		for _, name := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin"} {
			cfg.ConnConfig.RuntimeParams[name] = "off"
		}
		cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	}
	pool := must.Get(pgxpool.NewWithConfig(ctx, cfg))
	must.Get(pool.Exec(ctx, createTable))
	must.Get(pool.Exec(ctx, fillTable, s.Plan.Actors, make([]byte, s.StateBytes)))
	if s.Records {
		must.Get(pool.Exec(ctx, createRecords))
		must.Get(pool.Exec(ctx, indexRecords))
	}
	return pool
}
