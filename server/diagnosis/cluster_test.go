package diagnosis

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// TestCluster: what doctor finds in a cluster of three.
func TestCluster(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	healthy := func() *greenroomv1.ListHostsResponse {
		resp := &greenroomv1.ListHostsResponse{Now: timestamppb.New(now), LeaderEpoch: 4, LeaderAnswered: true}
		for i, id := range []string{"aaa", "bbb", "ccc"} {
			resp.Hosts = append(resp.Hosts, &greenroomv1.ClusterHost{
				HostId: id, Name: "web-" + id[:1], Address: "10.0.0." + id[:1] + ":8080", ExpiresAt: timestamppb.New(now.Add(time.Second)),
				Leader: i == 0, Answering: i == 1, Connected: true,
			})
			resp.Reach = append(resp.Reach, &greenroomv1.HostReach{HostId: id, Answered: true})
		}
		return resp
	}
	cannot := func(resp *greenroomv1.ListHostsResponse, from int, to, why string) {
		resp.Reach[from].Unreachable = append(resp.Reach[from].Unreachable, &greenroomv1.UnreachableHost{HostId: to, Why: why})
	}
	for name, tt := range map[string]struct {
		change func(*greenroomv1.ListHostsResponse)
		want   []string // verdict, check, and a part of what is found, of each finding
	}{
		"healthy": {func(*greenroomv1.ListHostsResponse) {}, []string{"OK cluster 3 server(s), leader epoch 4; each reaches all others"}},
		"an older server answers": {
			func(r *greenroomv1.ListHostsResponse) { r.Reach = nil }, []string{"OK cluster 3 server(s), leader epoch 4"},
		},
		"an address that nobody reaches": {
			func(r *greenroomv1.ListHostsResponse) {
				cannot(r, 0, "ccc", "connection refused")
				cannot(r, 1, "ccc", "connection refused")
				r.Reach[2].Answered = false
			}, []string{
				"OK cluster 3 server(s), leader epoch 4",
				"WARN host web-c ccc at 10.0.0.c:8080 does not say which others it reaches",
				"FAIL host web-c ccc is not reached at 10.0.0.c:8080 by web-a, web-b: connection refused",
			},
		},
		"one way is blocked": {
			func(r *greenroomv1.ListHostsResponse) { cannot(r, 2, "aaa", "it does not answer within 3s") },
			[]string{"OK cluster 3 server(s)", "FAIL host web-a aaa is not reached at 10.0.0.a:8080 by web-c: it does not answer within 3s"},
		},
		"clocks an hour off": {
			func(r *greenroomv1.ListHostsResponse) {
				r.Reach[0].ClockAheadMs = time.Hour.Milliseconds()
				r.Reach[2].ClockAheadMs = -time.Hour.Milliseconds()
			},
			[]string{"OK cluster 3", "WARN host web-a the clock of aaa is 1h0m0s ahead of the database's", "WARN host web-c the clock of ccc is 1h0m0s behind the database's"},
		},
		"the clock of the one that answers, which is older": {
			func(r *greenroomv1.ListHostsResponse) { r.Reach, r.ClockAheadMs = nil, time.Hour.Milliseconds() },
			[]string{"OK cluster 3", "WARN host web-b the clock of bbb is 1h0m0s ahead of"},
		},
		"a crash": {
			func(r *greenroomv1.ListHostsResponse) {
				r.Hosts[2].ExpiresAt, r.Hosts[2].Connected, r.Reach = r.Now, false, r.Reach[:2]
			}, []string{"OK cluster 3", "FAIL host web-c the lease of ccc at 10.0.0.c:8080 is over"},
		},
		"cut off from the leader": {
			func(r *greenroomv1.ListHostsResponse) { r.Hosts[1].Connected, r.Missing = false, []string{"bbb"} },
			[]string{"WARN cluster 3 server(s), leader epoch 4; the leader waits for bbb", "FAIL host web-b bbb at 10.0.0.b:8080 does not reach the leader at 10.0.0.a:8080"},
		},
		"no server that may lead": {
			func(r *greenroomv1.ListHostsResponse) {
				r.LeaderAnswered, r.LeaderEpoch = false, 0
				for _, h := range r.Hosts {
					h.Roles = []string{"host"}
				}
			},
			[]string{"FAIL cluster 3 server(s), leader epoch 0; none of them may lead: all were started with --roles host"},
		},
		"no leader, and one that may lead": {
			func(r *greenroomv1.ListHostsResponse) {
				r.LeaderAnswered = false
				r.Hosts[0].Roles, r.Hosts[1].Roles, r.Hosts[2].Roles = []string{"host"}, []string{"scheduler"}, []string{"host"}
			},
			[]string{"FAIL cluster 3 server(s), leader epoch 4; the leader does not answer this server"},
		},
		"all drain that run actors": {
			func(r *greenroomv1.ListHostsResponse) {
				r.Hosts[0].Draining, r.Hosts[1].Draining, r.Hosts[2].Roles = true, true, []string{"scheduler"}
			},
			[]string{"FAIL cluster 3 server(s), leader epoch 4; none of them takes actors"},
		},
		"one drains": {
			func(r *greenroomv1.ListHostsResponse) { r.Hosts[0].Draining = true },
			[]string{"OK cluster 3 server(s), leader epoch 4; each reaches all others"},
		},
		"no leader": {
			func(r *greenroomv1.ListHostsResponse) { r.LeaderAnswered, r.LeaderEpoch = false, 0 },
			[]string{"FAIL cluster 3 server(s), leader epoch 0; the leader does not answer this server"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			resp := healthy()
			tt.change(resp)
			var got []string
			for _, f := range Cluster(resp) {
				got = append(got, strings.TrimPrefix(f.Verdict.String(), "VERDICT_")+" "+f.Check+" "+f.Found)
				if f.Verdict != verdictOK && f.Remedy == "" {
					t.Errorf("%s: nothing to do about it", f.Found)
				}
			}
			if len(got) != len(tt.want) {
				t.Fatalf("found %q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tt.want[i]) {
					t.Errorf("found %q, want %q", got[i], tt.want[i])
				}
			}
		})
	}
}

// TestUnreachableRemedy: where somebody answers with a certificate of another cluster, its
// address is not what is to be changed first.
func TestUnreachableRemedy(t *testing.T) {
	for why, want := range map[string]string{
		"dial tcp 10.0.0.1:8080: connect: connection refused":                                           "--advertise",
		"tls: failed to verify certificate: x509: certificate signed by unknown authority":              "--cluster-key-file",
		"this is for hosts of the cluster, which prove it with certificates; give all hosts the same …": "--cluster-key-file",
	} {
		h := &greenroomv1.ClusterHost{HostId: "aaa"}
		found := reachFindings(h, &greenroomv1.ListHostsResponse{Reach: []*greenroomv1.HostReach{
			{HostId: "bbb", Answered: true, Unreachable: []*greenroomv1.UnreachableHost{{HostId: "aaa", Why: why}}},
		}})
		if len(found) != 1 || !strings.Contains(strings.SplitAfter(found[0].Remedy, ",")[0], want) {
			t.Errorf("%s: %+v", why, found)
		}
	}
}
