package pgproxy_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
)

const insert = `INSERT INTO t SELECT c.n FROM unnest($1::int8[]) AS c (n) RETURNING n`

// table makes the table t of a fresh database and returns a proxy before it, a
// connection through the proxy, and one around it.
func table(t *testing.T) (*pgproxy.Proxy, *pgx.Conn, *pgx.Conn) {
	t.Helper()
	database := pgtest.URL(t)
	p, through := pgproxy.Before(t, database)
	around := connect(t, database)
	if _, err := around.Exec(t.Context(), `CREATE TABLE t (n int8)`); err != nil {
		t.Fatal(err)
	}
	return p, connect(t, through), around
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func count(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM t`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		do      pgproxy.Action
		code    string
		applied int // rows afterwards
		cut     bool
	}{
		{"lose", pgproxy.Lose, "", 0, true},
		{"lose the sync", pgproxy.LoseSync, "", 0, true},
		{"lose the answer", pgproxy.LoseAnswer, "", 2, true},
		{"refuse", pgproxy.Refuse, "40001", 0, false},
		{"deny", pgproxy.Deny, "40003", 2, false},
		{"deny where all rows came", pgproxy.DenyHeld, "40003", 2, false},
		{"terminate", pgproxy.Terminate, "57P01", 0, true},
		{"terminate once done", pgproxy.TerminateDone, "57P01", 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, conn, around := table(t)
			planned := p.Plan(t, pgproxy.Fault{On: "INSERT INTO t", Do: c.do, Code: c.code})
			_, err := conn.Exec(t.Context(), insert, []int64{1, 2})
			<-planned.Struck()
			if err == nil {
				t.Fatal("no error")
			}
			if server := (*pgconn.PgError)(nil); c.code != "" && (!errors.As(err, &server) || server.Code != c.code) {
				t.Errorf("error is %v, want %s", err, c.code)
			}
			if conn.IsClosed() != c.cut {
				t.Errorf("connection closed: %t", conn.IsClosed())
			}
			if !c.cut {
				if got := count(t, conn); got != c.applied {
					t.Errorf("%d rows on the same connection, want %d", got, c.applied)
				}
			}
			if got := count(t, around); got != c.applied {
				t.Errorf("%d rows, want %d", got, c.applied)
			}
		})
	}
}

func TestStrandedUnitArrivesLater(t *testing.T) {
	p, conn, around := table(t)
	planned := p.Plan(t, pgproxy.Fault{On: "INSERT INTO t", Do: pgproxy.Strand})
	if _, err := conn.Exec(t.Context(), insert, []int64{1}); err == nil {
		t.Fatal("no error")
	}
	<-planned.Struck()
	if n := count(t, around); n != 0 {
		t.Fatalf("%d rows before it arrives", n)
	}
	planned.Release()
	p.Wait()
	if n := count(t, around); n != 1 {
		t.Fatalf("%d rows after it arrived", n)
	}
}

// A driver whose connection breaks asks the server to cancel what ran on it.
// From a client that is gone, that arrives no more than anything else.
func TestStrandedUnitIsNotCancelled(t *testing.T) {
	p, conn, around := table(t)
	planned := p.Plan(t, pgproxy.Fault{On: "INSERT INTO t", Do: pgproxy.Strand})
	if _, err := conn.Exec(t.Context(), insert, []int64{1}); err == nil {
		t.Fatal("no error")
	}
	<-conn.PgConn().CleanupDone() // with the driver's own request
	lock, err := around.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `LOCK TABLE t IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	planned.Release()
	for waiting := false; !waiting; {
		const query = `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND NOT granted)`
		if err := lock.QueryRow(t.Context(), query).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lock.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if n := count(t, around); n != 1 {
		t.Fatalf("%d rows after it arrived", n)
	}
}

func TestHeldUnitGoesOn(t *testing.T) {
	p, conn, around := table(t)
	planned := p.Plan(t, pgproxy.Fault{On: "INSERT INTO t", Do: pgproxy.Hold})
	done := make(chan error, 1)
	go func() { _, err := conn.Exec(t.Context(), insert, []int64{1}); done <- err }()
	<-planned.Struck()
	if n := count(t, around); n != 0 {
		t.Fatalf("%d rows while it is held", n)
	}
	planned.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A COMMIT that is refused has ended its transaction, on both sides.
func TestRefusedCommit(t *testing.T) {
	p, conn, around := table(t)
	p.Plan(t, pgproxy.Fault{On: pgproxy.Commit, Do: pgproxy.Refuse, Code: "40001"})
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), insert, []int64{1}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if status := conn.PgConn().TxStatus(); status != 'I' {
		t.Errorf("transaction status is %c", status)
	}
	if n := count(t, around); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestRandom(t *testing.T) {
	p, conn, _ := table(t)
	p.Random(1, func(_ *rand.Rand, u pgproxy.Unit) *pgproxy.Fault {
		if u.Rows == 3 {
			return &pgproxy.Fault{Do: pgproxy.Refuse, Code: "40001"}
		}
		return nil
	})
	for n := range 5 {
		_, err := conn.Exec(t.Context(), insert, make([]int64, n))
		if (err != nil) != (n == 3) {
			t.Errorf("%d rows: %v", n, err)
		}
	}
	if n := p.Fired("40001"); n != 1 {
		t.Errorf("%d faults fired", n)
	}
}
