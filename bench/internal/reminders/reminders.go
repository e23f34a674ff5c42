// Package reminders holds the bars of reminders: what it costs to set them in turns, to
// fire them, how late they are, and what very many of them take. One file for each kind of
// question.
//
// Turns are those of the counter in bench/reminderguest, inside the host's process. That
// none is lost and none takes effect twice is for make soak to show.
package reminders

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

// Roles are the parts that run in processes of their own.
func Roles() role.Roles { return role.Roles{wheelRole: role.Of(runWheel)} }

// Bars returns the bars of this area in order. What reminders.6 promises, that none is lost
// and none takes effect twice, is for make soak to show.
func Bars() []bar.Bar {
	return []bar.Bar{
		{
			Name: "reminders.1", Title: "turns that set a reminder against the same turns without, and against one write for each",
			Checks: both(
				bar.Check{Name: "turns", Unit: "turns/s", Want: bar.AtLeast, Target: 0.5},
				bar.Check{Name: "against a synced write each", Unit: "reminders/s", Want: bar.AtLeast, Target: 8},
				bar.Check{Name: "setting and canceling, p99 of the last 10 s", Unit: "ms", Want: bar.AtMost, Target: 1.3},
			),
			Run: bar.Of(creation),
		},
		{
			Name: "reminders.2", Title: "firings against turns that are begun inside the process",
			Checks: both(bar.Check{Name: "firings", Unit: "turns/s", Want: bar.AtLeast, Target: 0.5}),
			Run:    bar.Of(firing),
		},
		{
			Name: "reminders.3", Title: "how late reminders fire, at a quarter of the firings that there can be",
			Checks: both(
				bar.Check{Name: "late, p50", Unit: "ms", Want: bar.AtMost, Target: 1},
				bar.Check{Name: "late, p99", Unit: "ms", Want: bar.AtMost, Target: 1},
				bar.Check{Name: "early", Unit: "firings", Want: bar.AtMost, Target: 0},
			),
			Run: bar.Of(punctuality),
		},
		{
			Name: "reminders.4", Title: "memory: 4,000,000 reminders in the wheel; very many stored, an hour of a day in memory",
			Checks: append([]bar.Check{{Name: "a reminder in the wheel", Unit: "B", Want: bar.AtMost, Target: 1}},
				both(bar.Check{Name: "resident", Unit: "MiB", Want: bar.AtMost, Target: 1})...),
			Run: bar.Of(memory),
		},
		{
			Name: "reminders.5", Title: "an instance that takes over buckets with 1,000,000 reminders: when those that are due have fired",
			Checks: both(bar.Check{Name: "the last of 1,000 that are due", Unit: "ms", Want: bar.AtMost, Target: 1}),
			Run:    bar.Of(takeOver),
		},
	}
}
