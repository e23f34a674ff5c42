package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/scheduler"
	"github.com/greenroom-run/greenroom/scheduler/ownership"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/metrics"
)

// fakeCluster is two hosts and twelve sticky actors.
type fakeCluster struct{}

func (fakeCluster) Hosts(context.Context) (scheduler.HostList, error) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	host := func(id actor.HostID) actor.Host {
		return actor.Host{ID: id, Name: "web-" + string(id), Address: "10.0.0.1:8080", Roles: []string{"host"}, Version: "v1", MinProtocol: 1, MaxProtocol: 2, StartedAt: now, ExpiresAt: now.Add(time.Second)}
	}
	return scheduler.HostList{
		Hosts: []scheduler.HostInfo{{Host: host("one"), Leader: true, Self: true, Connected: true, Ranges: 500, Sticky: 12, Partitions: 3, Weight: 1.68}, {Host: host("two"), Draining: true}},
		Now:   now, ClockAhead: time.Hour, Epoch: 7, Answered: true, Missing: []actor.HostID{"two"},
	}, nil
}

func (fakeCluster) Others() []actor.Host { return nil }

func (fakeCluster) FindHost(name string) (actor.HostID, error) {
	if name != "web-two" {
		return "", fmt.Errorf("no host of the cluster is %q: %w", name, actor.ErrHostGone)
	}
	return "two", nil
}

func (fakeCluster) DrainHost(actor.HostID) error { return nil }

func (fakeCluster) Where(_ context.Context, key actor.Key) (scheduler.Location, error) {
	if key.Type == "Unknown" {
		return scheduler.Location{}, actor.ErrTypeNotFound
	}
	return scheduler.Location{Policy: abi.PlacementRing, Host: actor.Host{ID: "one", Name: "web-one", Address: "10.0.0.1:8080"}, Point: 77}, nil
}

func (fakeCluster) Sticky(_ context.Context, app, typ string, owner actor.HostID, after actor.Key, limit int) ([]ownership.StickyEntry, error) {
	var list []ownership.StickyEntry
	for i := range 12 {
		k := actor.Key{App: app, Type: "T", ID: fmt.Sprintf("a/%02d", i)}
		if k.ID > after.ID && (typ == "" || typ == "T") && (owner == "" || owner == "one") && len(list) < limit {
			list = append(list, ownership.StickyEntry{Key: k, Owner: "one"})
		}
	}
	return list, nil
}

func (fakeCluster) Placement(string, string) (string, []scheduler.Part, error) {
	return abi.PlacementRing, []scheduler.Part{{Last: 9, Hosts: []actor.HostID{"one", "two"}, Moved: true}, {First: 10, Last: 1<<64 - 1}}, nil
}

func (fakeCluster) Heat(_ context.Context, _, typ string) ([]scheduler.HostHeat, error) {
	if typ != "T" {
		return nil, actor.ErrUnavailable
	}
	return []scheduler.HostHeat{
		{Host: "one", Total: 70, Cells: map[placement.Cell]float64{0: 30, placement.Cells - 1: 25}}, {Host: "two", Total: 9, Cells: map[placement.Cell]float64{placement.Cells - 1: 5}},
	}, nil
}

func (fakeCluster) Leadership() scheduler.Leadership {
	return scheduler.Leadership{Leader: "one", Epoch: 7, Here: true, Connected: true}
}
func (fakeCluster) LeaseSeconds() float64 { return 0.5 }
func (fakeCluster) Owned() int            { return 12 }
func (fakeCluster) KnownOwners() int      { return 34 }

// TestClusterMetrics: what happens in the cluster is counted, and asked when it is read.
func TestClusterMetrics(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Cluster, c.Metrics = fakeCluster{}, metrics.New()
		e := c.Metrics.ClusterEvents()
		e.StickyAcquired(true, time.Second)
		e.StickyAcquired(false, time.Second)
		e.StickyReleased(3)
		e.StickyCleared(4)
		e.Drained("stop")
		e.Led(7, true)
		e.Led(7, false)
		e.HeatMoved(scheduler.HeatSplit)
		e.Ended("old")
	})
	text := do(t, client(t, false), "GET", f.url+"/metrics", "").body
	for _, line := range []string{
		`greenroom_sticky_acquire_total{outcome="granted"} 1`, `greenroom_sticky_acquire_total{outcome="refused"} 1`,
		"greenroom_sticky_acquire_seconds_count 2", "greenroom_sticky_release_total 3", "greenroom_sticky_clears_total 4", "greenroom_sticky_activations 12",
		`greenroom_drains_total{reason="stop"} 1`, "greenroom_leader_terms_total 1", "greenroom_host_restarts_total 1",
		`greenroom_heat_moves_total{kind="split"} 1`,
		"greenroom_unreachable_hosts 0", "greenroom_leader 1", "greenroom_leader_epoch 7", "greenroom_lease_age_seconds 0.5",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// TestClusterService: what is asked is answered, in pages, and what cannot be is an
// error that says why.
func TestClusterService(t *testing.T) {
	f := start(t, func(c *Config) { c.Cluster = fakeCluster{} })
	c := greenroomv1connect.NewClusterServiceClient(client(t, false), f.url)
	hosts, err := c.ListHosts(t.Context(), connect.NewRequest(&greenroomv1.ListHostsRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	one, two := hosts.Msg.Hosts[0], hosts.Msg.Hosts[1]
	if !one.Leader || !one.Answering || !one.Connected || one.Ranges != 500 || one.StickyActors != 12 || one.Partitions != 3 || one.Weight != 1.68 || one.MaxProtocol != 2 || !two.Draining || two.Leader ||
		hosts.Msg.LeaderEpoch != 7 || hosts.Msg.ClockAheadMs != 3_600_000 || !slices.Equal(hosts.Msg.Missing, []string{"two"}) {
		t.Errorf("hosts: %v", hosts.Msg)
	}
	if drained, err := c.DrainHost(t.Context(), connect.NewRequest(&greenroomv1.DrainHostRequest{Host: "web-two"})); err != nil || drained.Msg.HostId != "two" {
		t.Errorf("drain: %v, %v", drained, err)
	}
	if _, err := c.DrainHost(t.Context(), connect.NewRequest(&greenroomv1.DrainHostRequest{Host: "web-9"})); connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "web-9") {
		t.Errorf("drain of a host that is not there: %v", err)
	}
	at, err := c.Where(t.Context(), connect.NewRequest(&greenroomv1.WhereRequest{Type: "T", Id: "x"}))
	if err != nil || at.Msg.HostId != "one" || at.Msg.Point != 77 || at.Msg.Placement != abi.PlacementRing {
		t.Errorf("where: %v, %v", at, err)
	}
	if _, err := c.Where(t.Context(), connect.NewRequest(&greenroomv1.WhereRequest{Type: "Unknown", Id: "x"})); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("where is one of a type that nobody runs: %v", err)
	}
	if _, err := c.Where(t.Context(), connect.NewRequest(&greenroomv1.WhereRequest{Type: "T"})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("where is one without an ID: %v", err)
	}
	var ids []string
	for req := (&greenroomv1.ListStickyRequest{Type: "T", PageSize: 5}); ; {
		page, err := c.ListSticky(t.Context(), connect.NewRequest(req))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Msg.Actors {
			ids = append(ids, e.Id)
		}
		if req.PageToken = page.Msg.NextPageToken; req.PageToken == "" {
			break
		}
	}
	if len(ids) != 12 || !slices.IsSorted(ids) {
		t.Errorf("sticky actors: %q", ids)
	}
	if _, err := c.ListSticky(t.Context(), connect.NewRequest(&greenroomv1.ListStickyRequest{PageToken: "?"})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a page token of nobody: %v", err)
	}
	table, err := c.GetPlacement(t.Context(), connect.NewRequest(&greenroomv1.GetPlacementRequest{Type: "T"}))
	if err != nil || len(table.Msg.Ranges) != 2 || len(table.Msg.Ranges[0].Hosts) != 2 || table.Msg.Ranges[1].First != 10 || len(table.Msg.Ranges[1].Hosts) != 0 {
		t.Errorf("placement: %v, %v", table, err)
	} else if r := table.Msg.Ranges; len(table.Msg.Heat) != 2 || table.Msg.Heat[0].HostId != "one" || table.Msg.Heat[0].CallsPerSecond != 70 ||
		!r[0].Moved || r[1].Moved || r[0].CallsPerSecond != 30 || r[1].CallsPerSecond != 30 {
		t.Errorf("heat: %v", table.Msg)
	}
	if table, err = c.GetPlacement(t.Context(), connect.NewRequest(&greenroomv1.GetPlacementRequest{Type: "U"})); err != nil || len(table.Msg.Ranges) != 2 || len(table.Msg.Heat) != 0 {
		t.Errorf("placement without a leader: %v, %v", table, err)
	}
}

// TestReachIsForAdmins: what makes all servers connect to each other is not for everybody
// who may read; the rest of the list is.
func TestReachIsForAdmins(t *testing.T) {
	const reader, admin = "the-secret-of-a-reader", "the-secret-of-an-admin"
	f := start(t, func(c *Config) {
		c.Cluster = fakeCluster{}
		c.Tokens = []edge.Token{{Name: "reader", Secret: reader, Role: edge.RoleRead}, {Name: "admin", Secret: admin, Role: edge.RoleAdmin}}
	})
	c := greenroomv1connect.NewClusterServiceClient(client(t, false), f.url)
	for _, tt := range []struct {
		secret string
		reach  bool
		want   connect.Code
	}{{reader, false, 0}, {reader, true, connect.CodePermissionDenied}, {admin, true, 0}} {
		req := connect.NewRequest(&greenroomv1.ListHostsRequest{Reach: tt.reach})
		req.Header().Set("Authorization", "Bearer "+tt.secret)
		if _, err := c.ListHosts(t.Context(), req); err != nil && connect.CodeOf(err) != tt.want || err == nil && tt.want != 0 {
			t.Errorf("reach %v with %s: %v", tt.reach, tt.secret, err)
		}
	}
}
