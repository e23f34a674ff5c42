package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// ready waits until /readyz answers with a status and a part of a reason.
func (r *running) ready(t *testing.T, want int, reason string) {
	t.Helper()
	until(t, reason, func() bool {
		status, body := r.http(t, http.MethodGet, "/readyz", "")
		return status == want && strings.Contains(body, reason)
	})
}

// TestReadyInCluster: a node that cannot pass calls on is not ready, and says why, though its
// database works: here one with another key than the others.
func TestReadyInCluster(t *testing.T) {
	url, dir := pgtest.URL(t), t.TempDir()
	with := func(key byte) func(*node.Config) {
		file := filepath.Join(dir, string(key))
		if err := os.WriteFile(file, bytes.Repeat([]byte{key}, 32), 0o600); err != nil {
			t.Fatal(err)
		}
		return func(c *node.Config) { c.Cluster.KeyFile = file }
	}
	first := start(t, inCluster(url, with('a')))
	first.deploy(t, "default", example(t, "counter", guestbuild.Go))
	first.ready(t, http.StatusOK, "ok")
	second := start(t, inCluster(url, with('a')))
	second.ready(t, http.StatusOK, "ok")
	third := start(t, inCluster(url, with('b')))
	third.ready(t, http.StatusServiceUnavailable, "has not heard yet where actors are")
	if status, body := first.http(t, http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Errorf("the first one: %d %s", status, body)
	}
}

// TestClockJumpsInCluster: a node whose clock jumps answers nothing from memory before it
// has renewed its lease, which here is longer than the test.
func TestClockJumpsInCluster(t *testing.T) {
	var ahead atomic.Int64
	cfg := inCluster(pgtest.URL(t), func(c *node.Config) { c.Cluster.Lease = time.Hour })
	n := start(t, cfg.WithWall(func(now time.Time) time.Duration { return time.Duration(now.UnixNano() + ahead.Load()) }))
	n.deploy(t, "default", example(t, "counter", guestbuild.Go))
	n.mustCall(t, "default", "Counter", "c", "Add", `{"amount":1}`, `{"count":1}`)
	read := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := n.actors.Query(ctx, connect.NewRequest(&greenroomv1.QueryRequest{
			Actor: &greenroomv1.ActorKey{App: "default", Type: "Counter", Id: "c"}, Method: "Get",
		}))
		return err
	}
	if err := read(patience); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(2 * time.Hour))
	if err := read(2 * time.Second); err == nil {
		t.Error("a read is answered though the lease may be over")
	}
	n.ready(t, http.StatusServiceUnavailable, "does not have its lease")
}

// TestDatabaseReadOnly: while the database of a cluster takes no writes calls fail with a
// typed error that may be repeated, and no node is ready; then all goes on, and nothing is
// lost.
func TestDatabaseReadOnly(t *testing.T) {
	db := pgtest.Start(t)
	at := db.Database(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	nodes := []*running{start(t, inCluster(at, nil))}
	nodes[0].deploy(t, "default", example(t, "counter", guestbuild.Go))
	nodes = append(nodes, start(t, inCluster(at, nil)))
	count := map[string]int{}
	add := func(n *running, id string) answer {
		t.Helper()
		return put(t, n.URL+"/v2.0/actors/default/Counter/"+id+"/method/Add", `{"amount":1}`)
	}
	everyone := func() {
		t.Helper()
		for _, id := range []string{"a", "b", "c", "d"} {
			for _, n := range nodes {
				var res answer
				until(t, "a call of "+id, func() bool { res = add(n, id); return res.StatusCode == http.StatusOK })
				count[id]++
				var got struct{ Count int }
				if err := json.Unmarshal([]byte(res.body), &got); err != nil || got.Count != count[id] {
					t.Errorf("%s has %s, want %d", id, res.body, count[id])
				}
			}
		}
	}
	readOnly := func(is string) {
		t.Helper()
		db.Exec(t, "postgres", `ALTER DATABASE "`+name+`" SET default_transaction_read_only = `+is)
		db.Exec(t, "postgres", `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '`+name+`'`)
	}
	for _, n := range nodes {
		n.ready(t, http.StatusOK, "ok")
	}
	everyone()
	readOnly("on")
	for _, n := range nodes {
		n.ready(t, http.StatusServiceUnavailable, "takes no writes")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := n.call(ctx, "default", "Counter", "a", "Add", `{"amount":1}`)
		cancel()
		switch d := detail(err); {
		case err == nil:
			t.Fatal("an actor was changed")
		case d == nil && !errors.Is(ctx.Err(), context.DeadlineExceeded),
			d != nil && !slices.Contains([]string{"store_unavailable", "no_owner", "deadline"}, d.Kind):
			t.Errorf("%v %v", err, d)
		}
	}
	readOnly("off")
	for _, n := range nodes {
		n.ready(t, http.StatusOK, "ok")
	}
	everyone()
}
