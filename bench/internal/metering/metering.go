// Package metering holds the bars of guests that cannot hurt: what metering
// costs, how runaways are stopped, what instances cost, and fuzzing. One file for
// each kind of question.
//
// What is measured inside a process is a role, in a process of its own. Times of
// code that runs alone are processor time of its thread, which neighbours of the
// machine distort little.
package metering

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

// Roles are the parts that run in processes of their own.
func Roles() role.Roles {
	return role.Roles{
		kernelsRole:   role.Of(runKernels),
		rewriteRole:   role.Of(runRewrite),
		runawayRole:   role.Of(runRunaways),
		dedicatedRole: role.Of(runDedicated),
	}
}

// Bars returns the bars of this area in order.
func Bars() []bar.Bar {
	return []bar.Bar{
		{
			Name: "metering.1", Title: "sixteen kernels in Go and Rust, metered against unmetered",
			Checks: []bar.Check{
				{Name: "geometric mean", Unit: "× time", Want: bar.AtMost, Target: 1.15},
				{Name: "worst kernel", Unit: "× time", Want: bar.AtMost, Target: 1.4},
			},
			Run: bar.Of(overhead),
		},
		{Name: "metering.2", Title: "four guests that never end, one at a time, beside neighbours on half a core", Checks: runawayChecks(), Run: bar.Of(runaways)},
		{
			Name: "metering.3", Title: "100,000 live dedicated instances of a small Rust guest: memory of the process, and Go's heap target",
			Checks: []bar.Check{
				{Name: "resident", Unit: "KB/instance", Want: bar.AtMost, Target: 1},
				{Name: "heap target over twice the heap", Unit: "MB", Want: bar.AtMost, Target: 1.1},
			},
			Run: bar.Of(dedicated),
		},
		{
			Name: "metering.4", Title: "cold activations of 10,000 actors with instances of their own, inside the host, against 60 µs",
			Checks: []bar.Check{{Name: "median", Unit: "µs", Want: bar.AtMost, Target: 1}},
			Run:    bar.Of(cold),
		},
		{
			Name: "metering.5", Title: "a module of 3 MB: rewriting against 1 s, instantiation of its metered form against its own",
			Checks: []bar.Check{
				{Name: "rewriting 3 MB", Unit: "s", Want: bar.AtMost, Target: 1},
				{Name: "instantiation", Unit: "µs", Want: bar.AtMost, Target: 0.75},
			},
			Run: bar.Of(rewriting),
		},
		{
			Name: "metering.6", Title: "fuzzing of upload and of metering, 20 s for each target; make soak runs it for hours",
			Checks: []bar.Check{{Name: "findings", Unit: "findings", Want: bar.AtMost, Target: 0}},
			Run:    bar.Of(fuzzing),
		},
		{
			Name: "metering.7", Title: "processor time of the server per call with a guest in Go, against one in Rust: HTTP, 64 connections, 10,000 actors",
			Checks: languageChecks(),
			Run:    bar.Of(languages),
		},
	}
}
