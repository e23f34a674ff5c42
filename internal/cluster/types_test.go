//go:build unix

package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestManyTypesDrain: three servers that run many types, a module in many apps, hand over all
// that they hold when they are restarted one after the other, while actors of one type are
// called. GREENROOM_TYPES says how many types there are.
func TestManyTypesDrain(t *testing.T) {
	n := 200
	if s := os.Getenv("GREENROOM_TYPES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	database := pgtest.Start(t).Database(t)
	logs := make([]string, 3)
	members := startCluster(t, database, func(i int, o *crash.Options) {
		log, err := os.Create(filepath.Join(t.TempDir(), fmt.Sprint(i, ".log")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		logs[i], o.Log = log.Name(), log
		o.Args = append(o.Args, "--lease", "3s")
	})
	for _, m := range members {
		if err := m.process.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	copyApps(t, database, n)
	for _, m := range members {
		m.start(t)
	}
	c, err := client.New(client.Config{URL: members[0].process.URL, URLs: []string{members[1].process.URL, members[2].process.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	call := func(app string, id int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), stalled)
		defer cancel()
		if _, err := c.Do(ctx, client.Request{App: app, Type: "Counter", ID: fmt.Sprint("c", id), Method: "Add", Payload: []byte(`{"amount":1}`)}); err != nil {
			t.Errorf("app %s: %v", app, err)
		}
	}
	for i, m := range members {
		for id := range counters {
			call("default", id)
			call(fmt.Sprint("a", 1+id%n), id)
		}
		before, err := os.ReadFile(logs[i])
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := m.process.Stop(t.Context()); err != nil {
			t.Errorf("server %d did not hand over all that it held: %v", i, err)
		}
		took := time.Since(began)
		text, err := os.ReadFile(logs[i])
		if err != nil {
			t.Fatal(err)
		}
		said := text[len(before):]
		if !bytes.Contains(said, []byte("drained")) || bytes.Contains(said, []byte("did not say who has all")) {
			t.Errorf("server %d left without the leader's word:\n%s", i, said)
		}
		t.Logf("server %d of 3 with %d types: ended after %v", i, n+1, took.Round(time.Millisecond))
		for line := range bytes.Lines(said) {
			if bytes.Contains(line, []byte("drained")) {
				t.Logf("%s", bytes.TrimSpace(line))
			}
		}
		m.start(t)
	}
}

// copyApps makes n apps that have what the default one has.
func copyApps(t *testing.T, database string, n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, table := range []string{"greenroom_module", "greenroom_type", "greenroom_deployment"} {
		if _, err := conn.Exec(t.Context(), `INSERT INTO `+table+` SELECT (jsonb_populate_record(t, jsonb_build_object('app', 'a' || g))).* FROM `+table+` AS t, generate_series(1, $1::int) AS g WHERE t.app = 'default'`, n); err != nil {
			t.Fatalf("copy %s: %v", table, err)
		}
	}
}
