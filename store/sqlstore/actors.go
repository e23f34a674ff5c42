package sqlstore

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// actors reads the rows of actors, and sweeps tombstones.
type actors struct {
	*db
	sweeper *sweeper
}

const (
	loadHead = `SELECT c.n, a.version, a.commit_id, a.life, a.deleted_at IS NOT NULL, a.generation, a.state_schema, a.format, a.state, a.updated_at, a.spawned, a.method_set, a.born_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[]) AS c (app, type, id, n)
JOIN greenroom_actor AS a ON a.app = c.app AND a.type = c.type AND a.id = c.id`

	// staleClause reads the past on CockroachDB, where a plain read would wait
	// for a row lock: a second younger than actor.MaxStaleness, for the way back.
	staleClause = ` AS OF SYSTEM TIME '-4s'`
)

// LoadActors reads the rows in groups, each one statement.
func (s *actors) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	if err := store.ValidateKeys(keys); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rows := make([]actor.Row, len(keys))
	var damaged store.DamagedError
	remaining := int64(math.MaxInt64)
	if opts.MaxBytes > 0 {
		remaining = opts.MaxBytes
	}
	for start := 0; start < len(keys); start += maxGroupRows {
		end := min(start+maxGroupRows, len(keys))
		if remaining <= 0 {
			leaveOut(rows[start:end])
			continue
		}
		read, err := s.loadSome(ctx, opts, keys[start:end], rows[start:end], remaining, &damaged)
		if err != nil {
			return nil, err
		}
		remaining -= read
	}
	if len(damaged.Rows) > 0 {
		return rows, &damaged
	}
	return rows, nil
}

// leaveOut marks rows as not read.
func leaveOut(rows []actor.Row) {
	for i := range rows {
		rows[i].Unread = true
	}
}

// errEnough ends a read whose bytes have reached their bound.
var errEnough = errors.New("enough is read")

// loadSome reads one group, until its states have most bytes, and returns how many
// they have. Which rows come first is up to the database.
func (s *actors) loadSome(ctx context.Context, opts actor.LoadOptions, keys []actor.Key, into []actor.Row, most int64, damaged *store.DamagedError) (read int64, err error) {
	var k keyColumns
	for _, key := range keys {
		k.add(key)
	}
	var faults []store.DamagedRow
	load := func(ctx context.Context, q querier, statement string) error {
		clear(into)
		faults, read = nil, 0
		var seen []bool // if there is a bound that could be reached
		if most < math.MaxInt64 {
			seen = make([]bool, len(into))
		}
		var n int64
		var r storedRow
		err := each(ctx, q, append([]any{&n}, r.targets()...), func() error {
			row, fault := r.row()
			if fault != "" {
				faults = append(faults, store.DamagedRow{Key: keys[n], Version: addressable(r.version), Detail: fault})
			}
			into[n] = row
			if seen != nil {
				seen[n] = true
				if read += int64(len(row.State.Data)); read >= most {
					return errEnough
				}
			}
			return nil
		}, statement, k.apps, k.types, k.ids, k.places)
		if errors.Is(err, errEnough) {
			for i := range into {
				into[i].Unread = !seen[i]
			}
			err = nil
		}
		return err
	}
	err = s.readFor(ctx, shareOfKeys(keys), "load actors", func(ctx context.Context, conn *pgxpool.Conn) error {
		if s.dialect != cockroach || !opts.AllowStale && !opts.BesideLocks {
			return load(ctx, conn, loadHead)
		}
		if opts.AllowStale {
			if err := load(ctx, conn, loadHead+staleClause); !beforeItsTime(err) {
				return err
			}
		}
		return s.besideLocks(ctx, conn, func() error { return load(ctx, conn, loadHead) })
	})
	damaged.Rows = append(damaged.Rows, faults...)
	return read, err
}

// beginBeside begins a transaction of CockroachDB whose reads do not wait for turns: at READ
// COMMITTED a read passes the FOR UPDATE of a transaction that is SERIALIZABLE. A row that
// another transaction has placed, and not yet committed, does not stop the read either: with
// its priority the read moves the time of that row behind its own instead of waiting. What it
// reads is committed, and the newest.
const beginBeside = `BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY, PRIORITY HIGH`

// boundBeside has such a read refused soon (55P03) where something is in its way
// all the same: where sql.txn.read_committed_isolation.enabled is false, a server
// runs it as SERIALIZABLE, and it waits for the locks of turns.
const boundBeside = `SET LOCAL lock_timeout = '1s'`

// besideTimeout bounds such a read as a whole, so that a server without
// lock_timeout's bound is given up as unavailable as well.
const besideTimeout = 3 * time.Second

// besideLocks runs read in a transaction of CockroachDB that does not wait for the locks of turns.
// The pool closes a connection that is given back within its transaction.
func (s *actors) besideLocks(ctx context.Context, conn *pgxpool.Conn, read func() error) error {
	ctx, cancel := context.WithTimeout(ctx, besideTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, beginBeside)
	if s.dialect.judge(err) == refused {
		// A server that does not take the options. What is locked is then waited
		// for, as long as boundBeside allows.
		_, err = conn.Exec(ctx, `BEGIN`)
	}
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, boundBeside); err != nil {
		return err
	}
	if err := read(); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `COMMIT`)
	return err
}

// beforeItsTime reports whether a read of the past failed because there was no
// such past: the table or its database is younger, or was given back to be
// collected.
func beforeItsTime(err error) bool {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return false
	}
	switch server.Code {
	case "42P01", "3D000", "3F000": // undefined table, database, schema
		return true
	}
	return strings.Contains(server.Message, "must be after replica GC threshold")
}

const readVersions = `SELECT c.n, a.version, a.life, a.deleted_at IS NOT NULL
FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[]) AS c (app, type, id, n)
JOIN greenroom_actor AS a ON a.app = c.app AND a.type = c.type AND a.id = c.id`

// Versions reads what fences the rows, one statement for each 256 keys.
func (s *actors) Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error) {
	if err := store.ValidateKeys(keys); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	versions := make([]actor.RowVersion, len(keys))
	for start := 0; start < len(keys); start += maxGroupRows {
		end := min(start+maxGroupRows, len(keys))
		if err := s.versionsOf(ctx, keys[start:end], versions[start:end]); err != nil {
			return nil, err
		}
	}
	return versions, nil
}

func (s *actors) versionsOf(ctx context.Context, keys []actor.Key, into []actor.RowVersion) error {
	var k keyColumns
	for _, key := range keys {
		k.add(key)
	}
	return s.readFor(ctx, shareOfKeys(keys), "read versions", func(ctx context.Context, conn *pgxpool.Conn) error {
		clear(into)
		var n, version, life int64
		var deleted bool
		return each(ctx, conn, []any{&n, &version, &life, &deleted}, func() error {
			into[n] = actor.RowVersion{Version: addressable(version), Life: addressable(life), Deleted: deleted}
			return nil
		}, readVersions, k.apps, k.types, k.ids, k.places)
	})
}

// ListActors reads a page of a type's live actors.
func (s *actors) ListActors(ctx context.Context, q store.ActorQuery) (list []store.ActorInfo, next string, err error) {
	if err := store.ValidateLimit(q.Limit); err != nil {
		return nil, "", err
	}
	for _, err := range []error{actor.ValidateName("app", q.App), actor.ValidateName("actor type", q.Type)} {
		if err != nil {
			return nil, "", err
		}
	}
	if q.After != "" {
		if err := actor.ValidateID(q.After); err != nil {
			return nil, "", err
		}
	}
	args := []any{q.App, q.Type, q.After, q.Limit, store.MaxExamined}
	within := ""
	if q.Prefix != "" {
		if err := actor.ValidateID(q.Prefix); err != nil {
			return nil, "", err
		}
		args = append(args, q.Prefix)
		within = ` AND id >= $6`
		if end := store.TextAfter(q.Prefix); end != "" {
			args = append(args, end)
			within += ` AND id < $7`
		}
	}
	err = s.readFor(ctx, share(q.App), "list actors", func(ctx context.Context, conn *pgxpool.Conn) error {
		list, next = nil, ""
		// The last row that is examined comes along in any case: the list goes on after it.
		var id string
		var n, version, generation, schema, size int64
		var at time.Time
		var live, sound bool
		return each(ctx, conn, []any{&n, &id, &live, &version, &generation, &schema, &size, &at, &sound}, func() error {
			if n == store.MaxExamined || len(list) == q.Limit-1 {
				next = id
			}
			if !live {
				return nil
			}
			if !sound {
				list = append(list, store.ActorInfo{
					Key: actor.Key{App: q.App, Type: q.Type, ID: id}, Version: addressable(version), Damaged: true})
				return nil
			}
			list = append(list, store.ActorInfo{
				Key:     actor.Key{App: q.App, Type: q.Type, ID: id},
				Version: uint64(version), Generation: uint64(generation), StateSchema: uint32(schema),
				StateSize: size, UpdatedAt: at.UTC(),
			})
			return nil
		}, `SELECT n, id, deleted_at IS NULL, version, generation, state_schema, size, updated_at, sound FROM (
				SELECT row_number() OVER (ORDER BY e.id) AS n, e.* FROM (
					SELECT id, deleted_at, version, generation, state_schema, COALESCE(octet_length(state), 0)::int8 AS size, updated_at, `+soundRow+` AS sound
					FROM greenroom_actor AS a WHERE app = $1 AND type = $2 AND id > $3`+within+`
					ORDER BY app, type, id LIMIT $5
				) AS e
			) AS x WHERE deleted_at IS NULL OR n = $5 ORDER BY id LIMIT $4`, args...)
	})
	if err != nil {
		return nil, "", err
	}
	return list, next, nil
}

// followerClause reads a past of CockroachDB that the nearest replica has.
const followerClause = ` AS OF SYSTEM TIME follower_read_timestamp()`

// ScanActors reads rows in one statement. If the database refuses it for its exclusions, as
// PostgreSQL does where a state has a string with a zero character or a number of 200,000
// digits, the scan goes on without them.
func (s *actors) ScanActors(ctx context.Context, q store.ActorScan, visit func(row *store.ScannedActor) (more bool)) (examined int, next string, err error) {
	if err := q.Validate(); err != nil {
		return 0, "", err
	}
	r := &scan{ActorScan: q, dialect: s.dialect, visit: visit}
	err = s.scan(ctx, r)
	if len(r.Exclusions) > 0 && s.dialect.judge(err) == refused {
		r.Exclusions = nil
		err = s.scan(ctx, r)
	}
	return r.examined, r.next, err
}

func (s *actors) scan(ctx context.Context, r *scan) error {
	return s.readFor(ctx, share(r.App), "scan actors", func(ctx context.Context, conn *pgxpool.Conn) error {
		switch {
		case r.examined == r.Limit: // the connection broke after the last row
			r.next = r.After
			return nil
		case s.dialect != cockroach:
			return r.read(ctx, conn, "")
		case r.AllowStale:
			if err := r.read(ctx, conn, followerClause); !beforeItsTime(err) {
				return err
			}
		}
		return s.besideLocks(ctx, conn, func() error { return r.read(ctx, conn, "") })
	})
}

// sweepTombstones asks for deleted_at again outside: if the actor was revived in
// between, PostgreSQL checks that condition, not the one inside, on the new row.
const sweepTombstones = `DELETE FROM greenroom_actor AS a USING (
	SELECT app, type, id FROM greenroom_actor
	WHERE shard = $1 AND deleted_at >= $2 AND deleted_at < $3
	ORDER BY deleted_at LIMIT $4
) AS old
WHERE a.app = old.app AND a.type = old.type AND a.id = old.id AND a.deleted_at < $3`

// SweepTombstones removes old tombstones, shard by shard.
func (s *actors) SweepTombstones(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.sweeper.sweep(ctx, limit, func(context.Context) (time.Time, error) { return before, nil })
}
