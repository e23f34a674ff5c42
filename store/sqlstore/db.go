package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/cockroach-go/v2/crdb"
	"github.com/cockroachdb/cockroach-go/v2/crdb/crdbpgxv5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// db is the connections to a database, and how statements and transactions on them are
// repeated.
type db struct {
	cfg     Config
	log     *slog.Logger
	dialect dialect
	pools
	sessions *sessions
	retries  atomic.Uint64
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

// Name returns "cockroachdb" or "postgresql".
func (d *db) Name() string { return d.dialect.String() }

// Shared implements [store.Store].
func (d *db) Shared() bool { return true }

// Now returns database time, to the microsecond.
func (d *db) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := d.readFor(ctx, hostItself, "read the time", func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
	})
	return now.UTC(), err
}

const (
	// maxAttempts bounds retries of serialization failures. With the pauses
	// below, the last comes some 4 s after the first.
	maxAttempts = 40
	firstPause  = time.Millisecond
	longPause   = 128 * time.Millisecond
)

// pause waits before the attempt after the given one (from 0), longer each time
// and by a random part, so that writers who met once do not meet again. It
// returns the context's error if that ends first.
func pause(ctx context.Context, attempt int) error {
	limit := min(longPause, firstPause<<min(attempt, 16))
	select {
	case <-time.After(limit/2 + rand.N(limit)):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// read runs op, and again after a serialization failure, where the server does not
// know what it has done, or, once, on another connection if the one it got is
// dead. op must be a read, or a write that is the same when done twice.
func (d *db) read(ctx context.Context, name string, op func(ctx context.Context) error) error {
	return d.repeat(ctx, name, op, func(v verdict) bool { return v == conflict })
}

// readFor is read with a connection of the general pool, which each attempt acquires anew.
func (d *db) readFor(ctx context.Context, of share, name string, op func(ctx context.Context, conn *pgxpool.Conn) error) error {
	return d.read(ctx, name, func(ctx context.Context) error {
		return d.general.use(ctx, of, func(conn *pgxpool.Conn) error { return op(ctx, conn) })
	})
}

// untilFree is readFor with the connections for settling, whose lock_timeout is short: if a row
// is locked for longer, others have the connection before the next attempt.
func (d *db) untilFree(ctx context.Context, of share, name string, op func(ctx context.Context, conn *pgxpool.Conn) error) error {
	return d.repeat(ctx, name, func(ctx context.Context) error {
		return d.settling.use(ctx, of, func(conn *pgxpool.Conn) error { return op(ctx, conn) })
	}, func(v verdict) bool { return v == conflict || v == blocked })
}

func (d *db) repeat(ctx context.Context, name string, op func(ctx context.Context) error, passes func(verdict) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 2*d.cfg.StatementTimeout)
	defer cancel()
	var err error
	broke := false
	for attempt := range maxAttempts {
		if err = op(limited); err == nil {
			return nil
		}
		again := passes(d.dialect.judge(err)) || isUnsure(err)
		if !again && !broke && d.dialect.lost(err) {
			again, broke = true, true
		}
		if isContract(err) || !again || pause(limited, attempt) != nil {
			break
		}
		d.countRetry(err)
	}
	if !isContract(err) && ctx.Err() == nil {
		d.sessions.blocked() // it may have waited for a row; CockroachDB's reads do as well
	}
	return asStoreError(ctx, name, err)
}

// execFor runs a statement that is the same when done twice, with a connection of the general
// pool, and returns how many rows it changed the last time.
func (d *db) execFor(ctx context.Context, of share, name, statement string, args ...any) (changed int64, err error) {
	err = d.readFor(ctx, of, name, func(ctx context.Context, conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, statement, args...)
		changed = tag.RowsAffected()
		return err
	})
	return changed, err
}

// query returns what a statement reads, with a connection of the general pool.
func query[T any](ctx context.Context, d *db, of share, name string, scan pgx.RowToFunc[T], statement string, args ...any) (list []T, err error) {
	err = d.readFor(ctx, of, name, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, statement, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, scan)
		return err
	})
	return list, err
}

// Retries returns how often a serialization failure (40001) had a statement or a
// transaction tried again here. What CockroachDB retries by itself does not show.
func (d *db) Retries() uint64 { return d.retries.Load() }

// countRetry counts that what failed is tried again.
func (d *db) countRetry(err error) {
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "40001" {
		d.retries.Add(1)
	}
}

// rollbackTimeout bounds a rollback. A connection that cannot do even that is
// closed, which rolls back as well.
const rollbackTimeout = 2 * time.Second

// lostCommitError is a COMMIT whose outcome is unknown.
type lostCommitError struct{ cause error }

func (e *lostCommitError) Error() string { return "commit lost: " + e.cause.Error() }

func (e *lostCommitError) Unwrap() error { return e.cause }

// finalError ends a transaction without being one of the database's: it is not
// retried, whatever it wraps.
type finalError struct{ cause error }

func (e *finalError) Error() string { return fmt.Sprint(e.cause) }

// restartError asks for the transaction to be run again.
type restartError struct{}

func (restartError) Error() string { return "the row appeared while it was being made" }

func (restartError) SQLState() string { return "40001" }

// errDone ends a transaction whose work was done before, by one whose answer was
// lost: there is nothing to commit, and so nothing to be in doubt about.
var errDone = &finalError{}

// transaction runs fn on the general pool in a transaction, for rare writes that
// are the same when done twice: fn recognizes its own earlier success, so a lost
// COMMIT is simply tried again, and answers errDone then. Sentinels that fn returns come back as they are.
func (d *db) transaction(ctx context.Context, of share, op string, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		err := d.transactFor(ctx, of, func(tx pgx.Tx) error {
			err := fn(ctx, tx)
			if err != nil && isContract(err) {
				return &finalError{err}
			}
			return err
		})
		var final *finalError
		if errors.As(err, &final) {
			return final.cause
		}
		var lost *lostCommitError
		wasLost := errors.As(err, &lost)
		if err == nil || tries == 2 || !wasLost && !d.dialect.lost(err) || pause(ctx, tries) != nil {
			if wasLost {
				return ambiguous(op, lost.cause)
			}
			return asStoreError(ctx, op, err)
		}
	}
}

// transactFor is transact with a connection of the general pool.
func (d *db) transactFor(ctx context.Context, of share, fn func(pgx.Tx) error) error {
	conn, err := d.general.acquire(ctx, of)
	if err != nil {
		return &notSentError{err}
	}
	defer conn.Release()
	return d.transact(ctx, conn.Conn, 2*d.cfg.StatementTimeout, fn)
}

// transact runs fn in a transaction, again after serialization failures, COMMIT
// included. Its errors are lostCommitError, finalError, or what judge reads as
// not applied. Only the beginning depends on the context; what may wait longer in
// fn brings its own, and nothing that ends in the middle leaves a lock behind.
func (d *db) transact(ctx context.Context, conn *pgxpool.Conn, limit time.Duration, fn func(pgx.Tx) error) error {
	// The caller's context must not cut the COMMIT.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if d.dialect == cockroach {
		return d.transactCockroach(ctx, conn, fn)
	}
	return d.transactPostgres(ctx, conn, fn)
}

// transactCockroach uses cockroach-go's loop, which restarts a transaction in
// place and keeps its priority. RELEASE SAVEPOINT is CockroachDB's COMMIT there.
func (d *db) transactCockroach(ctx context.Context, conn *pgxpool.Conn, fn func(pgx.Tx) error) error {
	tries := uint64(0)
	err := crdbpgx.ExecuteTx(crdb.WithMaxRetries(ctx, maxAttempts), conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		tries++
		return fn(tx)
	})
	if tries > 1 {
		d.retries.Add(tries - 1)
	}
	var lost *crdb.AmbiguousCommitError
	if errors.As(err, &lost) && d.dialect.judge(lost.Unwrap()) == unknown {
		return &lostCommitError{lost.Unwrap()}
	}
	return err
}

// transactPostgres is the same loop for PostgreSQL, where cockroach-go's would
// be wrong: RELEASE SAVEPOINT commits nothing there, and the loop ignores what
// the COMMIT after it says.
func (d *db) transactPostgres(ctx context.Context, conn *pgxpool.Conn, fn func(pgx.Tx) error) error {
	for tries := 1; ; tries++ {
		err := d.tryPostgres(ctx, conn, fn)
		var final *finalError
		var lost *lostCommitError
		var restart restartError
		switch {
		case err == nil, errors.As(err, &final), errors.As(err, &lost):
			return err
		case d.dialect.judge(err) != conflict && !errors.As(err, &restart):
			return err
		case tries == maxAttempts:
			return fmt.Errorf("gave up after %d serialization failures: %w", tries, err)
		}
		d.countRetry(err)
		if err := pause(ctx, tries); err != nil {
			return &notSentError{err}
		}
	}
}

func (d *db) tryPostgres(ctx context.Context, conn *pgxpool.Conn, fn func(pgx.Tx) error) (err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return &notSentError{err}
	}
	committed := false
	defer func() {
		if committed {
			return
		}
		// Also on a panic of fn, which must not leave a lock in the pool.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	if err := fn(tx); err != nil {
		return err
	}
	committed = true
	if err := tx.Commit(ctx); err != nil {
		if d.dialect.judge(err) == unknown {
			return &lostCommitError{err}
		}
		return err
	}
	return nil
}
