package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroom-run/greenroom/actor"
)

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
