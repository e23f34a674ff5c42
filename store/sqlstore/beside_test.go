package sqlstore

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestReadBesideLocksIsBounded reads on a server that refuses the options of
// CockroachDB's BEGIN, as PostgreSQL does: what is free is read, and what is locked
// ends as unavailable instead of waiting for as long as the lock is held.
func TestReadBesideLocksIsBounded(t *testing.T) {
	s, err := Open(t.Context(), Config{URL: pgtest.URL(t), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	count := func() (n int, err error) {
		err = s.readFor(t.Context(), hostItself, "load", func(ctx context.Context, conn *pgxpool.Conn) error {
			return s.besideLocks(ctx, conn, func() error {
				// FOR UPDATE, since a plain read waits for nobody here.
				rows, err := conn.Query(ctx, `SELECT name FROM greenroom_schema FOR UPDATE`)
				if err != nil {
					return err
				}
				defer rows.Close()
				for n = 0; rows.Next(); n++ {
				}
				return rows.Err()
			})
		})
		return n, err
	}
	if n, err := count(); n != 1 || err != nil {
		t.Fatalf("%d rows of a free table, %v", n, err)
	}
	tx, err := s.turns.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE greenroom_schema SET checked_at = now()`); err != nil {
		t.Fatal(err)
	}
	if _, err := count(); !errors.Is(err, actor.ErrUnavailable) {
		t.Errorf("a locked row: %v, want %v", err, actor.ErrUnavailable)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := count(); n != 1 || err != nil {
		t.Errorf("%d rows once it was free, %v", n, err)
	}
}
