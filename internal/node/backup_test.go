package node_test

import (
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// postgresProgram is a program of PostgreSQL's client, which Debian keeps off PATH.
func postgresProgram(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s is not installed; run make setup", name)
	}
	return found[len(found)-1]
}

// TestRestoredDatabase: the commands of docs/backup.md make a database on which servers go
// on.
func TestRestoredDatabase(t *testing.T) {
	t.Run("postgresql", func(t *testing.T) {
		dump, restore := postgresProgram(t, "pg_dump"), postgresProgram(t, "pg_restore")
		to := pgtest.URL(t)
		restoredDatabase(t, pgtest.URL(t), to, func(from string) {
			file := filepath.Join(t.TempDir(), "greenroom.dump")
			for _, args := range [][]string{
				{dump, "--format=custom", "--file", file, from},
				{restore, "--no-owner", "--exit-on-error", "--dbname", to, file},
			} {
				if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", args, err, out)
				}
			}
		})
	})
	t.Run("cockroachdb", func(t *testing.T) {
		from, ok := pgtest.CockroachURL(t)
		if !ok {
			t.Skipf("%s is not set", pgtest.CockroachVariable)
		}
		to, _ := pgtest.CockroachURL(t) // which RESTORE makes
		name := func(storeURL string) string {
			u, err := url.Parse(storeURL)
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimPrefix(u.Path, "/")
		}
		restoredDatabase(t, from, to, func(string) {
			psql := postgresProgram(t, "psql")
			for _, sql := range []string{
				"DROP DATABASE " + name(to) + " CASCADE",
				"BACKUP DATABASE " + name(from) + " INTO 'nodelocal://1/" + name(from) + "'",
				"RESTORE DATABASE " + name(from) + " FROM LATEST IN 'nodelocal://1/" + name(from) + "' WITH new_db_name = '" + name(to) + "'",
			} {
				if out, err := exec.CommandContext(t.Context(), psql, "-Xqc", sql, from).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", sql, err, out)
				}
			}
		})
	})
}

// restoredDatabase has a server go on in a database that copied makes of another one's.
func restoredDatabase(t *testing.T, from, to string, copied func(from string)) {
	t.Helper()
	n := start(t, inCluster(from, nil))
	n.deploy(t, "default", example(t, "counter", guestbuild.Go))
	add := func(n *running, amount, want string) {
		t.Helper()
		res := put(t, n.URL+"/v2.0/actors/default/Counter/c/method/Add", `{"amount":`+amount+`}`)
		if res.StatusCode != http.StatusOK || !strings.Contains(res.body, want) {
			t.Errorf("%s %s, want %s", res.Status, res.body, want)
		}
	}
	add(n, "40", "40")
	copied(from)
	stop(t, n.Node)
	add(start(t, inCluster(to, nil)), "2", "42")
}
