package sqlstore_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/storetest"
)

// engines are the databases and isolation levels that every contract test runs on.
func engines(t *testing.T) map[string]func(t *testing.T) string {
	all := map[string]func(t *testing.T) string{
		"postgresql/read committed": func(t *testing.T) string { return pgtest.URL(t) },
		"postgresql/serializable": func(t *testing.T) string {
			return with(pgtest.URL(t), "default_transaction_isolation=serializable")
		},
	}
	if _, ok := pgtest.CockroachURL(t); ok {
		all["cockroachdb"] = func(t *testing.T) string { url, _ := pgtest.CockroachURL(t); return url }
	}
	return all
}

// with adds a parameter to a database URL.
func with(url, parameter string) string {
	if strings.Contains(url, "?") {
		return url + "&" + parameter
	}
	return url + "?" + parameter
}

func open(t testing.TB, url string) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// patience is far more than a statement, or the wait for a row, takes on the slowest
// database.
const patience = 5 * time.Minute

// openPatient opens a store for tests that are not about time: none of their
// statements is late, and no row locked for too long, because the database is slow.
func openPatient(t testing.TB, url string) *sqlstore.Store {
	t.Helper()
	return openRecorded(t, url, new(sqlstore.Statements))
}

// openRecorded is openPatient for a store whose statements are recorded.
func openRecorded(t testing.TB, url string, into *sqlstore.Statements) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.OpenRecorded(t.Context(), sqlstore.Config{
		URL: url, Logger: slog.New(slog.DiscardHandler),
		StatementTimeout: patience, TurnTimeout: patience, LockWait: patience,
	}, into)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestContract(t *testing.T) {
	var sent sqlstore.Statements
	for name, url := range engines(t) {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Store { return openRecorded(t, url(t), &sent) })
		})
	}
	t.Run("statements", func(t *testing.T) { checkStatements(t, sent.Texts()) })
}

func TestDamage(t *testing.T) {
	for name, url := range engines(t) {
		t.Run(name, func(t *testing.T) {
			database := url(t)
			storetest.RunDamage(t, storetest.Damage{
				Open: func(t *testing.T) store.Store { return openPatient(t, database) },
				// Row is left out: a version that another program wrote cannot be
				// told from one of ours.
				State: func(t *testing.T, _ store.Store, k actor.Key) {
					execute(t, database, `UPDATE greenroom_actor SET format = 9 WHERE app = $1 AND type = $2 AND id = $3`, k.App, k.Type, k.ID)
				},
				Record: func(t *testing.T, _ store.Store, c actor.KeyedCall) {
					id := store.RecordIDOf(c)
					execute(t, database, `UPDATE greenroom_idempotency SET record = 'x' WHERE id = $1`, id)
				},
				Module: func(t *testing.T, _ store.Store, app string, d actor.Digest) {
					execute(t, database, `UPDATE greenroom_module_chunk SET data = 'x' WHERE n = 0
						AND upload = (SELECT upload FROM greenroom_module WHERE app = $1 AND digest = $2)`, app, string(d))
				},
			})
		})
	}
}

func TestLap(t *testing.T) {
	for name, url := range engines(t) {
		t.Run(name, func(t *testing.T) {
			database := url(t)
			storetest.RunLap(t, storetest.Lap{
				Open: func(t *testing.T) store.Store { return openPatient(t, database) },
				Spend: func(t *testing.T, _ store.Store, app string, next uint32) {
					execute(t, database, `UPDATE greenroom_lap SET next = $2 WHERE app = $1`, app, int64(next))
				},
			})
		})
	}
}

func TestModel(t *testing.T) {
	for name, url := range engines(t) {
		t.Run(name, func(t *testing.T) {
			storetest.RunModel(t, func(t *testing.T) store.Store { return openPatient(t, url(t)) })
		})
	}
}

// execute changes one row behind the store's back.
func execute(t *testing.T, url, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	tag, err := conn.Exec(t.Context(), sql, args...)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%d rows: %v", tag.RowsAffected(), err)
	}
}
