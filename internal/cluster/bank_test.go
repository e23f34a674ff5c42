//go:build unix

package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestTransfers: whatever breaks, chains over actors of two languages move money. Chains within
// one group are atomic: each transaction that reads a group sees all or nothing of each transfer.
// Where accounts are at several servers, each debit and each credit happens at most once, and the
// ledgers of both ends explain every balance. Each acknowledged transfer has happened, and no
// refused one has.
func TestTransfers(t *testing.T) {
	t.Run("postgresql", func(t *testing.T) {
		db := pgtest.Start(t)
		transfers(t, db.Database(t), db)
	})
	if os.Getenv(pgtest.CockroachVariable) != "" {
		t.Run("cockroachdb", func(t *testing.T) {
			url, _ := pgtest.CockroachURL(t)
			transfers(t, url, nil)
		})
	}
}

// transfers runs on a database, which is restarted if it is of this test's own server.
func transfers(t *testing.T, database string, db *pgtest.Server) {
	t.Helper()
	members := startCluster(t, database, nil)
	deployBank(t, members[0])
	b := &crash.Bank{Client: newClient(t, members, 0), Once: newClient(t, members, 1), Attempt: attemptTime}
	r := &run{members: members, names: crash.BankDesks}
	open := func() {
		t.Helper()
		if err := b.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	open()
	random := r.begin(t, func(ctx context.Context, t *testing.T, _ int, random *rand.Rand) {
		for {
			select {
			case <-r.stop:
				return
			default:
			}
			desk, err := b.Call(ctx, random)
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case r.acks <- fmt.Sprint(desk):
			default:
			}
		}
	})
	r.breakAll(t, random, faults(db), open)
	r.finish()
	for _, m := range members {
		if err := m.process.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	for _, problem := range b.Check(storedBooks(t, database)) {
		t.Error(problem)
	}
	t.Log(b.Summary())
}

// deployBank deploys what [crash.Bank] calls.
func deployBank(t *testing.T, at *member) {
	t.Helper()
	for dir, toolchain := range map[string]string{"bank": guestbuild.Go, "bank-rust": guestbuild.Cargo} {
		deployGuest(t, at, filepath.Join("../crash/testdata", dir), toolchain)
	}
}

// deployGuest builds a guest and deploys it.
func deployGuest(t *testing.T, at *member, dir, toolchain string) {
	t.Helper()
	built, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: dir, Out: filepath.Join(t.TempDir(), "guest.wasm"), Toolchain: toolchain})
	if err != nil {
		t.Fatal(err)
	}
	deploy := exec.CommandContext(t.Context(), binary, "deploy", built.Path, "--server", at.process.URL)
	if out, err := deploy.CombinedOutput(); err != nil {
		t.Fatalf("deploy: %v\n%s", err, out)
	}
}

// storedBooks reads the books of all actors from the database.
func storedBooks(t *testing.T, database string) map[string]crash.BankBook {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.Query(t.Context(), `SELECT id, state_text FROM greenroom_state WHERE app = 'default'`)
	if err != nil {
		t.Fatal(err)
	}
	books := map[string]crash.BankBook{}
	for rows.Next() {
		var id, state string
		if err := rows.Scan(&id, &state); err != nil {
			t.Fatal(err)
		}
		var book crash.BankBook
		if err := json.Unmarshal([]byte(state), &book); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		books[id] = book
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return books
}
