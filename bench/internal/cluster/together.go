package cluster

import (
	"strconv"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// togetherActors are as many as those of the pipeline's bars.
const togetherActors = 100_000

// together is cluster.6.
func together(b *bar.B) {
	actors := b.Count(togetherActors)
	start := func(n int) *rig.Cluster {
		c, _ := serve(b, n, "--max-actors", strconv.Itoa(2*togetherActors))
		fill(b, c, actors)
		return c
	}
	one, three := start(1), start(servers)
	_, database := b.Postgres()
	turns := func(what string, run int, c *rig.Cluster, outstanding int) load.Result {
		s := calls(c)
		watch := c.Watch()
		watch["PostgreSQL"] = database
		s.Plan = b.Plan(outstanding, actors, watch)
		return b.Measure(what, run, wire.Role, s)
	}
	b.Each(func(run int) {
		base := turns("one server", run, one, many)
		res := turns("three servers", run, three, many)
		b.Compare("turns", res.Rate(), base.Rate())
		// Calls that are spread over three servers make groups a third as large.
		part := turns("one server, a third of the calls outstanding", run, one, many/servers)
		b.Note("run %d: of %.1f µs of processor time for a turn, %.1f are one server's at %d outstanding, %.1f more its at %d, and %.1f more three processes'", run,
			bar.Micros(res.CPUPerCall()), bar.Micros(base.CPUPerCall()), many, bar.Micros(part.CPUPerCall()-base.CPUPerCall()), many/servers, bar.Micros(res.CPUPerCall()-part.CPUPerCall()))
	})
}
