// Package cluster holds the bars of several servers of one database: what callers
// notice of restarts and crashes, what a call that lands on the wrong server costs, what
// the leader can keep, and what three servers do together. One file for each kind of
// question.
//
// The servers are processes on this machine, which share its processors with their
// database and with who calls them through the Go client.
package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// Roles are the parts that run in processes of their own.
func Roles() role.Roles {
	return role.Roles{leaderRole: role.Of(runLeader), scaleRole: role.Of(runScale)}
}

// Bars returns the bars of this area in order. What cluster.1 promises, that nothing
// overlaps and nothing is lost, is for tests to show.
func Bars() []bar.Bar {
	return []bar.Bar{
		{
			Name: "cluster.2", Title: "three servers restarted in order, one after the other, under a third of the load that they can take",
			Checks: []bar.Check{
				{Name: "failed calls", Unit: "calls", Want: bar.AtMost, Target: 0},
				{Name: "p99 during a drain", Unit: "ms", Want: bar.AtMost, Target: 1},
			},
			Run: bar.Of(rollingRestart),
		},
		{
			Name: "cluster.3", Title: "kill -9 of a server that does not lead, under a third of the load that they can take",
			Checks: []bar.Check{
				{Name: "its actors answer elsewhere", Unit: "ms", Want: bar.AtMost, Target: 1},
				{Name: "longest pause of others' actors", Unit: "ms", Want: bar.AtMost, Target: 1},
				{Name: "failed calls", Unit: "calls", Want: bar.AtMost, Target: 0},
			},
			Run: bar.Of(hostCrash),
		},
		{
			Name: "cluster.4", Title: "kill -9 of the server that leads, all actors sticky, under a third of the load that they can take",
			Checks: []bar.Check{
				{Name: "failed calls of active actors", Unit: "calls", Want: bar.AtMost, Target: 0},
				{Name: "acquisitions of new actors resume", Unit: "ms", Want: bar.AtMost, Target: 1},
			},
			Run: bar.Of(leaderCrash),
		},
		{
			Name: "cluster.5", Title: "a streamed call that lands on the wrong server against a local one; what sticky actors cost the leader",
			Checks: []bar.Check{
				{Name: "turns, CPU", Unit: "µs/turn", Want: bar.AtMost, Target: 1.6},
				{Name: "acquisitions of known owners", Unit: "of the calls", Want: bar.AtMost, Target: 0},
				{Name: "an entry in the leader", Unit: "B", Want: bar.AtMost, Target: 1},
				{Name: "acquisitions on one processor", Unit: "1/s", Want: bar.AtLeast, Target: 1},
			},
			Run: bar.Of(wrongServer),
		},
		{
			Name: "cluster.6", Title: "three servers on this machine against one, on the same PostgreSQL, through the Go client, 1,024 outstanding",
			Checks: []bar.Check{{Name: "turns", Unit: "turns/s", Want: bar.AtLeast, Target: 0.75}},
			Run:    bar.Of(together),
		},
	}
}

const (
	servers = 3
	// lease is the servers' default.
	lease = 3 * time.Second
	// many is the number of calls outstanding that keeps every part busy.
	many = 1024
	// ballast brings the counter's encoded state to 200 bytes.
	ballast = 200 - 43
	// callTimeout bounds a call while servers come and go.
	callTimeout = 20 * time.Second
)

// serve starts n servers on a fresh database with args, and returns them with the process ID of
// the database's server.
func serve(b *bar.B, n int, args ...string) (c *rig.Cluster, database int) {
	url, database := b.Postgres()
	return b.ServeCluster(b.Guest(), n, append([]string{"--store", url, "--lease", lease.String()}, args...)...), database
}

// calls is what all calls of a cluster have in common: they add one.
func calls(c *rig.Cluster) wire.Spec {
	urls := c.URLs()
	return wire.Spec{URL: urls[0], URLs: urls[1:], Protocol: wire.Stream, Method: "Add", Payload: "1"}
}

// fill gives actors their state.
func fill(b *bar.B, c *rig.Cluster, actors int) {
	bar.Call[load.Result](b, wire.Role, calls(c).Fill(0, actors, ballast))
}

// third measures what the servers can do with actors, and returns a third of it.
func third(b *bar.B, c *rig.Cluster, actors int) (rate float64) {
	fill(b, c, actors)
	s := calls(c)
	s.Plan = b.Plan(many, actors, c.Watch())
	return b.Measure("three servers, 1,024 outstanding", 1, wire.Role, s).Rate() / 3
}

// begin begins calls at a steady rate, which go on whatever happens. end ends them, and returns
// the outcome of each.
func begin(b *bar.B, s wire.Spec, p load.TracePlan) (end func() trace) {
	p.Timeout = callTimeout
	var begun bool
	process := b.Start(wire.TraceRole, wire.TraceSpec{Spec: s, Trace: p}, &begun)
	return func() (all trace) {
		process.End()
		must.Check(process.Answer(&all))
		must.Check(process.Close())
		return all
	}
}

// trace is the outcomes of calls.
type trace []load.Traced

// those returns the calls that a condition holds for.
func (t trace) those(keep func(load.Traced) bool) trace {
	var kept trace
	for _, c := range t {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// within returns the calls that began in a window.
func (t trace) within(w window) trace { return t.those(func(c load.Traced) bool { return w.has(c) }) }

// of returns the calls of some actors.
func (t trace) of(actors map[int]bool) trace {
	return t.those(func(c load.Traced) bool { return actors[c.Actor] })
}

// failed returns the calls that failed.
func (t trace) failed() trace { return t.those(func(c load.Traced) bool { return c.Error != "" }) }

// quantile returns how long calls took; 0 if there are none.
func (t trace) quantile(q float64) time.Duration {
	all := make([]time.Duration, len(t))
	for i, c := range t {
		all[i] = time.Duration(c.Took)
	}
	return load.Quantile(all, q)
}

// slowest says how long the slowest call took, and when it began after a moment.
func (t trace) slowest(since time.Time) string {
	var slow load.Traced
	for _, c := range t {
		if c.Took > slow.Took {
			slow = c
		}
	}
	return fmt.Sprintf("%.1f ms, begun %+.0f ms", bar.Millis(time.Duration(slow.Took)), float64(slow.Began-since.UnixNano())/1e6)
}

// last returns when the last of the calls ended.
func (t trace) last() (at time.Time) {
	for _, c := range t {
		if c.Ended().After(at) {
			at = c.Ended()
		}
	}
	return at
}

// why lists what calls failed with, the most frequent first, a handful at most.
func (t trace) why() string {
	counts := map[string]int{}
	for _, c := range t.failed() {
		counts[c.Error]++
	}
	var texts []string
	for text := range counts {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int { return counts[b] - counts[a] })
	for i, text := range texts {
		texts[i] = fmt.Sprintf("%d × %s", counts[text], text)
	}
	return strings.Join(texts[:min(3, len(texts))], "; ")
}

// window is a stretch of time.
type window struct{ from, to time.Time }

func (w window) has(c load.Traced) bool {
	return c.Began >= w.from.UnixNano() && c.Began < w.to.UnixNano()
}
