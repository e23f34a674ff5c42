// Package reminders holds the bars of reminders: what it costs to set them in turns, to
// fire them, how late they are, and what very many of them take. One file for each kind of
// question.
//
// Turns are those of the counter in bench/reminderguest, inside the host's process. That
// none is lost and none takes effect twice is for make soak to show.
package reminders

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

// Roles are the parts that run in processes of their own.
func Roles() role.Roles { return role.Roles{wheelRole: role.Of(runWheel)} }

// The names of the stores in checks and tables.
const (
	embeddedStore = "embedded"
	postgresStore = "PostgreSQL"
)

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

// both are checks on each store.
func both(checks ...bar.Check) []bar.Check {
	var all []bar.Check
	for _, name := range []string{embeddedStore, postgresStore} {
		for _, c := range checks {
			c.Name = check(name, c.Name)
			all = append(all, c)
		}
	}
	return all
}

func check(store, name string) string { return store + ", " + name }

const (
	actors = 10_000
	// ballast brings the counter's encoded state to 200 bytes.
	ballast = 200 - 43
	// many is the number of calls outstanding that keeps every part busy.
	many = 1024
)

// database is a store that is fresh, and whose process can be watched.
type database struct {
	name  string
	dir   string // or
	url   string
	watch map[string]int
}

// onBoth runs f on each store, a fresh one each time, run by run.
func onBoth(b *bar.B, f func(run int, db database)) {
	b.Each(func(run int) { once(b, func(db database) { f(run, db) }) })
}

// once runs f on each store.
func once(b *bar.B, f func(db database)) {
	b.Scope(func() { f(database{name: embeddedStore, dir: b.Folder()}) })
	url, pid := b.Postgres()
	f(database{name: postgresStore, url: url, watch: map[string]int{postgresStore: pid}})
}

// spec is a plan of calls of a method on a store.
func spec(b *bar.B, db database, method string) inhost.Spec {
	return inhost.Spec{
		Dir: db.dir, StoreURL: db.url, Wasm: b.BuildOnce("bench/reminderguest"), StateBytes: ballast, Method: method, Payload: "1",
		Plan: b.Plan(many, actors, db.watch),
	}
}
