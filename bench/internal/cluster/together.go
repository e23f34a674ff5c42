package cluster

import (
	"context"
	"strconv"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
)

// togetherActors are as many as those of the pipeline's bars.
const togetherActors = 100_000

// together is cluster.6.
func together(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	actors := r.Count(togetherActors)
	memory := []string{"--max-actors", strconv.Itoa(2 * togetherActors)}
	return withCluster(ctx, r, 1, func(one *rig.Cluster, database int) error {
		if err := fill(ctx, one, actors); err != nil {
			return err
		}
		return withCluster(ctx, r, servers, func(three *rig.Cluster, _ int) error {
			if err := fill(ctx, three, actors); err != nil {
				return err
			}
			turns := func(what string, run int, c *rig.Cluster, outstanding int) (load.Result, error) {
				s := calls(c)
				watch := c.Watch()
				watch["PostgreSQL"] = database
				s.Plan = load.Plan{Outstanding: outstanding, Actors: actors, Warmup: r.Warmup, Duration: r.Duration, Watch: watch}
				return called(ctx, rec, what, run, s)
			}
			for run := 1; run <= r.Runs; run++ {
				base, err := turns("one server", run, one, many)
				if err != nil {
					return err
				}
				res, err := turns("three servers", run, three, many)
				if err != nil {
					return err
				}
				rec.Compare("turns", res.Rate(), base.Rate())
				// Calls that are spread over three servers make groups a third as large.
				part, err := turns("one server, a third of the calls outstanding", run, one, many/servers)
				if err != nil {
					return err
				}
				rec.Note("run %d: of %.1f µs of processor time for a turn, %.1f are one server's at %d outstanding, %.1f more its at %d, and %.1f more three processes'", run,
					micros(res.CPUPerCall()), micros(base.CPUPerCall()), many, micros(part.CPUPerCall()-base.CPUPerCall()), many/servers, micros(res.CPUPerCall()-part.CPUPerCall()))
			}
			return nil
		}, memory...)
	}, memory...)
}
