//go:build unix

package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// CockroachVariable names the environment variable with the URL of a CockroachDB
// that tests may make databases on.
const CockroachVariable = "GREENROOM_TEST_COCKROACH_URL"

// shared is the server of this test process: one per process is the purpose of
// this package, and a process has no other place to keep it.
var shared = sync.OnceValues(newServer)

// URL returns the URL of a fresh database on the PostgreSQL of this test
// process. It fails the test if PostgreSQL is not installed.
func URL(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s.Database(t)
}

// CockroachURL returns the URL of a fresh database on the CockroachDB that
// GREENROOM_TEST_COCKROACH_URL names, dropped at the test's end; false if the
// variable is not set.
func CockroachURL(t testing.TB) (string, bool) {
	t.Helper()
	base := os.Getenv(CockroachVariable)
	if base == "" {
		return "", false
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		t.Fatalf("%s is not a URL of the form postgres://USER@HOST:PORT/DATABASE", CockroachVariable)
	}
	bin, err := binFolder() // its psql speaks to CockroachDB as well
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, sql string) {
		cmd := exec.CommandContext(ctx, bin+"/psql", "-Xqc", sql, base)
		cmd.Env = append(os.Environ(), "PGCONNECT_TIMEOUT=10")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s on CockroachDB: %v\n%s", sql, err, out)
		}
	}
	name := "test_" + strings.ToLower(rand.Text())
	run(t.Context(), "CREATE DATABASE "+name)
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		run(ctx, "DROP DATABASE "+name+" CASCADE")
	})
	u.Path = "/" + name
	return u.String(), true
}
