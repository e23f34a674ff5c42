// Package cluster holds the bars of several servers of one database: what callers
// notice of restarts and crashes, what a call that lands on the wrong server costs, what
// the leader can keep, and what three servers do together. One file for each kind of
// question.
//
// The servers are processes on this machine, which share its processors with their
// database and with who calls them through the Go client.
package cluster

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/role"
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
