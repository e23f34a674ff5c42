package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler"
)

// Verdicts of findings.
const (
	verdictOK   = greenroomv1.Verdict_VERDICT_OK
	verdictWarn = greenroomv1.Verdict_VERDICT_WARN
	verdictFail = greenroomv1.Verdict_VERDICT_FAIL
)

// clockWarn is how far clocks differ before logs of two servers are hard to read together.
const clockWarn = 2 * time.Second

// Cluster judges the whole cluster first, and then each server.
func Cluster(resp *greenroomv1.ListHostsResponse) []*greenroomv1.Finding {
	f := &greenroomv1.Finding{Check: "cluster", Verdict: verdictOK, Found: fmt.Sprintf("%d server(s), leader epoch %d", len(resp.Hosts), resp.LeaderEpoch)}
	switch {
	case !resp.LeaderAnswered && nobodyLeads(resp.Hosts):
		f.Verdict, f.Found = verdictFail, f.Found+"; none of them may lead: all were started with --roles host"
		f.Remedy = "start one server at least with --roles scheduler, or without --roles"
	case !resp.LeaderAnswered:
		f.Verdict, f.Found = verdictFail, f.Found+"; the leader does not answer this server"
		f.Remedy = "a new leader is there within the lease and a second; if this stays, see which addresses the servers cannot reach"
	case len(resp.Hosts) > 0 && len(Takers(resp)) == 0:
		f.Verdict, f.Found = verdictFail, f.Found+"; none of them takes actors: those that run any drain"
		f.Remedy = "start one of them again, or another one: a server that drains takes nothing until then"
	case len(resp.Missing) > 0:
		f.Verdict, f.Found = verdictWarn, f.Found+"; the leader waits for "+strings.Join(resp.Missing, ", ")
		f.Remedy = "these servers keep their leases and do not reach the leader: see that they can, or stop them"
	case len(resp.Hosts) > 1 && len(resp.Reach) == len(resp.Hosts) && !slices.ContainsFunc(resp.Reach, func(r *greenroomv1.HostReach) bool { return !r.Answered || len(r.Unreachable) > 0 }):
		f.Found += "; each reaches all others"
	}
	findings := []*greenroomv1.Finding{f}
	leader := ""
	for _, h := range resp.Hosts {
		if h.Leader {
			leader = h.Address
		}
	}
	for _, h := range resp.Hosts {
		if !resp.Now.AsTime().Before(h.ExpiresAt.AsTime()) {
			findings = append(findings, &greenroomv1.Finding{
				Check: "host " + h.Name, Verdict: verdictFail, Found: fmt.Sprintf("the lease of %s at %s is over", h.HostId, h.Address),
				Remedy: "it has crashed, is frozen, or does not reach the database; what it held goes to the others",
			})
			continue
		}
		if resp.LeaderAnswered && !h.Connected {
			findings = append(findings, &greenroomv1.Finding{
				Check: "host " + h.Name, Verdict: verdictFail, Found: fmt.Sprintf("%s at %s does not reach the leader at %s", h.HostId, h.Address, leader),
				Remedy: "let servers reach each other's --advertise addresses; its log says what is in the way",
			})
		}
		findings = append(findings, reachFindings(h, resp)...)
		findings = append(findings, hostClockFindings(h, resp)...)
	}
	return findings
}

// nobodyLeads reports whether there are servers, and all of them only run actors.
func nobodyLeads(hosts []*greenroomv1.ClusterHost) bool {
	return len(hosts) > 0 && !slices.ContainsFunc(hosts, func(h *greenroomv1.ClusterHost) bool {
		return !slices.Contains(h.Roles, scheduler.RoleHost) || slices.Contains(h.Roles, scheduler.RoleScheduler)
	})
}

// reachFindings say which servers cannot reach a server, and whether it says whom it
// cannot reach itself.
func reachFindings(h *greenroomv1.ClusterHost, resp *greenroomv1.ListHostsResponse) []*greenroomv1.Finding {
	var findings []*greenroomv1.Finding
	var by []string // who cannot reach it
	var why string  // the first one's
	for _, r := range resp.Reach {
		for _, u := range r.Unreachable {
			if u.HostId == h.HostId {
				by = append(by, hostName(r.HostId, resp))
				why = u.Why
			}
		}
		if r.HostId == h.HostId && !r.Answered {
			findings = append(findings, &greenroomv1.Finding{
				Check: "host " + h.Name, Verdict: verdictWarn, Found: fmt.Sprintf("%s at %s does not say which others it reaches", h.HostId, h.Address),
				Remedy: "the server that was asked cannot reach it, or it is of an older version; ask it itself with --server",
			})
		}
	}
	if len(by) > 0 {
		slices.Sort(by)
		remedy := "start it with an --advertise at which the others reach it, and see that no firewall is between them"
		if strings.Contains(why, "certificate") { // somebody answers there
			remedy = "give all servers the same --cluster-name and --cluster-key-file, or certificates of one authority; if it is not this server that answers there, set its --advertise"
		}
		findings = append(findings, &greenroomv1.Finding{
			Check: "host " + h.Name, Verdict: verdictFail, Found: fmt.Sprintf("%s is not reached at %s by %s: %s", h.HostId, h.Address, strings.Join(by, ", "), why),
			Remedy: remedy,
		})
	}
	return findings
}

// hostClockFindings judge a server's clock by the database's.
func hostClockFindings(h *greenroomv1.ClusterHost, resp *greenroomv1.ListHostsResponse) []*greenroomv1.Finding {
	var ahead time.Duration
	if h.Answering {
		ahead = time.Duration(resp.ClockAheadMs) * time.Millisecond
	}
	for _, r := range resp.Reach {
		if r.HostId == h.HostId && r.Answered {
			ahead = time.Duration(r.ClockAheadMs) * time.Millisecond
		}
	}
	if ahead.Abs() <= clockWarn {
		return nil
	}
	word := "ahead of"
	if ahead < 0 {
		word = "behind"
	}
	return []*greenroomv1.Finding{{
		Check: "host " + h.Name, Verdict: verdictWarn,
		Found:  fmt.Sprintf("the clock of %s is %v %s the database's: harmless for the cluster, which counts on no clock but the database's", h.HostId, ahead.Abs().Round(time.Second), word),
		Remedy: "set it by NTP all the same, for the times in logs and the validity of certificates",
	}}
}

// hostName is what people call a server.
func hostName(id string, resp *greenroomv1.ListHostsResponse) string {
	for _, h := range resp.Hosts {
		if h.HostId == id && h.Name != "" {
			return h.Name
		}
	}
	return id
}

// Takers returns the servers that take actors now: they run them, do not drain, and have
// their lease.
func Takers(all *greenroomv1.ListHostsResponse) (hosts []*greenroomv1.ClusterHost) {
	for _, h := range all.Hosts {
		if RunsActors(h) && !h.Draining && all.Now.AsTime().Before(h.ExpiresAt.AsTime()) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// RunsActors reports whether a server is more than a scheduler. One that names no role
// does both.
func RunsActors(h *greenroomv1.ClusterHost) bool {
	return len(h.Roles) == 0 || slices.Contains(h.Roles, scheduler.RoleHost)
}
