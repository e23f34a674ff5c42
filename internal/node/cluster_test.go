package node_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
)

// inCluster is a node on a database that forms a cluster with others, with a short lease.
func inCluster(url string, change func(*node.Config)) node.Config {
	c := node.Config{StoreURL: url, Cluster: &node.ClusterConfig{Lease: time.Second}}
	if change != nil {
		change(&c)
	}
	return c
}

// answer is an HTTP answer, read to its end.
type answer struct {
	*http.Response
	body string
}

// put calls an actor over plain HTTP, with headers by name and value.
func put(t *testing.T, url, body string, headers ...string) answer {
	t.Helper()
	return request(t, http.MethodPut, url, body, headers...)
}

// request sends an HTTP request, with headers by name and value.
func request(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res, string(text)}
}

// TestClusterOfThree: whichever node is called, one of them runs all turns of an actor,
// and the others say which.
func TestClusterOfThree(t *testing.T) {
	url := pgtest.URL(t)
	first := start(t, inCluster(url, nil))
	first.deploy(t, "default", example(t, "counter", guestbuild.Go))
	nodes := []*running{first, start(t, inCluster(url, nil)), start(t, inCluster(url, nil))}
	holders := map[string]bool{}
	for i := range 24 {
		id, want := fmt.Sprint("c", i), 0
		holder := ""
		for _, n := range append(nodes, nodes...) {
			want++
			res := put(t, n.URL+"/v2.0/actors/default/Counter/"+id+"/method/Add", `{"amount":1}`)
			if res.StatusCode != http.StatusOK || !strings.Contains(res.body, fmt.Sprint(want)) {
				t.Fatalf("%s: %s %s", id, res.Status, res.body)
			}
			at := res.Header.Get("Greenroom-Host")
			if at == "" {
				at = strings.TrimPrefix(n.URL, "http://")
			}
			if want > len(nodes) && at != holder {
				t.Errorf("%s moved from %s to %s", id, holder, at)
			}
			holder = at
		}
		holders[holder] = true
	}
	if len(holders) != len(nodes) {
		t.Errorf("%d of %d nodes hold actors: %v", len(holders), len(nodes), holders)
	}
}

// TestStickySwitch: with --sticky the host runs ring types as sticky ones, too: what an
// earlier owner of an actor may have under way is fenced out before its first turn.
func TestStickySwitch(t *testing.T) {
	for types, commits := range map[string]int{"Counter": 3, "Other": 2} {
		n := start(t, inCluster(pgtest.URL(t), func(c *node.Config) { c.Cluster.Sticky, c.Cluster.StickyTypes = true, []string{types} }))
		n.deploy(t, "default", example(t, "counter", guestbuild.Go))
		for range 2 {
			if res := put(t, n.URL+"/v2.0/actors/default/Counter/a/method/Add", `{"amount":1}`); res.StatusCode != http.StatusOK {
				t.Fatal(res.Status, res.body)
			}
		}
		want := fmt.Sprintf(`greenroom_commits_total{lane="warm",outcome="ok"} %d`, commits)
		if _, metrics := n.http(t, http.MethodGet, "/metrics", ""); !strings.Contains(metrics, want) {
			t.Errorf("with --sticky for %s: not %s", types, want)
		}
	}
}

// TestNodeLeaves: a node that is stopped hands its actors over, and no call of a client
// of another one fails.
func TestNodeLeaves(t *testing.T) {
	url := pgtest.URL(t)
	first := start(t, inCluster(url, nil))
	first.deploy(t, "default", example(t, "counter", guestbuild.Go))
	second := start(t, inCluster(url, nil))
	var callers sync.WaitGroup
	stopped := make(chan struct{})
	for caller := range 8 {
		callers.Go(func() {
			id := fmt.Sprint("c", caller)
			for n := 1; ; n++ {
				res := put(t, first.URL+"/v2.0/actors/default/Counter/"+id+"/method/Add", `{"amount":1}`)
				if res.StatusCode != http.StatusOK || !strings.Contains(res.body, fmt.Sprintf(":%d}", n)) {
					t.Errorf("%s, call %d: %s %s", id, n, res.Status, res.body)
					return
				}
				select {
				case <-stopped:
					return
				default:
				}
			}
		})
	}
	stop(t, second.Node)
	close(stopped)
	callers.Wait()
}

// TestLogsOfTheCluster: one node shows what guests log at all of them.
func TestLogsOfTheCluster(t *testing.T) {
	url := pgtest.URL(t)
	first := start(t, inCluster(url, nil))
	first.deploy(t, "default", logging(wasmtest.I32Const(0)))
	second := start(t, inCluster(url, nil))
	nodes := []*running{first, second}
	// Until each has passed a call on; the latest actors of that kind.
	elsewhere := map[*running]string{}
	for i := 0; len(elsewhere) < len(nodes); i++ {
		id := fmt.Sprint("c", i)
		for _, n := range nodes {
			res := put(t, n.URL+"/v2.0/actors/default/T/"+id+"/method/Do", "")
			if res.StatusCode >= http.StatusMultipleChoices {
				t.Fatal(res.Status, res.body)
			}
			if res.Header.Get("Greenroom-Host") != "" {
				elsewhere[n] = id
			}
		}
	}
	for _, n := range nodes {
		for _, id := range elsewhere {
			msg := tail(t.Context(), t, n, &greenroomv1.TailRequest{ActorType: "T", ActorId: id, Last: 100}).Msg()
			if len(msg.GetLines()) != len(nodes) || len(msg.GetMissing()) != 0 {
				t.Errorf("%d lines of %s at %s, without %v", len(msg.GetLines()), id, n.URL, msg.GetMissing())
			}
		}
	}
}

// TestDeployedEverywhere: what is deployed, or taken out of service, through one node is so
// at all of them at once: none waits until it looks for it by itself.
func TestDeployedEverywhere(t *testing.T) {
	url := pgtest.URL(t)
	var nodes []*running
	for range 3 {
		nodes = append(nodes, start(t, inCluster(url, nil).WithPoll(time.Hour)))
	}
	status := func(n *running) int {
		return put(t, n.URL+"/v2.0/actors/default/Counter/c/method/Add", `{"amount":1}`).StatusCode
	}
	everywhere := func(what string, want int) {
		t.Helper()
		for i, n := range nodes {
			until(t, fmt.Sprintf("%s, at node %d", what, i), func() bool { return status(n) == want })
		}
	}
	everywhere("nothing is there", http.StatusNotFound)
	nodes[0].deploy(t, "default", example(t, "counter", guestbuild.Go))
	everywhere("deployed", http.StatusOK)
	if _, err := nodes[1].modules.Undeploy(t.Context(), connect.NewRequest(&greenroomv1.UndeployRequest{App: "default", Types: []string{"Counter"}})); err != nil {
		t.Fatal(err)
	}
	everywhere("undeployed", http.StatusNotFound)
	nodes[2].deploy(t, "default", example(t, "counter", guestbuild.Go))
	everywhere("deployed again", http.StatusOK)
}

// TestReleasedActors: sticky actors that their owner released, having too many, are found
// again through every node, also where another one still believes to know the owner.
func TestReleasedActors(t *testing.T) {
	const actors = 12
	url := pgtest.URL(t)
	few := func(c *node.Config) { c.Cluster.Sticky, c.Cluster.MaxOwned = true, actors }
	first := start(t, inCluster(url, few))
	first.deploy(t, "default", example(t, "counter", guestbuild.Go))
	count := map[string]int{}
	add := func(n *running, id string) {
		t.Helper()
		count[id]++
		res := put(t, n.URL+"/v2.0/actors/default/Counter/"+id+"/method/Add", `{"amount":1}`)
		if res.StatusCode != http.StatusOK || !strings.Contains(res.body, fmt.Sprintf(":%d}", count[id])) {
			t.Errorf("%s, call %d: %s %s", id, count[id], res.Status, res.body)
		}
	}
	each := func(n *running, prefix string, number int) {
		for i := range number {
			add(n, fmt.Sprint(prefix, i))
		}
	}
	each(first, "c", actors)
	nodes := []*running{first, start(t, inCluster(url, few)), start(t, inCluster(url, few))}
	for _, n := range nodes {
		each(n, "c", actors) // all know who owns them
	}
	each(first, "d", 6*actors) // of which the first node gets a third
	for _, n := range nodes {
		each(n, "c", actors)
	}
}

// TestClusterKeyFile: nodes with the same key form a cluster over TLS.
func TestClusterKeyFile(t *testing.T) {
	url, file := pgtest.URL(t), filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, bytes.Repeat([]byte{'k'}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(c *node.Config) { c.Cluster.KeyFile = file }
	first := start(t, inCluster(url, with))
	first.deploy(t, "default", example(t, "counter", guestbuild.Go))
	second := start(t, inCluster(url, with))
	for i := range 8 {
		for n, at := range []*running{first, second} {
			res := put(t, at.URL+fmt.Sprintf("/v2.0/actors/default/Counter/k%d/method/Add", i), `{"amount":1}`)
			if res.StatusCode != http.StatusOK || !strings.Contains(res.body, fmt.Sprint(n+1)) {
				t.Errorf("%s %s", res.Status, res.body)
			}
		}
	}
}

// TestClusterConfig: what cannot work says what to change.
func TestClusterConfig(t *testing.T) {
	url := pgtest.URL(t)
	start(t, inCluster(url, nil))
	for name, tt := range map[string]struct {
		change func(*node.Config)
		want   string
	}{
		"another cluster's name": {func(c *node.Config) { c.Cluster.Name = "other" }, "cluster"},
		"no key file":            {func(c *node.Config) { c.Cluster.KeyFile = filepath.Join(t.TempDir(), "none") }, "cluster key"},
		"a newer protocol":       {func(c *node.Config) { c.Cluster.MaxProtocol = 1000 }, "from 1 to"},
		"no address":             {func(c *node.Config) { c.Cluster.Advertise = "nowhere" }, "HOST:PORT"},
		"every address":          {func(c *node.Config) { c.Cluster.Advertise = "0.0.0.0:8080" }, "all of its addresses"},
		"every address, v6":      {func(c *node.Config) { c.Cluster.Advertise = "[::]:8080" }, "all of its addresses"},
		"no port":                {func(c *node.Config) { c.Cluster.Advertise = "web-1:" }, "HOST:PORT"},
		"a port too high":        {func(c *node.Config) { c.Cluster.Advertise = "web-1:99999" }, "HOST:PORT"},
		"two words":              {func(c *node.Config) { c.Cluster.Advertise = "web 1:8080" }, "HOST:PORT"},
		"every address, clients": {func(c *node.Config) { c.Cluster.AdvertiseAPI = "0.0.0.0:8080" }, "--advertise-api"},
		"beyond loopback": {func(c *node.Config) {
			c.Server = server.Config{Config: edge.Config{Addr: "0.0.0.0:0", Token: "a-token-that-is-long"}}
		}, "--cluster-key-file"},
	} {
		cfg := inCluster(url, tt.change)
		if cfg.Server.Addr == "" {
			cfg.Server.Addr = "127.0.0.1:0"
		}
		n, err := node.New(cfg)
		if err == nil {
			if err = n.Start(t.Context()); err == nil {
				stop(t, n)
			}
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := node.New(node.Config{DataDir: t.TempDir(), Cluster: &node.ClusterConfig{}}); err == nil {
		t.Error("the embedded store in a cluster")
	}
}

// TestDatabaseAddresses: a store's URL may name several hosts, which net/url does not read.
func TestDatabaseAddresses(t *testing.T) {
	for url, want := range map[string]string{
		"postgresql://db/greenroom":                          "[db:5432]",
		"postgresql://u:p%40w@db1:26257,db2:26257,db3/x?a=b": "[db1:26257 db2:26257 db3:5432]",
		"postgres://u:p@ss@[::1]:5433,10.0.0.1":              "[[::1]:5433 10.0.0.1:5432]",
		"postgres://db?sslmode=disable":                      "[db:5432]",
		"postgres:///x?host=/var/run":                        "[]",
		"":                                                   "[]",
	} {
		if got := fmt.Sprint(node.DatabaseAddresses(url)); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}
