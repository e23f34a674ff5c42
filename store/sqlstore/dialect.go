package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
)

// dialect is which of the two databases this is.
type dialect uint8

const (
	postgres dialect = iota
	cockroach
)

func (d dialect) String() string {
	if d == cockroach {
		return "cockroachdb"
	}
	return "postgresql"
}

// detect asks the database what it is, and refuses one that cannot hold every
// actor ID.
func detect(ctx context.Context, conn *pgx.Conn) (dialect, error) {
	var version string
	if err := conn.QueryRow(ctx, `SELECT version()`).Scan(&version); err != nil {
		return 0, asStoreError(ctx, "detect the database", err)
	}
	if strings.Contains(version, "CockroachDB") {
		return cockroach, nil
	}
	var encoding string
	if err := conn.QueryRow(ctx, `SHOW server_encoding`).Scan(&encoding); err != nil {
		return 0, asStoreError(ctx, "detect the database", err)
	}
	if encoding != "UTF8" {
		return 0, fmt.Errorf("sqlstore: the database's encoding is %s; create one with ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return postgres, nil
}

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

// openPools makes the pools. What a session sets depends on the database
// and its version, so each setting is tried on conn first.
func (s *Store) openPools(ctx context.Context, conn *pgx.Conn, base *pgxpool.Config) error {
	shared := s.sessionSettings(ctx, conn, base.ConnConfig.RuntimeParams)
	supported := func(settings map[string]string) map[string]string {
		ok := make(map[string]string)
		for name, value := range settings {
			if s.accepts(ctx, conn, name, value) {
				ok[name] = value
			}
		}
		return ok
	}
	statement := milliseconds(s.cfg.StatementTimeout)
	// A unit of several statements; this store gives up waiting for it as soon.
	unit := milliseconds(2 * s.cfg.StatementTimeout)
	turn := milliseconds(s.cfg.TurnTimeout)
	for _, p := range []struct {
		pool     **pgxpool.Pool
		conns    int
		settings map[string]string
	}{
		{&s.commits, s.cfg.CommitConns, map[string]string{
			"statement_timeout": statement, "lock_timeout": milliseconds(lockTimeout), "transaction_timeout": unit}},
		{&s.general, s.cfg.GeneralConns, map[string]string{
			"statement_timeout": statement, "idle_in_transaction_session_timeout": statement, "transaction_timeout": unit}},
		{&s.leases, leaseConns, map[string]string{
			"statement_timeout": statement, "lock_timeout": milliseconds(leaseLockTimeout), "transaction_timeout": unit}},
		{&s.settling, settleConns, map[string]string{
			"statement_timeout": statement, "lock_timeout": milliseconds(lockTimeout), "transaction_timeout": unit}},
		{&s.turns, s.cfg.TurnConns, map[string]string{
			"statement_timeout": turn, "idle_in_transaction_session_timeout": turn, "transaction_timeout": turn}},
	} {
		if conn.IsClosed() {
			// Not every setting was asked about, and none may be left out for that.
			return fmt.Errorf("ask the database for its settings: %w: the connection was lost", actor.ErrUnavailable)
		}
		cfg := base.Copy()
		cfg.MaxConns = int32(p.conns)
		cfg.MinConns = 0
		cfg.BeforeConnect, cfg.AfterConnect, cfg.BeforeClose = s.nameSession, s.prepare, s.noteLost
		for _, settings := range []map[string]string{shared, supported(p.settings)} {
			for name, value := range settings {
				cfg.ConnConfig.RuntimeParams[name] = value
			}
		}
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			return asStoreError(ctx, "open a connection pool", err)
		}
		*p.pool = pool
	}
	return nil
}

// pinSync makes synchronous_commit the session's own, at the server's or the URL's
// setting if that waits for a sync at least, otherwise on: acknowledged means
// synced, whatever the server's default is or becomes. local, which waits for no
// replica where there are some, is too little.
const pinSync = `SELECT set_config('synchronous_commit',
	CASE WHEN current_setting('synchronous_commit') IN ('remote_write', 'on', 'remote_apply') THEN current_setting('synchronous_commit') ELSE 'on' END, false)`

// prepare makes a new connection of a pool fit for use.
func (s *Store) prepare(ctx context.Context, conn *pgx.Conn) error {
	if s.dialect == postgres {
		if _, err := conn.Exec(ctx, pinSync); err != nil {
			return err
		}
	}
	session, err := s.identify(ctx, conn)
	if err != nil {
		return err
	}
	conn.PgConn().CustomData()[identityKey] = session
	return takeColumns(ctx, conn)
}

// sessionSettings returns what every session sets; the URL's own come first.
func (s *Store) sessionSettings(ctx context.Context, conn *pgx.Conn, given map[string]string) map[string]string {
	want := map[string]string{"application_name": sessionName}
	if s.dialect == cockroach {
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
		if err := conn.QueryRow(ctx, `SHOW fsync`).Scan(&fsync); err == nil && fsync == "off" {
			s.log.WarnContext(ctx, "database does not sync its files; a crash of its machine loses acknowledged commits", "setting", "fsync")
		}
	}
	for name, value := range want {
		if _, set := given[name]; set || !s.accepts(ctx, conn, name, value) {
			delete(want, name)
		}
	}
	return want
}

// accepts tries one setting. The values are this package's own.
func (s *Store) accepts(ctx context.Context, conn *pgx.Conn, name, value string) bool {
	_, err := conn.Exec(ctx, "SET "+name+" = '"+value+"'")
	if err != nil {
		var refused *pgconn.PgError
		if errors.As(err, &refused) {
			s.log.DebugContext(ctx, "database does not know a session setting", "setting", name, "sqlstate", refused.Code)
		}
	}
	return err == nil
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
