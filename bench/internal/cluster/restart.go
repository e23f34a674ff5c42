package cluster

import (
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
)

const (
	restartActors = 10_000
	// slowest is what the p99 during a drain may come to in any case.
	slowest = 250 * time.Millisecond
)

// rollingRestart is cluster.2. It runs once: the three servers are its runs.
func rollingRestart(b *bar.B) {
	c, _ := serve(b, servers)
	actors := b.Count(restartActors)
	rate := third(b, c, actors)
	end := begin(b, calls(c), load.TracePlan{Actors: actors, Rate: rate})
	b.Pause(b.Warmup)
	quiet := window{from: time.Now()}
	b.Pause(b.Duration)
	quiet.to = time.Now()
	var drains, joins []window
	for _, s := range c.Servers {
		drain := window{from: time.Now()}
		must.Check(s.Stop())
		drain.to = time.Now()
		restart(b, c, s)
		drains, joins = append(drains, drain), append(joins, window{drain.to, time.Now()})
	}
	all := end()
	failed := all.failed()
	b.Compare("failed calls", float64(len(failed)), float64(len(all)))
	if len(failed) > 0 {
		b.Note("failed: %s", failed.why())
	}
	usual := all.within(quiet)
	limit := max(slowest, 5*usual.quantile(0.99))
	b.Note("%.0f calls/s; quiet: p50 %.1f ms, p99 %.1f ms, longest %.1f ms; the bar is 5 times that p99 or %v, whichever is more",
		rate, bar.Millis(usual.quantile(0.5)), bar.Millis(usual.quantile(0.99)), bar.Millis(usual.quantile(1)), slowest)
	worst := time.Duration(0)
	for i := range drains {
		during, after := all.within(drains[i]), all.within(joins[i])
		worst = max(worst, during.quantile(0.99))
		b.Note("server %d: %d calls began while it left for %.0f ms: p99 %.1f ms, longest %.1f ms; while it came back: p99 %.1f ms, longest %.1f ms", i+1, len(during),
			bar.Millis(drains[i].to.Sub(drains[i].from)), bar.Millis(during.quantile(0.99)), bar.Millis(during.quantile(1)), bar.Millis(after.quantile(0.99)), bar.Millis(after.quantile(1)))
	}
	b.Compare("p99 during a drain", bar.Millis(worst), bar.Millis(limit))
}
