// Package reminders holds the bars of reminders: what it costs to set them in turns, to
// fire them, how late they are, and what very many of them take. One file for each kind of
// question.
//
// Turns are those of the counter in bench/reminderguest, inside the host's process. That
// none is lost and none takes effect twice is for make soak to show.
package reminders

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
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
			Run: creation,
		},
		{
			Name: "reminders.2", Title: "firings against turns that are begun inside the process",
			Checks: both(bar.Check{Name: "firings", Unit: "turns/s", Want: bar.AtLeast, Target: 0.5}),
			Run:    firing,
		},
		{
			Name: "reminders.3", Title: "how late reminders fire, at a quarter of the firings that there can be",
			Checks: both(
				bar.Check{Name: "late, p50", Unit: "ms", Want: bar.AtMost, Target: 1},
				bar.Check{Name: "late, p99", Unit: "ms", Want: bar.AtMost, Target: 1},
				bar.Check{Name: "early", Unit: "firings", Want: bar.AtMost, Target: 0},
			),
			Run: punctuality,
		},
		{
			Name: "reminders.4", Title: "memory: 4,000,000 reminders in the wheel; very many stored, an hour of a day in memory",
			Checks: append([]bar.Check{{Name: "a reminder in the wheel", Unit: "B", Want: bar.AtMost, Target: 1}},
				both(bar.Check{Name: "resident", Unit: "MiB", Want: bar.AtMost, Target: 1})...),
			Run: memory,
		},
		{
			Name: "reminders.5", Title: "an instance that takes over buckets with 1,000,000 reminders: when those that are due have fired",
			Checks: both(bar.Check{Name: "the last of 1,000 that are due", Unit: "ms", Want: bar.AtMost, Target: 1}),
			Run:    takeOver,
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
func onBoth(ctx context.Context, r *rig.Rig, f func(run int, db database) error) error {
	for run := 1; run <= r.Runs; run++ {
		if err := onEmbedded(r, func(db database) error { return f(run, db) }); err != nil {
			return err
		}
		if err := onPostgres(ctx, r, func(db database) error { return f(run, db) }); err != nil {
			return err
		}
	}
	return nil
}

func onEmbedded(r *rig.Rig, f func(db database) error) error {
	dir, remove, err := r.Folder()
	if err != nil {
		return err
	}
	defer remove()
	return f(database{name: embeddedStore, dir: dir})
}

func onPostgres(ctx context.Context, r *rig.Rig, f func(db database) error) error {
	url, pid, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	return f(database{name: postgresStore, url: url, watch: map[string]int{postgresStore: pid}})
}

// guest is the path of the guest's module.
func guest(ctx context.Context, r *rig.Rig) (string, error) {
	return r.BuildOnce(ctx, "bench/reminderguest")
}

// spec is a plan of calls of a method on a store.
func spec(ctx context.Context, r *rig.Rig, db database, method string) (inhost.Spec, error) {
	wasm, err := guest(ctx, r)
	return inhost.Spec{
		Dir: db.dir, StoreURL: db.url, Wasm: wasm, StateBytes: ballast, Method: method, Payload: "1",
		Plan: load.Plan{Outstanding: many, Actors: r.Count(actors), Warmup: r.Warmup, Duration: r.Duration, Watch: db.watch},
	}, err
}

// measured plays a role once and puts it into the table.
func measured(ctx context.Context, rec *bar.Record, what string, run int, name string, spec any) (load.Result, error) {
	res, err := role.Call[load.Result](ctx, name, spec)
	if err != nil {
		return res, fmt.Errorf("%s: %w", what, err)
	}
	rec.Measured(what, run, res)
	return res, nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mebi(n int64) float64 { return float64(n) / (1 << 20) }
