package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
)

const (
	restartActors = 10_000
	// slowest is what the p99 during a drain may come to in any case.
	slowest = 250 * time.Millisecond
)

// rollingRestart is cluster.2. It runs once: the three servers are its runs.
func rollingRestart(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	return withCluster(ctx, r, servers, func(c *rig.Cluster, _ int) (err error) {
		actors := r.Count(restartActors)
		rate, err := third(ctx, r, rec, c, actors)
		if err != nil {
			return err
		}
		load, err := begin(ctx, calls(c), load.TracePlan{Actors: actors, Rate: rate})
		if err != nil {
			return err
		}
		defer func() {
			_, endErr := load.end()
			err = errors.Join(err, endErr)
		}()
		if err := pause(ctx, r.Warmup); err != nil {
			return err
		}
		quiet := window{from: time.Now()}
		if err := pause(ctx, r.Duration); err != nil {
			return err
		}
		quiet.to = time.Now()
		var drains, joins []window
		for _, s := range c.Servers {
			drain := window{from: time.Now()}
			if err := s.Stop(); err != nil {
				return err
			}
			drain.to = time.Now()
			if err := s.Start(ctx); err != nil {
				return err
			}
			if err := c.Settled(ctx); err != nil {
				return err
			}
			if err := pause(ctx, r.Warmup); err != nil {
				return err
			}
			drains, joins = append(drains, drain), append(joins, window{drain.to, time.Now()})
		}
		all, err := load.end()
		if err != nil {
			return err
		}
		failed := all.failed()
		rec.Compare("failed calls", float64(len(failed)), float64(len(all)))
		if len(failed) > 0 {
			rec.Note("failed: %s", failed.why())
		}
		usual := all.within(quiet)
		limit := max(slowest, 5*usual.quantile(0.99))
		rec.Note("%.0f calls/s; quiet: p50 %.1f ms, p99 %.1f ms, longest %.1f ms; the bar is 5 times that p99 or %v, whichever is more",
			rate, millis(usual.quantile(0.5)), millis(usual.quantile(0.99)), millis(usual.quantile(1)), slowest)
		worst := time.Duration(0)
		for i := range drains {
			during, after := all.within(drains[i]), all.within(joins[i])
			worst = max(worst, during.quantile(0.99))
			rec.Note("server %d: %d calls began while it left for %.0f ms: p99 %.1f ms, longest %.1f ms; while it came back: p99 %.1f ms, longest %.1f ms", i+1, len(during),
				millis(drains[i].to.Sub(drains[i].from)), millis(during.quantile(0.99)), millis(during.quantile(1)), millis(after.quantile(0.99)), millis(after.quantile(1)))
		}
		rec.Compare("p99 during a drain", millis(worst), millis(limit))
		return nil
	})
}
