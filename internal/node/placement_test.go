package node_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// place deploys a module again with a placement of a type.
func (r *running) place(t *testing.T, m *greenroomv1.Module, typ, policy string) *greenroomv1.Deployment {
	t.Helper()
	resp, err := r.modules.Deploy(t.Context(), connect.NewRequest(&greenroomv1.DeployRequest{
		App: "default", Digest: m.Digest, Types: []string{typ}, Placements: []*greenroomv1.TypePlacement{{Type: typ, Placement: policy}},
	}))
	if err != nil {
		t.Fatalf("place %s as %s: %v", typ, policy, err)
	}
	return resp.Msg.Deployments[0]
}

// placement is what a node knows of the table of a type.
func (r *running) placement(t *testing.T, typ string) *greenroomv1.GetPlacementResponse {
	t.Helper()
	client := h2c()
	defer client.CloseIdleConnections()
	resp, err := greenroomv1connect.NewClusterServiceClient(client, r.URL).
		GetPlacement(t.Context(), connect.NewRequest(&greenroomv1.GetPlacementRequest{App: "default", Type: typ}))
	if err != nil {
		return &greenroomv1.GetPlacementResponse{}
	}
	return resp.Msg
}

// named names a node.
func named(name string) func(*node.Config) {
	return func(c *node.Config) { c.Cluster.HostName = name }
}

// until asks again and again whether something has come about.
func until(t *testing.T, what string, fits func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for pause := time.NewTicker(20 * time.Millisecond); !fits(); <-pause.C {
		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// TestPlacementChangesUnderLoad: the placement of a type that is called all the time is
// deployed anew, again and again: every node follows, no call fails, and none is counted
// twice or lost.
func TestPlacementChangesUnderLoad(t *testing.T) {
	url := pgtest.URL(t)
	member := func(name string) node.Config { // none is lost, however busy the machine is
		return inCluster(url, func(c *node.Config) { named(name)(c); c.Cluster.Lease = time.Minute })
	}
	first := start(t, member("n1"))
	m := first.deploy(t, "default", example(t, "counter", guestbuild.Go))
	nodes := []*running{first, start(t, member("n2")), start(t, member("n3"))}
	var callers sync.WaitGroup
	var calls atomic.Int64
	done := make(chan struct{})
	for caller := range 6 {
		callers.Go(func() {
			for n := 1; ; n++ {
				at := nodes[(caller+n)%len(nodes)]
				res := put(t, at.URL+fmt.Sprintf("/v2.0/actors/default/Counter/c%d/method/Add", caller), `{"amount":1}`)
				if res.StatusCode != http.StatusOK || !strings.Contains(res.body, fmt.Sprintf(":%d}", n)) {
					t.Errorf("c%d, call %d: %s %s", caller, n, res.Status, res.body)
					return
				}
				calls.Add(1)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i, policy := range []string{"any", "static:n2,n3", "checkout:6", "ring", "static:n3", "sticky", "checkout:6", "any", "checkout:4", "static:n3,n1,n2", "any", "ring"} {
		if d := nodes[i%len(nodes)].place(t, m, "Counter", policy); d.Placement != policy || d.Generation != uint64(i+2) {
			t.Errorf("deployed %v, want %s as generation %d", d, policy, i+2)
		}
		for _, n := range nodes {
			until(t, "placement "+policy, func() bool { return n.placement(t, "Counter").Placement == policy })
		}
		before := calls.Load() // some are served under it
		until(t, "calls are answered", func() bool { return t.Failed() || calls.Load() > before+30 })
	}
	close(done)
	callers.Wait()
}

// get calls a read-only method over plain HTTP.
func get(t *testing.T, url, consistency string) answer {
	t.Helper()
	if consistency == "" {
		return request(t, http.MethodGet, url, "")
	}
	return request(t, http.MethodGet, url, "", "Greenroom-Consistency", consistency)
}

// TestReaders: of a ring:2 type a node answers reads of the actors that the other one
// holds: without a hop, and with what was acknowledged before, by whichever node. Turns
// and strong reads go to the holder; back under ring, reads do, too. Nothing that is read, at
// either node, is older than what was read before.
func TestReaders(t *testing.T) {
	url := pgtest.URL(t)
	first := start(t, inCluster(url, named("n1")))
	m := first.deploy(t, "default", example(t, "counter", guestbuild.Go))
	nodes := []*running{first, start(t, inCluster(url, named("n2")))}
	settled := func(readers int) {
		t.Helper()
		until(t, fmt.Sprintf("there are %d readers", readers), func() bool {
			for _, n := range nodes {
				p := n.placement(t, "Counter")
				if len(p.Ranges) < 2 || slices.ContainsFunc(p.Ranges, func(r *greenroomv1.TableRange) bool { return len(r.Hosts) != 1 || len(r.Readers) != readers }) {
					return false
				}
			}
			return true
		})
	}
	settled(0)
	first.place(t, m, "Counter", "ring:2")
	settled(1)
	method := func(n *running, id, name string) string {
		return fmt.Sprintf("%s/v2.0/actors/default/Counter/%s/method/%s", n.URL, id, name)
	}
	// other returns the node that does not hold an actor, and where it is passed on to.
	other := func(id string) (n *running, owner string) {
		for _, n := range nodes {
			if res := put(t, method(n, id, "Add"), `{"amount":1}`); res.Header.Get("Greenroom-Host") != "" {
				return n, res.Header.Get("Greenroom-Host")
			}
		}
		t.Fatalf("both nodes hold %s", id)
		return nil, ""
	}
	for i := range 12 {
		id := fmt.Sprint("c", i)
		reader, owner := other(id)
		where, err := greenroomv1connect.NewClusterServiceClient(http.DefaultClient, reader.URL).
			Where(t.Context(), connect.NewRequest(&greenroomv1.WhereRequest{App: "default", Type: "Counter", Id: id}))
		if err != nil || where.Msg.Address != owner || len(where.Msg.Readers) != 1 || "http://"+where.Msg.Readers[0].Address != reader.URL {
			t.Errorf("where is %s, of %s: %v, %v", id, owner, where, err)
		}
		for range 3 {
			added := put(t, "http://"+owner+fmt.Sprintf("/v2.0/actors/default/Counter/%s/method/Add", id), `{"amount":1}`)
			read := get(t, method(reader, id, "Get"), "")
			if read.StatusCode != http.StatusOK || read.body != added.body || read.Header.Get("Greenroom-Host") != "" {
				t.Errorf("%s at its reader: %s %s from %q, after %s", id, read.Status, read.body, read.Header.Get("Greenroom-Host"), added.body)
			}
		}
		if strong := get(t, method(reader, id, "Get"), "strong"); strong.StatusCode != http.StatusOK || strong.Header.Get("Greenroom-Host") != owner {
			t.Errorf("a strong read of %s: %s %s from %q", id, strong.Status, strong.body, strong.Header.Get("Greenroom-Host"))
		}
	}
	if _, metrics := nodes[0].http(t, http.MethodGet, "/metrics", ""); !strings.Contains(metrics, `greenroom_turns_total{app="default",lane="copy",method="Get",outcome="ok",type="Counter"}`) {
		t.Error("no metric counts calls that were answered from copies")
	}

	var callers sync.WaitGroup
	done := make(chan struct{})
	var acked atomic.Int64
	callers.Go(func() { // writes
		defer close(done)
		for n := range 100 {
			res := put(t, method(nodes[n%2], "hot", "Add"), `{"amount":1}`)
			if res.StatusCode != http.StatusOK {
				t.Errorf("%s %s", res.Status, res.body)
			}
			acked.Add(1)
		}
	})
	for range 4 {
		callers.Go(func() { // reads, at the nodes in turn
			var seen int64
			for n := 0; ; n++ {
				least := max(seen, acked.Load())
				res := get(t, method(nodes[n%2], "hot", "Get"), "")
				_, err := fmt.Sscanf(res.body, `{"count":%d}`, &seen)
				if err != nil || seen < least {
					t.Errorf("%s, after %d was read or acknowledged: %v", res.body, least, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	callers.Wait()

	first.place(t, m, "Counter", "ring")
	settled(0)
	for i := range 12 {
		id := fmt.Sprint("c", i)
		reader, owner := other(id)
		until(t, "reads are passed on", func() bool {
			res := get(t, method(reader, id, "Get"), "")
			return res.StatusCode == http.StatusOK && res.Header.Get("Greenroom-Host") == owner
		})
	}
}

// TestPlacementRefused: what cannot be names the policies, and is no retryable error.
func TestPlacementRefused(t *testing.T) {
	n := start(t, inCluster(pgtest.URL(t), nil))
	m := n.deploy(t, "default", example(t, "counter", guestbuild.Go))
	for policy, want := range map[string]string{
		"nowhere": "any, ring, ring:SERVERS, sticky, stateless, static:HOST,HOST,… or checkout:PARTITIONS", "stateless": "for its module to declare", "static:": "static:a,b,c",
	} {
		_, err := n.modules.Deploy(t.Context(), connect.NewRequest(&greenroomv1.DeployRequest{
			App: "default", Digest: m.Digest, Placements: []*greenroomv1.TypePlacement{{Type: "Counter", Placement: policy}},
		}))
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), want) || detail(err).GetRetryable() {
			t.Errorf("%s: %v, want …%s…", policy, err, want)
		}
	}
	_, err := n.modules.Deploy(t.Context(), connect.NewRequest(&greenroomv1.DeployRequest{
		App: "default", Digest: m.Digest, Placements: []*greenroomv1.TypePlacement{{Type: "Counter", Placement: "any"}, {Type: "Counter", Placement: "ring"}},
	}))
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "twice") {
		t.Errorf("twice: %v", err)
	}
}

// TestStaticPlacement: actors of a static type are at the nodes that the formula names.
// Calls of those whose node is away fail at once, name it and may be repeated; when it is
// back under its name it has them again, with what they had stored.
func TestStaticPlacement(t *testing.T) {
	url := pgtest.URL(t)
	first := start(t, inCluster(url, named("till-1")))
	m := first.deploy(t, "default", example(t, "counter", guestbuild.Go))
	second := start(t, inCluster(url, named("till-2")))
	first.place(t, m, "Counter", "static:till-1,till-2")
	at := map[string]*running{"till-1": first, "till-2": second}
	nameOf := func(i int) string {
		p := placement.PointOf(actor.Key{App: "default", Type: "Counter", ID: fmt.Sprint("c", i)})
		return []string{"till-1", "till-2"}[placement.Static(p, 2)]
	}
	until(t, "both have their parts", func() bool {
		for _, n := range at {
			parts := n.placement(t, "Counter").Ranges
			if len(parts) != 2 || len(parts[0].Hosts) == 0 || len(parts[1].Hosts) == 0 || parts[0].Name != "till-1" || parts[1].Away {
				return false
			}
		}
		return true
	})
	add := func(n *running, i int) answer {
		return put(t, n.URL+fmt.Sprintf("/v2.0/actors/default/Counter/c%d/method/Add", i), `{"amount":1}`)
	}
	const actors = 12
	for i := range actors {
		for _, n := range at {
			res := add(n, i)
			elsewhere := n != at[nameOf(i)]
			if host := res.Header.Get("Greenroom-Host"); res.StatusCode != http.StatusOK || elsewhere != (host != "") || elsewhere && "http://"+host != at[nameOf(i)].URL {
				t.Errorf("c%d, of %s: %s %s from %q", i, nameOf(i), res.Status, res.body, host)
			}
		}
	}

	stop(t, second.Node)
	until(t, "it is away", func() bool { return first.placement(t, "Counter").Ranges[1].Away })
	for i := range actors {
		_, err := first.call(t.Context(), "default", "Counter", fmt.Sprint("c", i), "Add", `{"amount":1}`)
		d := detail(err)
		switch away := nameOf(i) == "till-2"; {
		case !away && err != nil:
			t.Errorf("c%d of till-1: %v", i, err)
		case away && (connect.CodeOf(err) != connect.CodeUnavailable || d.GetKind() != "no_owner" || !d.GetRetryable() || !strings.Contains(err.Error(), `"till-2", which is away; try again when it is back`)):
			t.Errorf("c%d of till-2, which is away: %v %v", i, err, d)
		}
	}
	back := start(t, inCluster(url, named("till-2")))
	until(t, "it is back", func() bool { return !first.placement(t, "Counter").Ranges[1].Away })
	for i := range actors {
		want := ":4}"
		if nameOf(i) == "till-2" {
			want = ":3}"
		}
		until(t, "its actors go on", func() bool {
			res := add(first, i)
			if res.StatusCode == http.StatusOK && !strings.Contains(res.body, want) {
				t.Errorf("c%d of %s: %s, want %s", i, nameOf(i), res.body, want)
			}
			host := res.Header.Get("Greenroom-Host")
			return res.StatusCode == http.StatusOK && (nameOf(i) == "till-1" || "http://"+host == back.URL)
		})
	}
}

// TestNodesWeigh: nodes announce their memory for guests, beside their processors, or the
// weight that they were given.
func TestNodesWeigh(t *testing.T) {
	url := pgtest.URL(t)
	first := start(t, inCluster(url, named("plain")))
	start(t, inCluster(url, func(c *node.Config) {
		named("large")(c)
		c.GuestMemory = 3 * host.DefaultGuestMemory
	}))
	weights := func(want string) {
		t.Helper()
		until(t, "weights: "+want, func() bool {
			resp, err := greenroomv1connect.NewClusterServiceClient(http.DefaultClient, first.URL).
				ListHosts(t.Context(), connect.NewRequest(&greenroomv1.ListHostsRequest{}))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, h := range resp.Msg.Hosts {
				got = append(got, fmt.Sprintf("%s %.2f", h.Name, h.Weight))
			}
			slices.Sort(got)
			return strings.Join(got, ", ") == want
		})
	}
	weights("large 1.19, plain 0.70")
	start(t, inCluster(url, func(c *node.Config) {
		named("given")(c)
		c.Cluster.Weight = 4
	}))
	weights("given 2.00, large 0.59, plain 0.36")
}

// TestGroupsUnderLoad: orders and their payments are of one group. While its placement changes,
// and a node joins, drains and is gone, every chain over them finds all of its actors on one
// host, none fails, and what they have agrees.
func TestGroupsUnderLoad(t *testing.T) {
	url := pgtest.URL(t)
	// None is lost, however busy the machine is, and partitions are taken within the time for
	// which a call waits: in some sixteenths of a lease.
	member := func(name string) node.Config {
		return inCluster(url, func(c *node.Config) { named(name)(c); c.Cluster.Lease = 20 * time.Second })
	}
	first := start(t, member("n1"))
	m := first.deploy(t, "default", build(t, filepath.Join("testdata", "orders"), guestbuild.Go))
	nodes := []*running{first, start(t, member("n2"))}
	place := func(at *running, policy string) {
		t.Helper()
		req := &greenroomv1.DeployRequest{App: "default", Digest: m.Digest}
		for _, typ := range []string{"Order", "Payment"} {
			req.Placements = append(req.Placements, &greenroomv1.TypePlacement{Type: typ, Placement: policy})
		}
		if _, err := at.modules.Deploy(t.Context(), connect.NewRequest(req)); err != nil {
			t.Fatalf("place as %s: %v", policy, err)
		}
	}
	var callers sync.WaitGroup
	var calls atomic.Int64
	done := make(chan struct{})
	for caller := range 6 {
		callers.Go(func() {
			for n := 1; ; n++ {
				reply, err := nodes[(caller+n)%2].call(t.Context(), "", "Order", fmt.Sprint("order-", caller), "Pay", `1`)
				if err != nil || reply != fmt.Sprint(2*n) {
					t.Errorf("order-%d, call %d: %s %v", caller, n, reply, err)
					return
				}
				calls.Add(1)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	goOn := func() {
		t.Helper()
		before := calls.Load()
		until(t, "calls are answered", func() bool { return t.Failed() || calls.Load() > before+30 })
	}
	goOn()
	for i, policy := range []string{"static:n1,n2", "checkout:6", "sticky", "ring:2", "sticky", "checkout:4", "ring"} {
		place(nodes[i%2], policy)
		for _, n := range nodes {
			until(t, "placement "+policy, func() bool { return n.placement(t, "Payment").Placement == policy })
		}
		goOn()
		if i%2 == 0 {
			third := start(t, member(fmt.Sprint("n3-", i))) // which some of them move to, and back from
			until(t, "the third node takes part", func() bool { return third.placement(t, "Order").Placement == policy })
			goOn()
			stop(t, third.Node)
			goOn()
		}
	}
	close(done)
	callers.Wait()
}
