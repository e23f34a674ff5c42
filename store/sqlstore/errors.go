package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/cockroach-go/v2/crdb"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroom-run/greenroom/actor"
)

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

// asStoreError makes err an error of the storage contract, for statements of
// which it does not matter whether they were applied: reads, and writes that
// are the same when done twice.
func asStoreError(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%s: %w", op, ended)
	}
	if isContract(err) {
		return fmt.Errorf("%s: %w", op, err)
	}
	if postgres.judge(err) == refused {
		return fmt.Errorf("%s: %w", op, err)
	}
	return unavailable(op, err)
}

// unavailable wraps [actor.ErrUnavailable] and keeps of the cause its text only,
// so that nobody branches on a driver's error.
func unavailable(op string, cause error) error {
	var server *pgconn.PgError
	if errors.As(cause, &server) {
		switch server.Code {
		case "25006": // read_only_sql_transaction
			return fmt.Errorf("%s: %w: %v", op, &actor.UnwritableError{Reason: "it is read-only, as a standby is, or was set so (default_transaction_read_only)"}, cause)
		case "53100": // disk_full
			return fmt.Errorf("%s: %w: %v", op, &actor.UnwritableError{Reason: "its disk is full"}, cause)
		}
	}
	return fmt.Errorf("%s: %w: %v", op, actor.ErrUnavailable, cause)
}

// withRemedy adds the remedy to err, which states why the store could not be opened, if the
// database's answer shows what to change.
func withRemedy(err, cause error, to *pgx.ConnConfig) error {
	var server *pgconn.PgError
	if !errors.As(cause, &server) {
		return err
	}
	switch server.Code {
	case "3D000": // invalid_catalog_name
		return fmt.Errorf("%w: create it, with CREATE DATABASE %q OWNER %q, or name another one in the URL", err, to.Database, to.User)
	case "28P01", "28000": // invalid_password, invalid_authorization_specification
		return fmt.Errorf("%w: put a user that the server knows, and its password, into the URL; it has %q", err, to.User)
	case "42501": // insufficient_privilege
		return fmt.Errorf("%w: the user makes tables, so let it own the database: ALTER DATABASE %q OWNER TO %q", err, to.Database, to.User)
	}
	return err
}

// distinctLines says each line of an error once: pgx has one for each attempt, with TLS
// and without, at each address.
type distinctLines struct{ error }

func (e distinctLines) Unwrap() error { return e.error }

func (e distinctLines) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

// ambiguous wraps [actor.ErrAmbiguous] in the same way.
func ambiguous(op string, cause error) error {
	return fmt.Errorf("%s: %w: %v", op, actor.ErrAmbiguous, cause)
}

// isContract tells errors that already have a meaning for callers.
func isContract(err error) bool {
	var argument *actor.ArgumentError
	return actor.AsCondition(err) != nil || errors.As(err, &argument)
}
