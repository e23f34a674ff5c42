package pipeline

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// hotCalls is how many calls of the hot actor are outstanding.
const hotCalls = 256

// hotActor is pipeline.3. On the embedded store a turn shares its commit with so many others
// that the commit weighs nothing, and is none of its parts.
func hotActor(b *bar.B) {
	url, pid := b.Postgres()
	turns := func(s *rig.Server, store string, run int, watch map[string]int) load.Result {
		watch["server"] = s.PID
		return called(b, "Greenroom, "+store, run, add(s.URL, wire.Stream, b.Plan(hotCalls, 1, watch)))
	}
	b.Scope(func() {
		s := serve(b, "--store", url)
		fill(b, s, 1)
		b.Each(func(run int) {
			base := b.Measure("a transaction per turn, one row, 64 workers", run, bare.TransactionRole,
				bare.SQL{URL: url, Plan: b.Plan(workers, 1, map[string]int{"PostgreSQL": pid}), StateBytes: stateBytes})
			b.Compare("PostgreSQL", turns(s, "PostgreSQL", run, map[string]int{"PostgreSQL": pid}).Rate(), base.Rate())
		})
	})
	s := serveEmbedded(b)
	fill(b, s, 1)
	b.Each(func(run int) {
		subject := turns(s, "embedded store", run, map[string]int{})
		one := addAlone
		one.Plan.Actors = 1
		guest := guestAlone(b, run, one)
		compareParts(b, "embedded, CPU against its parts", subject, part{"the guest", guest}, part{"the stream", streamAlone(b, run, hotCalls)})
	})
}
