package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/cockroach-go/v2/crdb"
	"github.com/cockroachdb/cockroach-go/v2/crdb/crdbpgxv5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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

func (restartError) Error() string    { return "the row appeared while it was being made" }
func (restartError) SQLState() string { return "40001" }

// transact runs fn in a transaction, again after serialization failures, COMMIT
// included. Its errors are lostCommitError, finalError, or what judge reads as
// not applied. The context is for getting a connection; what may wait longer in
// fn brings its own, and nothing that ends in the middle leaves a lock behind.
func (s *Store) transact(ctx context.Context, pool *pgxpool.Pool, limit time.Duration, fn func(pgx.Tx) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return &notSentError{err}
	}
	defer conn.Release()
	// The caller's context must not cut the COMMIT.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if s.dialect == cockroach {
		return s.transactCockroach(ctx, conn, fn)
	}
	return s.transactPostgres(ctx, conn, fn)
}

// transactCockroach uses cockroach-go's loop, which restarts a transaction in
// place and keeps its priority. RELEASE SAVEPOINT is CockroachDB's COMMIT there.
func (s *Store) transactCockroach(ctx context.Context, conn *pgxpool.Conn, fn func(pgx.Tx) error) error {
	tries := uint64(0)
	err := crdbpgx.ExecuteTx(crdb.WithMaxRetries(ctx, maxAttempts), conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		tries++
		return fn(tx)
	})
	if tries > 1 {
		s.retries.Add(tries - 1)
	}
	var lost *crdb.AmbiguousCommitError
	if errors.As(err, &lost) && s.dialect.judge(lost.Unwrap()) == unknown {
		return &lostCommitError{lost.Unwrap()}
	}
	return err
}

// transactPostgres is the same loop for PostgreSQL, where cockroach-go's would
// be wrong: RELEASE SAVEPOINT commits nothing there, and the loop ignores what
// the COMMIT after it says.
func (s *Store) transactPostgres(ctx context.Context, conn *pgxpool.Conn, fn func(pgx.Tx) error) error {
	for tries := 1; ; tries++ {
		err := s.tryPostgres(ctx, conn, fn)
		var final *finalError
		var lost *lostCommitError
		var restart restartError
		switch {
		case err == nil, errors.As(err, &final), errors.As(err, &lost):
			return err
		case s.dialect.judge(err) != conflict && !errors.As(err, &restart):
			return err
		case tries == maxAttempts:
			return fmt.Errorf("gave up after %d serialization failures: %w", tries, err)
		}
		s.countRetry(err)
		if err := pause(ctx, tries); err != nil {
			return &notSentError{err}
		}
	}
}

func (s *Store) tryPostgres(ctx context.Context, conn *pgxpool.Conn, fn func(pgx.Tx) error) (err error) {
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
		if s.dialect.judge(err) == unknown {
			return &lostCommitError{err}
		}
		return err
	}
	return nil
}
