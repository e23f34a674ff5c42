package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestJudge(t *testing.T) {
	code := func(code string) error { return &pgconn.PgError{Severity: "ERROR", Code: code} }
	for _, c := range []struct {
		err                 error
		postgres, cockroach verdict
	}{
		{code("40001"), conflict, conflict},
		{code("40P01"), conflict, conflict},
		{code("40003"), unknown, unknown},
		{code("55P03"), blocked, blocked},
		{code("57014"), unable, unknown},
		{code("25006"), unable, unable},
		{code("53100"), unable, unable},
		{code("22021"), refused, refused},
		{code("42P01"), refused, refused},
		{code("XX000"), unknown, unknown},
		{code("08006"), unknown, unknown},
		{&pgconn.PgError{Severity: "FATAL", Code: "57P01"}, unknown, unknown},
		{&pgconn.PgError{Severity: "FATAL", Code: "40001"}, unknown, unknown},
		// A server that speaks another language than ours.
		{&pgconn.PgError{Severity: "FATALE", SeverityUnlocalized: "FATAL", Code: "53200"}, unknown, unknown},
		{&pgconn.PgError{Severity: "PANIK", SeverityUnlocalized: "PANIC", Code: "53100"}, unknown, unknown},
		{&pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "53100"}, unable, unable},
		{&pgconn.ConnectError{}, unsent, unsent},
		{&notSentError{io.EOF}, unsent, unsent},
		{pgx.ErrTxCommitRollback, unable, unable},
		{io.ErrUnexpectedEOF, unknown, unknown},
		{context.DeadlineExceeded, unknown, unknown},
		{errors.New("anything"), unknown, unknown},
		{fmt.Errorf("read: %w", safeError{}), unknown, unknown},
	} {
		if got := postgres.judge(c.err); got != c.postgres {
			t.Errorf("PostgreSQL: %v is %v, want %v", c.err, got, c.postgres)
		}
		if got := cockroach.judge(c.err); got != c.cockroach {
			t.Errorf("CockroachDB: %v is %v, want %v", c.err, got, c.cockroach)
		}
	}
}

func TestReadsOfAPastThatWasNot(t *testing.T) {
	for err, want := range map[error]bool{
		&pgconn.PgError{Code: "42P01", Message: `relation "greenroom_actor" does not exist`}:                      true,
		&pgconn.PgError{Code: "3D000", Message: `database "new" does not exist`}:                                  true,
		&pgconn.PgError{Code: "XXUUU", Message: "batch timestamp 1.0,0 must be after replica GC threshold 2.0,0"}: true,
		&pgconn.PgError{Code: "40001"}: false,
		io.ErrUnexpectedEOF:            false,
	} {
		if got := beforeItsTime(fmt.Errorf("read: %w", err)); got != want {
			t.Errorf("%v: %t, want %t", err, got, want)
		}
	}
	if beforeItsTime(nil) {
		t.Error("no error is taken for one")
	}
}

// safeError is what pgx says of a connection that broke while an answer was
// awaited, and of one that was closed before anything was sent.
type safeError struct{}

func (safeError) Error() string     { return "conn closed" }
func (safeError) SafeToRetry() bool { return true }

// No part of a password may appear in an error.
func TestPasswordsStaySecret(t *testing.T) {
	for _, url := range []string{
		"postgres://u:s3cr3t@127.0.0.1:1/d",
		"postgres://u:s3cr3t:more@127.0.0.1:port/d",
		"postgres://u:s3cr3t%zz@h/d",
		"postgres://u:s3cr3t@127.0.0.1:1/d?sslmode=nonsense",
		"mysql://u:s3cr3t@h/d",
		"host=h password=s3cr3t",
	} {
		_, err := Open(t.Context(), Config{URL: url})
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("error is %v", err)
		}
	}
}
