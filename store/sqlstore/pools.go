package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

const (
	// lockTimeout is how long a group waits for one locked row before it goes on
	// without it, and settling before it lets others try.
	lockTimeout = 100 * time.Millisecond
	// leaseLockTimeout is for rows that hosts share, such as the leader's lease.
	leaseLockTimeout = time.Second

	// One connection renews. The others are for one that died, which takes its place
	// in the pool for a while yet.
	leaseConns  = 4
	settleConns = 2
)

// pools are the connections of a store, in pools apart, so that no kind of work can use up
// the connections that another needs to make progress.
type pools struct {
	commits  *pgxpool.Pool
	turns    *pgxpool.Pool
	general  sharedPool
	leases   *pgxpool.Pool // what keeps this host alive, and nothing that apps cause
	settling sharedPool    // writes that may meet locked rows again and again
}

func (p *pools) all() []*pgxpool.Pool {
	return []*pgxpool.Pool{p.turns, p.commits, p.settling.pool, p.general.pool, p.leases}
}

// close waits until all connections have been given back.
func (p *pools) close() {
	for _, pool := range p.all() {
		if pool != nil {
			pool.Close()
		}
	}
}

// opener makes the pools. What a session sets depends on the database
// and its version, so each setting is tried on conn first.
type opener struct {
	cfg      Config
	dialect  dialect
	conn     *pgx.Conn
	sessions *sessions
}

// open makes the pools; after an error, those that it has made so far.
func (o *opener) open(ctx context.Context, base *pgxpool.Config) (pools, error) {
	made := pools{
		general:  sharedPool{places: fair.NewPlaces(o.cfg.GeneralConns)},
		settling: sharedPool{places: fair.NewPlaces(settleConns)},
	}
	shared := o.settings(ctx, base.ConnConfig.RuntimeParams)
	supported := func(settings map[string]string) map[string]string {
		ok := make(map[string]string)
		for name, value := range settings {
			if accepts(ctx, o.conn, o.cfg.Logger, name, value) {
				ok[name] = value
			}
		}
		return ok
	}
	statement := milliseconds(o.cfg.StatementTimeout)
	// A unit of several statements; this store gives up waiting for it as soon.
	unit := milliseconds(2 * o.cfg.StatementTimeout)
	turn := milliseconds(o.cfg.TurnTimeout)
	for _, p := range []struct {
		pool     **pgxpool.Pool
		conns    int
		settings map[string]string
	}{
		{&made.commits, o.cfg.CommitConns, map[string]string{
			"statement_timeout": statement, "lock_timeout": milliseconds(lockTimeout), "transaction_timeout": unit}},
		{&made.general.pool, o.cfg.GeneralConns, map[string]string{
			"statement_timeout": statement, "idle_in_transaction_session_timeout": statement, "transaction_timeout": unit}},
		{&made.leases, leaseConns, map[string]string{
			"statement_timeout": statement, "lock_timeout": milliseconds(leaseLockTimeout), "transaction_timeout": unit}},
		{&made.settling.pool, settleConns, map[string]string{
			"statement_timeout": statement, "lock_timeout": milliseconds(lockTimeout), "transaction_timeout": unit}},
		{&made.turns, o.cfg.TurnConns, map[string]string{
			"statement_timeout": turn, "idle_in_transaction_session_timeout": turn, "transaction_timeout": turn}},
	} {
		if o.conn.IsClosed() {
			// Not every setting was asked about, and none may be left out for that.
			return made, fmt.Errorf("ask the database for its settings: %w: the connection was lost", actor.ErrUnavailable)
		}
		cfg := base.Copy()
		cfg.MaxConns = int32(p.conns)
		cfg.MinConns = 0
		cfg.BeforeConnect, cfg.AfterConnect, cfg.BeforeClose = o.sessions.beforeConnect, o.prepare, o.sessions.beforeClose
		for _, settings := range []map[string]string{shared, supported(p.settings)} {
			for name, value := range settings {
				cfg.ConnConfig.RuntimeParams[name] = value
			}
		}
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			return made, asStoreError(ctx, "open a connection pool", err)
		}
		*p.pool = pool
	}
	return made, nil
}

// pinSync makes synchronous_commit the session's own, at the server's or the URL's
// setting if that waits for a sync at least, otherwise on: acknowledged means
// synced, whatever the server's default is or becomes. local, which waits for no
// replica where there are some, is too little.
const pinSync = `SELECT set_config('synchronous_commit',
	CASE WHEN current_setting('synchronous_commit') IN ('remote_write', 'on', 'remote_apply') THEN current_setting('synchronous_commit') ELSE 'on' END, false)`

// prepare makes a new connection of a pool fit for use.
func (o *opener) prepare(ctx context.Context, conn *pgx.Conn) error {
	if o.dialect == postgres {
		if _, err := conn.Exec(ctx, pinSync); err != nil {
			return err
		}
	}
	session, err := o.identify(ctx, conn)
	if err != nil {
		return err
	}
	conn.PgConn().CustomData()[identityKey] = session
	return takeColumns(ctx, conn)
}

// identify returns what a session is ended by.
func (o *opener) identify(ctx context.Context, conn *pgx.Conn) (session string, err error) {
	statement := `SHOW session_id`
	if o.dialect == postgres {
		statement = `SELECT ` + sessionIdentity + ` FROM pg_stat_activity AS s WHERE s.pid = pg_backend_pid()`
	}
	err = conn.QueryRow(ctx, statement, pgx.QueryExecModeSimpleProtocol).Scan(&session)
	return session, err
}

// settings returns what every session sets; the URL's own come first.
func (o *opener) settings(ctx context.Context, given map[string]string) map[string]string {
	want := map[string]string{"application_name": sessionName}
	if o.dialect == cockroach {
		want["default_transaction_isolation"] = "serializable"
		// Every statement here finds its rows by a range of an index. CockroachDB takes
		// statistics by itself, of an empty table as well, and would go on scanning that
		// when it is large. With these a plan that scans a table whole costs more than any
		// other, and a statement that has no other is refused.
		want["disallow_full_table_scans"] = "on"
		want["large_full_scan_rows"] = "0"
	} else {
		want["default_transaction_isolation"] = "read committed"
		// Every statement here finds its rows by key. A plan made while a table
		// was empty would otherwise go on scanning it when it is large.
		want["enable_seqscan"] = "off"
		want["enable_hashjoin"] = "off"
		want["enable_mergejoin"] = "off"
		want["plan_cache_mode"] = "force_generic_plan"
		// A statement that waits for a lock notices by this that its client died.
		want["client_connection_check_interval"] = "2s"
		// A statement that waits for its client notices by these that its client is gone.
		want["tcp_keepalives_idle"] = "5"
		want["tcp_keepalives_interval"] = "2"
		want["tcp_keepalives_count"] = "3"
		want["tcp_user_timeout"] = "10000"
		var fsync string
		if err := o.conn.QueryRow(ctx, `SHOW fsync`).Scan(&fsync); err == nil && fsync == "off" {
			o.cfg.Logger.WarnContext(ctx, "database does not sync its files; a crash of its machine loses acknowledged commits", "setting", "fsync")
		}
	}
	for name, value := range want {
		if _, set := given[name]; set || !accepts(ctx, o.conn, o.cfg.Logger, name, value) {
			delete(want, name)
		}
	}
	return want
}

// accepts tries one setting. The values are this package's own.
func accepts(ctx context.Context, conn *pgx.Conn, log *slog.Logger, name, value string) bool {
	_, err := conn.Exec(ctx, "SET "+name+" = '"+value+"'")
	if err != nil {
		var refused *pgconn.PgError
		if errors.As(err, &refused) {
			log.DebugContext(ctx, "database does not know a session setting", "setting", name, "sqlstate", refused.Code)
		}
	}
	return err == nil
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
