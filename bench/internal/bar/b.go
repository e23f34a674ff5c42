package bar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

// B is a bar that is being measured, after the manner of testing.B: an error ends it (package
// must), and what it sets up goes at the end of the surrounding [B.Scope]. It is for one
// goroutine at a time.
type B struct {
	*Record
	rig.Config
	rig      *rig.Rig
	ctx      context.Context
	cleanups []func() error
}

// Of makes a function that measures the Run of a [Bar].
func Of(f func(b *B)) func(context.Context, *rig.Rig, *Record) error {
	return func(ctx context.Context, r *rig.Rig, rec *Record) error {
		b := &B{Record: rec, Config: r.Config, rig: r, ctx: ctx}
		return must.Catch(func() { b.Scope(func() { f(b) }) })
	}
}

// Context returns the context of the measurement.
func (b *B) Context() context.Context { return b.ctx }

// Count returns how many actors to use where a bar asks for n.
func (b *B) Count(n int) int { return b.rig.Count(n) }

// Cleanup has undo called at the end of the surrounding scope, the last one first.
func (b *B) Cleanup(undo func() error) { b.cleanups = append(b.cleanups, undo) }

// Scope calls f, and undoes what f has set up.
func (b *B) Scope(f func()) {
	outer := b.cleanups
	b.cleanups = nil
	err := must.Catch(f)
	for _, undo := range slices.Backward(b.cleanups) {
		err = errors.Join(err, undo())
	}
	b.cleanups = outer
	must.Check(err)
}

// Each calls f for every run, from 1, each in a scope of its own.
func (b *B) Each(f func(run int)) {
	for run := range b.Runs {
		b.Scope(func() { f(run + 1) })
	}
}

// Folder returns a new empty folder.
func (b *B) Folder() string {
	dir, remove := must.Get2(b.rig.Folder())
	b.Cleanup(func() error { remove(); return nil })
	return dir
}

// Guest returns the path of the counter in bench/guest.
func (b *B) Guest() string { return must.Get(b.rig.Guest(b.ctx)) }

// Build builds the guest in a folder with a toolchain: see [rig.Rig.Build].
func (b *B) Build(folder, toolchain string) string {
	return must.Get(b.rig.Build(b.ctx, folder, toolchain))
}

// BuildOnce builds the guest in a folder in Rust, unless it is built.
func (b *B) BuildOnce(folder string) string { return must.Get(b.rig.BuildOnce(b.ctx, folder)) }

// Postgres returns a fresh database, and the process ID of its server.
func (b *B) Postgres() (url string, pid int) { return must.Get2(b.rig.Postgres(b.ctx)) }

// Cockroach returns the URL of a CockroachDB, empty if there is none.
func (b *B) Cockroach() string { return b.rig.Cockroach() }

// Serve starts a server with args, which name its store, and deploys a module, unless its path
// is empty.
func (b *B) Serve(module string, args ...string) *rig.Server {
	start := func() (*rig.Server, error) { return b.rig.ServeModule(b.ctx, module, args...) }
	if module == "" {
		start = func() (*rig.Server, error) { return b.rig.Start(b.ctx, args...) }
	}
	s := must.Get(start())
	b.Cleanup(s.Close)
	return s
}

// ServeEmbedded is [B.Serve] on a fresh embedded store.
func (b *B) ServeEmbedded(module string, args ...string) *rig.Server {
	return b.Serve(module, append(args, "--data-dir", b.Folder())...)
}

// ServeCluster starts n servers with args, which name their database, deploys a module, and
// waits until each server has its share.
func (b *B) ServeCluster(module string, n int, args ...string) *rig.Cluster {
	c := must.Get(b.rig.ServeCluster(b.ctx, module, n, args...))
	b.Cleanup(c.Close)
	must.Check(c.Settled(b.ctx))
	return c
}

// Start starts a role that serves, and waits for its first answer.
func (b *B) Start(name string, spec, answer any) *role.Process {
	p := must.Get(role.Start(b.ctx, name, spec))
	b.Cleanup(p.Close)
	must.Check(p.Answer(answer))
	return p
}

// Call plays a role to its end, and returns its answer.
func Call[A any](b *B, name string, spec any) A { return must.Get(role.Call[A](b.ctx, name, spec)) }

// Measure plays a role that loads something, and puts its result into the table.
func (b *B) Measure(what string, run int, name string, spec any) load.Result {
	res, err := role.Call[load.Result](b.ctx, name, spec)
	if err != nil {
		must.Check(fmt.Errorf("%s: %w", what, err))
	}
	b.Measured(what, run, res)
	return res
}

// Plan is a run's plan.
func (b *B) Plan(outstanding, actors int, watch map[string]int) load.Plan {
	return load.Plan{Outstanding: outstanding, Actors: b.Count(actors), Warmup: b.Warmup, Duration: b.Duration, Watch: watch}
}

// Pause waits while something goes on.
func (b *B) Pause(d time.Duration) { must.Check(load.Pause(b.ctx, d)) }

// Micros is a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Millis is a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
