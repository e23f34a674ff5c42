package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroom-run/greenroom/store"
)

// schemaName is the row of greenroom_schema that this package's tables are
// versioned and leased under.
const schemaName = "greenroom"

// createSchemaTable comes before all steps: it holds their lease.
const createSchemaTable = `CREATE TABLE IF NOT EXISTS greenroom_schema (
	name       text PRIMARY KEY,
	version    int8 NOT NULL,
	holder     text NOT NULL DEFAULT '',
	expires_at timestamptz NOT NULL,
	checked_at timestamptz
)`

// migrations are the steps; a schema's version is how many of them it has. Each
// is one idempotent DDL statement, since CockroachDB commits what came before a
// DDL statement, and since the lease may run out during a long one. Steps are
// only ever added at the end.
//
// {key} is the type of a column in byte order; {hot} leaves room in each page,
// so that PostgreSQL can update rows without touching their indexes.
var migrations = []string{
	`CREATE TABLE IF NOT EXISTS greenroom_actor (
		app          {key} NOT NULL,
		type         {key} NOT NULL,
		id           {key} NOT NULL,
		version      int8 NOT NULL,
		commit_id    uuid NOT NULL,
		life         int8 NOT NULL DEFAULT 0,
		deleted_at   timestamptz,
		generation   int8 NOT NULL,
		state_schema int8 NOT NULL,
		format       int2 NOT NULL,
		state        bytea,
		updated_at   timestamptz NOT NULL,
		shard        int2 NOT NULL,
		PRIMARY KEY (app, type, id)
	){hot}`,
	// For the sweep. deleted_at stays NULL from one update of a live actor to
	// the next, which keeps this index out of their way.
	`CREATE INDEX IF NOT EXISTS greenroom_actor_tombstones ON greenroom_actor (shard, deleted_at) WHERE deleted_at IS NOT NULL`,
	`CREATE TABLE IF NOT EXISTS greenroom_module (
		app        {key} NOT NULL,
		digest     {key} NOT NULL,
		size       int8 NOT NULL,
		manifest   bytea NOT NULL,
		created_at timestamptz NOT NULL,
		upload     uuid NOT NULL,
		PRIMARY KEY (app, digest)
	)`,
	`CREATE TABLE IF NOT EXISTS greenroom_module_chunk (
		upload uuid NOT NULL,
		n      int8 NOT NULL,
		data   bytea NOT NULL,
		PRIMARY KEY (upload, n)
	)`,
	// The uploads whose chunks belong to no module: not yet, or no longer.
	`CREATE TABLE IF NOT EXISTS greenroom_module_upload (
		upload     uuid PRIMARY KEY,
		expires_at timestamptz NOT NULL
	)`,
	// One row per actor type: what serves it now.
	`CREATE TABLE IF NOT EXISTS greenroom_type (
		app        {key} NOT NULL,
		type       {key} NOT NULL,
		generation int8 NOT NULL,
		digest     {key} NOT NULL,
		PRIMARY KEY (app, type)
	)`,
	`CREATE TABLE IF NOT EXISTS greenroom_deployment (
		app              {key} NOT NULL,
		type             {key} NOT NULL,
		generation       int8 NOT NULL,
		digest           {key} NOT NULL,
		state_schema     int8 NOT NULL,
		rolled_back_from int8 NOT NULL,
		deploy_id        uuid NOT NULL,
		created_at       timestamptz NOT NULL,
		PRIMARY KEY (app, type, generation)
	)`,
	// Recorded calls, under store.RecordID.
	`CREATE TABLE IF NOT EXISTS greenroom_idempotency (
		id         uuid PRIMARY KEY,
		commit_id  uuid NOT NULL,
		shard      int2 NOT NULL,
		expires_at timestamptz NOT NULL,
		record     bytea NOT NULL
	)`,
	`CREATE INDEX IF NOT EXISTS greenroom_idempotency_expiry ON greenroom_idempotency (shard, expires_at)`,
	`CREATE TABLE IF NOT EXISTS greenroom_setting (
		app        {key} NOT NULL,
		kind       {key} NOT NULL,
		name       {key} NOT NULL,
		value      bytea NOT NULL,
		updated_at timestamptz NOT NULL,
		PRIMARY KEY (app, kind, name)
	)`,
	// One row, of the one cluster that the database belongs to.
	`CREATE TABLE IF NOT EXISTS greenroom_cluster (
		id   int2 PRIMARY KEY,
		name text NOT NULL
	)`,
	`CREATE TABLE IF NOT EXISTS greenroom_host (
		id           {key} PRIMARY KEY,
		name         text NOT NULL,
		address      text NOT NULL,
		roles        text NOT NULL,
		version      text NOT NULL,
		min_protocol int8 NOT NULL,
		max_protocol int8 NOT NULL,
		started_at   timestamptz NOT NULL,
		expires_at   timestamptz NOT NULL
	){hot}`,
	`CREATE TABLE IF NOT EXISTS greenroom_lease (
		name       {key} PRIMARY KEY,
		holder     text NOT NULL,
		epoch      int8 NOT NULL,
		expires_at timestamptz NOT NULL
	){hot}`,
	// For people: the state of every live actor, readable. jsonb has no place for some
	// escapes that JSON has (U+0000, and surrogates, which alone are no character):
	// those states are NULL in it, and read in state_text.
	`CREATE OR REPLACE VIEW greenroom_state AS SELECT app, type, id, version,
		CASE WHEN format = 1 AND convert_from(state, 'UTF8') !~ '[\\]u(0000|[dD][89a-fA-F])' THEN convert_from(state, 'UTF8')::jsonb END AS state,
		CASE WHEN format = 1 THEN convert_from(state, 'UTF8') END AS state_text,
		CASE format WHEN 0 THEN 'none' WHEN 1 THEN 'json' ELSE 'binary' END AS format,
		octet_length(state) AS state_bytes, generation, state_schema, updated_at
		FROM greenroom_actor WHERE deleted_at IS NULL`,
	`COMMENT ON TABLE greenroom_actor IS 'One row per actor that has, or had, stored state. Look at it through greenroom_state; only Greenroom writes it.'`,
	`COMMENT ON COLUMN greenroom_actor.version IS 'What every commit names: one that read another version is refused. Starts at random, counts up.'`,
	`COMMENT ON COLUMN greenroom_actor.commit_id IS 'The commit that wrote the row last, by which a lost answer is settled.'`,
	`COMMENT ON COLUMN greenroom_actor.life IS 'How often the actor has passed away.'`,
	`COMMENT ON COLUMN greenroom_actor.deleted_at IS 'When the actor was deleted: the row is a tombstone, which is swept after an hour. NULL: it is live.'`,
	`COMMENT ON COLUMN greenroom_actor.generation IS 'The deployment of its type that wrote the row last.'`,
	`COMMENT ON COLUMN greenroom_actor.state_schema IS 'The version of its state that the module declared which wrote it.'`,
	`COMMENT ON COLUMN greenroom_actor.format IS '0: no state, 1: a JSON object in UTF-8, 2: the binary envelope of abi/SPEC.md.'`,
	`COMMENT ON COLUMN greenroom_actor.state IS 'All keys and values of the actor in one value, as format says.'`,
	`COMMENT ON COLUMN greenroom_actor.shard IS 'A part of the IDs hash, which spreads what indexes order by time.'`,
	`COMMENT ON TABLE greenroom_module IS 'Uploaded Wasm modules, by app and SHA-256. Their bytes are in greenroom_module_chunk.'`,
	`COMMENT ON TABLE greenroom_module_chunk IS 'The bytes of modules, 1 MiB a row.'`,
	`COMMENT ON TABLE greenroom_module_upload IS 'Uploads that belong to no module: unfinished ones, and what is left of deleted modules.'`,
	`COMMENT ON TABLE greenroom_type IS 'What serves each actor type now.'`,
	`COMMENT ON TABLE greenroom_deployment IS 'Every deployment of every actor type: its history.'`,
	`COMMENT ON TABLE greenroom_idempotency IS 'Recorded replies of calls that had an idempotency key, until they expire.'`,
	`COMMENT ON TABLE greenroom_setting IS 'Configuration, secrets (encrypted) and granted hosts of each app.'`,
	`COMMENT ON TABLE greenroom_cluster IS 'The name of the one cluster that this database belongs to.'`,
	`COMMENT ON TABLE greenroom_host IS 'The processes of the cluster. A row holds until expires_at, unless its process renews it.'`,
	`COMMENT ON TABLE greenroom_lease IS 'Leases by name. The epoch counts how often one was taken.'`,
	`COMMENT ON TABLE greenroom_schema IS 'The version of these tables, and who is changing it.'`,
	`ALTER TABLE greenroom_deployment ADD COLUMN IF NOT EXISTS message text NOT NULL DEFAULT ''`,
	`COMMENT ON COLUMN greenroom_deployment.digest IS 'The module; empty if the type was taken out of service.'`,
	// Reminders. Times are microseconds since 1970, so that each is exact.
	`CREATE TABLE IF NOT EXISTS greenroom_reminder (
		app          {key} NOT NULL,
		type         {key} NOT NULL,
		id           {key} NOT NULL,
		name         {key} NOT NULL,
		written      int2 NOT NULL,
		prefix       int8 NOT NULL,
		vector       {key} NOT NULL,
		token        int8 NOT NULL,
		bucket       int8 NOT NULL,
		version      int8 NOT NULL,
		spec         text NOT NULL,
		content_type text NOT NULL,
		payload      bytea NOT NULL,
		due          int8 NOT NULL,
		fire_at      int8 NOT NULL,
		remaining    int8 NOT NULL,
		failures     int8 NOT NULL,
		paused       bool NOT NULL,
		last_error   text NOT NULL,
		created_at   timestamptz NOT NULL,
		updated_at   timestamptz NOT NULL,
		PRIMARY KEY (app, type, id, name)
	)`,
	`CREATE UNIQUE INDEX IF NOT EXISTS greenroom_reminder_token ON greenroom_reminder (prefix, vector, token)`,
	`CREATE INDEX IF NOT EXISTS greenroom_reminder_due ON greenroom_reminder (prefix, vector, bucket, fire_at, token) WHERE NOT paused`,
	`CREATE TABLE IF NOT EXISTS greenroom_dead_reminder (
		prefix       int8 NOT NULL,
		vector       {key} NOT NULL,
		token        int8 NOT NULL,
		due          int8 NOT NULL,
		app          {key} NOT NULL,
		type         {key} NOT NULL,
		id           {key} NOT NULL,
		name         {key} NOT NULL,
		version      int8 NOT NULL,
		spec         text NOT NULL,
		content_type text NOT NULL,
		payload      bytea NOT NULL,
		fire_at      int8 NOT NULL,
		remaining    int8 NOT NULL,
		failures     int8 NOT NULL,
		last_error   text NOT NULL,
		created_at   timestamptz NOT NULL,
		updated_at   timestamptz NOT NULL,
		reason       text NOT NULL,
		failed_at    timestamptz NOT NULL,
		PRIMARY KEY (prefix, vector, token, due)
	)`,
	`CREATE TABLE IF NOT EXISTS greenroom_lap (
		app    {key} PRIMARY KEY,
		prefix int8 NOT NULL UNIQUE,
		vector {key} NOT NULL,
		next   int8 NOT NULL
	)`,
	`CREATE TABLE IF NOT EXISTS greenroom_bucket (
		prefix         int8 NOT NULL,
		vector         {key} NOT NULL,
		idx            int8 NOT NULL,
		app            {key} NOT NULL,
		creator        text NOT NULL,
		owner          text NOT NULL,
		epoch          int8 NOT NULL,
		used           int8 NOT NULL,
		delivered_till int8,
		created_at     timestamptz NOT NULL,
		closed_at      timestamptz,
		PRIMARY KEY (prefix, vector, idx)
	){hot}`,
	`COMMENT ON TABLE greenroom_reminder IS 'Durable invocations of actors in the future. Times without a zone are microseconds since 1970.'`,
	`COMMENT ON COLUMN greenroom_reminder.version IS 'What a firing names, with the token: one whose turn was committed finds another version, or no row.'`,
	`COMMENT ON COLUMN greenroom_reminder.spec IS 'Method, schedule, policies and metadata, as JSON.'`,
	`COMMENT ON COLUMN greenroom_reminder.due IS 'The occurrence to be delivered next.'`,
	`COMMENT ON COLUMN greenroom_reminder.fire_at IS 'When it is to be delivered: with its jitter, or later after a failure.'`,
	`COMMENT ON COLUMN greenroom_reminder.remaining IS 'How many occurrences there are from due on; 0: no limit.'`,
	`COMMENT ON COLUMN greenroom_reminder.written IS 'How the last commit wrote the row: 0 stepped on, 1 to be removed, 2 set, 3 set since there was none.'`,
	`COMMENT ON TABLE greenroom_dead_reminder IS 'Firings that failed as often as their reminder allows.'`,
	`COMMENT ON TABLE greenroom_lap IS 'The prefix of each app in the IDs of its reminders, and which bucket of tokens is next.'`,
	`COMMENT ON TABLE greenroom_bucket IS 'Ranges of 100,000 reminder tokens: the host that creates from each, and the scheduler instance that delivers it.'`,
	`ALTER TABLE greenroom_deployment ADD COLUMN IF NOT EXISTS placement text NOT NULL DEFAULT ''`,
	`COMMENT ON COLUMN greenroom_deployment.placement IS 'The placement policy that goes before the module''s; empty: there is none.'`,
	`ALTER TABLE greenroom_bucket ADD COLUMN IF NOT EXISTS rate int8 NOT NULL DEFAULT 0`,
	`COMMENT ON COLUMN greenroom_bucket.rate IS 'How many deliveries of its reminders begin a second, as its owner wrote it down last.'`,
	`ALTER TABLE greenroom_host ADD COLUMN IF NOT EXISTS sticky int8 NOT NULL DEFAULT 0`,
	`COMMENT ON COLUMN greenroom_host.sticky IS 'How many sticky actors the process owned when it renewed its row last.'`,
	`CREATE TABLE IF NOT EXISTS greenroom_module_app (
		app     {key} PRIMARY KEY,
		uploads int8 NOT NULL
	){hot}`,
	`COMMENT ON TABLE greenroom_module_app IS 'The rows that uploads of an app lock: together they stay within the bound of the app.'`,
	`CREATE TABLE IF NOT EXISTS greenroom_event (
		app          {key} NOT NULL,
		type         {key} NOT NULL,
		id           {key} NOT NULL,
		version      int8 NOT NULL,
		idx          int8 NOT NULL,
		life         int8 NOT NULL,
		name         text NOT NULL,
		content_type text NOT NULL,
		payload      bytea NOT NULL,
		created_at   timestamptz NOT NULL,
		PRIMARY KEY (app, type, id, version, idx)
	)`,
	`COMMENT ON TABLE greenroom_event IS 'What actors have published, as long as their types keep it. A row without a name is what is left of the newest event that was trimmed.'`,
	`COMMENT ON COLUMN greenroom_event.version IS 'The version of the actor that its commit has written; with idx, the position of the event.'`,
	`ALTER TABLE greenroom_actor ADD COLUMN IF NOT EXISTS spawned bool NOT NULL DEFAULT false`,
	`COMMENT ON COLUMN greenroom_actor.spawned IS 'A turn made the actor: while there is a tombstone, it is dead.'`,
	`ALTER TABLE greenroom_actor ADD COLUMN IF NOT EXISTS method_set text NOT NULL DEFAULT ''`,
	`COMMENT ON COLUMN greenroom_actor.method_set IS 'The set of methods that the actor takes; empty: all.'`,
	`CREATE TABLE IF NOT EXISTS greenroom_service (
		app        {key} NOT NULL,
		name       {key} NOT NULL,
		type       {key} NOT NULL,
		id         {key} NOT NULL,
		claimed_at timestamptz NOT NULL,
		PRIMARY KEY (app, name)
	)`,
	`CREATE INDEX IF NOT EXISTS greenroom_service_actor ON greenroom_service (app, type, id)`,
	`COMMENT ON TABLE greenroom_service IS 'Names of each app that stand for actors.'`,
	`ALTER TABLE greenroom_actor ADD COLUMN IF NOT EXISTS born_at timestamptz`,
	`COMMENT ON COLUMN greenroom_actor.born_at IS 'When the life before this one ended. NULL: it is the first one.'`,
	`COMMENT ON COLUMN greenroom_actor.deleted_at IS 'From when the row is a tombstone, which is swept an hour later: when the actor was deleted or passed away, of a spawned one 24 hours after that. NULL: it is live.'`,
	`ALTER TABLE greenroom_event ADD COLUMN IF NOT EXISTS link text`,
	`COMMENT ON COLUMN greenroom_event.link IS 'The trace and the span in which it was published. NULL: it was in no trace that is sampled.'`,
}

const (
	// schemaLease is longer than a step usually takes; a step that outlasts it
	// may be run by two processes, which is safe.
	schemaLease = 30 * time.Second
	// schemaPoll is how often a process that waits for another's steps looks.
	schemaPoll = 50 * time.Millisecond
	// maxRaces is some 5 s: an error that looks like a lost race and never ends
	// is another one, such as a table of somebody else's under the same name.
	maxRaces = 100
	// maxLosses is how many connections may be lost on the way.
	maxLosses = 10
)

// unfinishedVersion is the schema's version while a store is copied into the database. An
// earlier binary takes it for that of a newer one.
const unfinishedVersion = 1 << 30

func ddl(d dialect, step string) string {
	if d == cockroach { // its strings are in byte order
		return strings.NewReplacer("{key}", "text", "{hot}", "").Replace(step)
	}
	return strings.NewReplacer("{key}", `text COLLATE "C"`, "{hot}", " WITH (fillfactor = 85)").Replace(step)
}

// migrator makes the schema, step by step.
type migrator struct {
	dialect dialect
	log     *slog.Logger
}

// migrate brings the schema to the version of this binary, or waits while
// another process does. It has connections of its own: one that is lost on the
// way is replaced, since its lease would keep everyone waiting.
func (m *migrator) migrate(ctx context.Context, cfg *pgx.ConnConfig) error {
	holder := newUUID().String()
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}()
	for races, losses := 0, 0; ; {
		var done bool
		var err error
		if conn == nil || conn.IsClosed() {
			conn, err = pgx.ConnectConfig(ctx, cfg)
		}
		if err == nil {
			done, err = m.once(ctx, conn, holder)
		}
		var final *finalError
		switch {
		case done:
			return nil
		case errors.As(err, &final):
			return final.cause
		case err == nil:
		case raced(m.dialect, err) && races < maxRaces:
			races++
		case m.dialect.lost(err) && losses < maxLosses:
			losses++ // whatever was lost, doing it again is harmless
		default:
			return asStoreError(ctx, "migrate the schema", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("migrate the schema: %w", ctx.Err())
		case <-time.After(schemaPoll):
		}
	}
}

// raced reports whether a DDL or lease statement lost against the same one of
// another process. PostgreSQL's IF NOT EXISTS is not atomic: the loser gets a
// unique violation in the catalog, or a duplicate.
func raced(d dialect, err error) bool {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return false
	}
	switch server.Code {
	case "23505", "42P07", "42710", "XX000": // XX000: "tuple concurrently updated"
		return true
	}
	v := d.judge(err)
	return v == conflict || v == blocked
}

// once does the steps that are missing if it gets the lease, and reports
// whether the schema is up to date.
func (m *migrator) once(ctx context.Context, conn *pgx.Conn, holder string) (bool, error) {
	latest := len(migrations)
	var version int
	err := conn.QueryRow(ctx, `SELECT version FROM greenroom_schema WHERE name = $1`, schemaName).Scan(&version)
	var server *pgconn.PgError
	switch {
	case errors.As(err, &server) && server.Code == "42P01": // undefined_table
		if _, err := conn.Exec(ctx, createSchemaTable); err != nil {
			return false, err
		}
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return false, err
	case version == unfinishedVersion:
		return false, &finalError{fmt.Errorf("the database: %w", store.ErrUnfinishedCopy)}
	case version > latest:
		return false, &finalError{fmt.Errorf("the database has schema version %d, and this greenroom knows %d at most; run a newer greenroom, or take another database", version, latest)}
	case version == latest:
		return true, nil
	}
	if _, err := conn.Exec(ctx, `INSERT INTO greenroom_schema (name, version, expires_at)
		VALUES ($1, 0, clock_timestamp()) ON CONFLICT (name) DO NOTHING`, schemaName); err != nil {
		return false, err
	}
	err = conn.QueryRow(ctx, `UPDATE greenroom_schema SET holder = $2, expires_at = clock_timestamp() + $3::interval
		WHERE name = $1 AND (holder = $2 OR expires_at <= clock_timestamp()) RETURNING version`,
		schemaName, holder, schemaLease).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil // another process holds it
	}
	if err != nil {
		return false, err
	}
	if version == 0 && m.dialect == cockroach {
		if done, err := m.atOnce(ctx, conn, holder); done || err != nil {
			return done, err
		}
	}
	for ; version < latest; version++ {
		if _, err := conn.Exec(ctx, ddl(m.dialect, migrations[version])); err != nil {
			return false, err
		}
		// Fenced by holder and version: a lease that ran out counts no step.
		tag, err := conn.Exec(ctx, `UPDATE greenroom_schema SET version = version + 1, expires_at = clock_timestamp() + $4::interval
			WHERE name = $1 AND holder = $2 AND version = $3`, schemaName, holder, version, schemaLease)
		if err != nil || tag.RowsAffected() == 0 {
			return false, err
		}
		m.log.InfoContext(ctx, "schema step done", "version", version+1, "latest", latest)
	}
	_, err = conn.Exec(ctx, `UPDATE greenroom_schema SET holder = '', expires_at = clock_timestamp()
		WHERE name = $1 AND holder = $2`, schemaName, holder)
	return version == latest, err
}

// atOnce does all steps of a new database in one transaction. CockroachDB does it
// in a twentieth of the time of the steps alone: what changes tables that the same
// transaction has made needs no jobs, and no waiting for other nodes. It reports false if
// this server does not take it.
func (m *migrator) atOnce(ctx context.Context, conn *pgx.Conn, holder string) (done bool, err error) {
	if !accepts(ctx, conn, m.log, "autocommit_before_ddl", "off") {
		return false, nil
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, step := range migrations {
			if _, err := tx.Exec(ctx, ddl(m.dialect, step)); err != nil {
				return err
			}
		}
		// Fenced by holder, as each step is.
		tag, err := tx.Exec(ctx, `UPDATE greenroom_schema SET version = $3, holder = '', expires_at = clock_timestamp()
			WHERE name = $1 AND holder = $2 AND version = 0`, schemaName, holder, len(migrations))
		if err == nil && tag.RowsAffected() == 0 {
			return pgx.ErrTxCommitRollback
		}
		return err
	})
	var server *pgconn.PgError
	switch {
	case err == nil:
		m.log.InfoContext(ctx, "schema made", "version", len(migrations))
		return true, nil
	case errors.Is(err, pgx.ErrTxCommitRollback): // another process has the lease, and the steps are fenced as well
		return false, nil
	case errors.As(err, &server) && !raced(m.dialect, err):
		m.log.DebugContext(ctx, "schema is made step by step", "error", err)
		return false, nil
	}
	return false, err
}
