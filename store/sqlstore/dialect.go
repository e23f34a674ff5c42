package sqlstore

import (
	"context"
	"errors"

	"github.com/cockroachdb/cockroach-go/v2/crdb"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// verdict is what an error says about the statement that it ended.
type verdict uint8

const (
	// unknown: it may have been applied, or may be yet. Only settling tells.
	unknown verdict = iota
	// unsent: the server never got it.
	unsent
	// conflict: not applied; another transaction was in the way, try again.
	conflict
	// blocked: not applied; a row stayed locked for longer than lockTimeout.
	blocked
	// unable: not applied; the server has no room, no time or no permission to
	// write just now.
	unable
	// refused: not applied, and trying again would change nothing.
	refused
)

func (v verdict) String() string {
	return [...]string{"unknown", "unsent", "conflict", "blocked", "unable", "refused"}[v]
}

// judge is the one place that reads errors of the driver and the database.
//
// Whatever is not listed is unknown: taking an applied commit for a refused one
// would be a lie, while the other way round costs two statements to settle.
func (d dialect) judge(err error) verdict {
	var (
		retries *crdb.MaxRetriesExceededError
		restart *crdb.TxnRestartError
		server  *pgconn.PgError
		connect *pgconn.ConnectError
		notSent *notSentError
	)
	switch {
	case errors.As(err, &retries):
		return conflict
	case errors.As(err, &restart):
		return unable // the transaction could not even be begun anew, so it is gone
	case errors.As(err, &connect):
		return unsent
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return unable // PostgreSQL answered COMMIT with ROLLBACK
	case errors.As(err, &server):
		return d.judgeServer(server)
	case errors.As(err, &notSent):
		// Only where this package knows it itself: pgconn.SafeToRetry is true as
		// well of a connection that broke while the answer to a COMMIT was awaited.
		return unsent
	}
	return unknown
}

func (d dialect) judgeServer(err *pgconn.PgError) verdict {
	if endsSession(err) || len(err.Code) != 5 {
		// The session is over. PostgreSQL may say so while it waits for a replica
		// of what it has already committed.
		return unknown
	}
	if isRecordInPlace(err) {
		return conflict
	}
	switch err.Code {
	case "40001", "40P01": // serialization_failure, deadlock_detected
		return conflict
	case "40003": // statement_completion_unknown
		return unknown
	case "55P03": // lock_not_available
		return blocked
	case "25006": // read_only_sql_transaction
		return unable
	case "57014": // query_canceled, by statement_timeout too
		if d == cockroach {
			// It may strike while the implicit transaction is committing.
			return unknown
		}
		return unable
	}
	switch err.Code[:2] {
	case "53": // insufficient_resources: disk, memory, connections
		return unable
	case "0A", "22", "23", "25", "26", "28", "42", "54":
		// not supported, bad data, constraint, transaction state, statement name,
		// permission, syntax or missing table, limit of the program
		return refused
	}
	return unknown
}

// endsSession reads the severity that is not translated into the server's
// language; a server too old to send it has no other.
func endsSession(err *pgconn.PgError) bool {
	severity := err.SeverityUnlocalized
	if severity == "" {
		severity = err.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}

// isUnsure recognizes a server's own word that it does not know whether it has done
// what it was asked for.
func isUnsure(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == "40003"
}

// isRecordInPlace tells the failure that writeRecords speaks of.
func isRecordInPlace(err *pgconn.PgError) bool {
	return err.Code == "23505" && err.ConstraintName == "greenroom_idempotency_pkey"
}

// lost reports whether the connection broke. A pool hands out connections that
// a restarted server forgot, so the first such failure says nothing about the
// server as it is now.
func (d dialect) lost(err error) bool {
	v := d.judge(err)
	return v == unknown || v == unsent && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// notSentError is a failure before anything went to the server.
type notSentError struct{ cause error }

func (e *notSentError) Error() string { return e.cause.Error() }

func (e *notSentError) Unwrap() error { return e.cause }
