package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/pgtest"
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
	first := start(t, inCluster(url, nil))
	m := first.deploy(t, "default", example(t, "counter", guestbuild.Go))
	nodes := []*running{first, start(t, inCluster(url, nil)), start(t, inCluster(url, nil))}
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
	for i, policy := range []string{"any", "ring", "sticky", "any", "sticky", "ring"} {
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

// TestPlacementRefused: what cannot be names the policies, and is no retryable error.
func TestPlacementRefused(t *testing.T) {
	n := start(t, inCluster(pgtest.URL(t), nil))
	m := n.deploy(t, "default", example(t, "counter", guestbuild.Go))
	for policy, want := range map[string]string{
		"nowhere": "any, ring, sticky, stateless, static:HOST,HOST,… or checkout:PARTITIONS", "stateless": "for its module to declare", "static:": "static:a,b,c",
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
