package pipeline

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// sqlTurns is pipeline.1.
func sqlTurns(b *bar.B) {
	noteGuest(b)
	b.Scope(func() {
		url, pid := b.Postgres()
		s := serve(b, "--store", url)
		fill(b, s, actors)
		all := map[string]int{"PostgreSQL": pid, "server": s.PID}
		rows := bare.SQL{URL: url, Plan: b.Plan(workers, actors, map[string]int{"PostgreSQL": pid}), StateBytes: stateBytes}
		groups := rows
		groups.Plan.Outstanding, groups.Group = many, group
		b.Each(func(run int) {
			base := b.Measure("a transaction per turn, 64 workers", run, bare.TransactionRole, rows)
			busy := called(b, "Greenroom, 1,024 outstanding", run, add(s.URL, wire.Stream, b.Plan(many, actors, all)))
			some := called(b, "Greenroom, 64 outstanding", run, add(s.URL, wire.Stream, b.Plan(workers, actors, all)))
			b.Compare("turns at 1,024 outstanding", busy.Rate(), base.Rate())
			b.Compare("turns at 64 outstanding", some.Rate(), base.Rate())
			row := b.Measure("groups of 256 rows alone", run, bare.GroupRole, groups)
			guest := guestAlone(b, run, addAlone)
			compareParts(b, "CPU at 1,024 outstanding against its parts", busy,
				part{"a row", row}, part{"the guest", guest}, part{"the stream", streamAlone(b, run, many)})
		})
	})
	if b.Cockroach() != "" {
		cockroachTurns(b)
	}
}

// cockroachTurns is the part of pipeline.1 for machines with a CockroachDB. Its
// processes are not ours to watch.
func cockroachTurns(b *bar.B) {
	var url string
	b.Start(bare.DatabaseRole, b.Cockroach(), &url)
	s := serve(b, "--store", url)
	fill(b, s, actors)
	b.Each(func(run int) {
		base := b.Measure("CockroachDB, a transaction per turn, 64 workers", run, bare.TransactionRole,
			bare.SQL{URL: url, Plan: b.Plan(workers, actors, nil), StateBytes: stateBytes})
		turns := called(b, "CockroachDB, Greenroom, 1,024 outstanding", run,
			add(s.URL, wire.Stream, b.Plan(many, actors, map[string]int{"server": s.PID})))
		b.Compare("CockroachDB, turns at 1,024 outstanding", turns.Rate(), base.Rate())
	})
}
