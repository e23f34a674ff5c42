// Package cluster holds the bars of several servers of one database: what callers
// notice of restarts and crashes, what a call that lands on the wrong server costs, what
// the leader can keep, and what three servers do together. One file for each kind of
// question.
//
// The servers are processes on this machine, which share its processors with their
// database and with who calls them through the Go client.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
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
			Run: rollingRestart,
		},
		{
			Name: "cluster.3", Title: "kill -9 of a server that does not lead, under a third of the load that they can take",
			Checks: []bar.Check{
				{Name: "its actors answer elsewhere", Unit: "ms", Want: bar.AtMost, Target: 1},
				{Name: "longest pause of others' actors", Unit: "ms", Want: bar.AtMost, Target: 1},
				{Name: "failed calls", Unit: "calls", Want: bar.AtMost, Target: 0},
			},
			Run: hostCrash,
		},
		{
			Name: "cluster.4", Title: "kill -9 of the server that leads, all actors sticky, under a third of the load that they can take",
			Checks: []bar.Check{
				{Name: "failed calls of active actors", Unit: "calls", Want: bar.AtMost, Target: 0},
				{Name: "acquisitions of new actors resume", Unit: "ms", Want: bar.AtMost, Target: 1},
			},
			Run: leaderCrash,
		},
		{
			Name: "cluster.5", Title: "a streamed call that lands on the wrong server against a local one; what sticky actors cost the leader",
			Checks: []bar.Check{
				{Name: "turns, CPU", Unit: "µs/turn", Want: bar.AtMost, Target: 1.6},
				{Name: "acquisitions of known owners", Unit: "of the calls", Want: bar.AtMost, Target: 0},
				{Name: "an entry in the leader", Unit: "B", Want: bar.AtMost, Target: 1},
				{Name: "acquisitions on one processor", Unit: "1/s", Want: bar.AtLeast, Target: 1},
			},
			Run: wrongServer,
		},
		{
			Name: "cluster.6", Title: "three servers on this machine against one, on the same PostgreSQL, through the Go client, 1,024 outstanding",
			Checks: []bar.Check{{Name: "turns", Unit: "turns/s", Want: bar.AtLeast, Target: 0.75}},
			Run:    together,
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

// withCluster runs servers on a fresh database of r's while f runs.
func withCluster(ctx context.Context, r *rig.Rig, n int, f func(c *rig.Cluster, database int) error, args ...string) error {
	url, pid, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	module, _, err := r.Guest(ctx)
	if err != nil {
		return err
	}
	c, err := r.ServeCluster(ctx, module, n, append([]string{"--store", url, "--lease", lease.String()}, args...)...)
	if err != nil {
		return err
	}
	err = c.Settled(ctx)
	if err == nil {
		err = f(c, pid)
	}
	return errors.Join(err, c.Close())
}

// calls is what all calls of a cluster have in common: they add one.
func calls(c *rig.Cluster) wire.Spec {
	urls := c.URLs()
	return wire.Spec{URL: urls[0], URLs: urls[1:], Protocol: wire.Stream, Method: "Add", Payload: "1"}
}

// fill gives actors their state, which activates them as well.
func fill(ctx context.Context, c *rig.Cluster, actors int) error {
	s := calls(c)
	s.Method, s.Payload, s.Plan = "Fill", strconv.Itoa(ballast), load.Plan{Outstanding: many, Actors: actors, Once: true}
	_, err := role.Call[load.Result](ctx, wire.Role, s)
	return err
}

// called runs the load generator once and puts it into the table.
func called(ctx context.Context, rec *bar.Record, what string, run int, s wire.Spec) (load.Result, error) {
	res, err := role.Call[load.Result](ctx, wire.Role, s)
	if err != nil {
		return res, fmt.Errorf("%s: %w", what, err)
	}
	rec.Measured(what, run, res)
	return res, nil
}

// third measures what the servers can do with actors, and returns a third of it.
func third(ctx context.Context, r *rig.Rig, rec *bar.Record, c *rig.Cluster, actors int) (rate float64, err error) {
	if err := fill(ctx, c, actors); err != nil {
		return 0, err
	}
	s := calls(c)
	s.Plan = load.Plan{Outstanding: many, Actors: actors, Warmup: r.Warmup, Duration: r.Duration, Watch: c.Watch()}
	res, err := called(ctx, rec, "three servers, 1,024 outstanding", 1, s)
	return res.Rate() / 3, err
}

// steady is load that goes on whatever happens.
type steady struct{ process *role.Process }

// begin begins calls at a steady rate.
func begin(ctx context.Context, s wire.Spec, p load.TracePlan) (*steady, error) {
	p.Timeout = callTimeout
	process, err := role.Start(ctx, wire.TraceRole, wire.TraceSpec{Spec: s, Trace: p})
	if err != nil {
		return nil, err
	}
	var begun bool
	if err := process.Answer(&begun); err != nil {
		return nil, err
	}
	return &steady{process}, nil
}

// end ends the load and returns the outcome of each call. It may be called twice; only the
// first call returns outcomes.
func (s *steady) end() (trace, error) {
	if s.process == nil {
		return nil, nil
	}
	process := s.process
	s.process = nil
	process.End()
	var all trace
	err := process.Answer(&all)
	return all, errors.Join(err, process.Close())
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
	if len(t) == 0 {
		return 0
	}
	all := make([]int64, len(t))
	for i, c := range t {
		all[i] = c.Took
	}
	slices.Sort(all)
	return time.Duration(all[int(q*float64(len(all)-1))])
}

// slowest says how long the slowest call took, and when it began after a moment.
func (t trace) slowest(since time.Time) string {
	var slow load.Traced
	for _, c := range t {
		if c.Took > slow.Took {
			slow = c
		}
	}
	return fmt.Sprintf("%.1f ms, begun %+.0f ms", millis(time.Duration(slow.Took)), float64(slow.Began-since.UnixNano())/1e6)
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

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// pause waits while load goes on.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
