package pipeline

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// idleLatency is pipeline.4.
func idleLatency(b *bar.B) {
	b.Scope(func() {
		idle(b, "embedded", serveEmbedded(b), func() wire.HollowSpec {
			return wire.HollowSpec{Pebble: &bare.Pebble{Dir: b.Folder(), Plan: b.Plan(1, idleActors, nil), Group: 1, StateBytes: stateBytes}}
		})
	})
	url, _ := b.Postgres()
	idle(b, "PostgreSQL", serve(b, "--store", url), func() wire.HollowSpec {
		return wire.HollowSpec{SQL: &bare.SQL{URL: url, Plan: b.Plan(1, idleActors, nil), StateBytes: stateBytes}}
	})
}

// idle compares one caller of a server with one of a handler on the same wire that
// does a turn's parts and nothing else: it runs the guest and commits the row. The
// parts are measured in one process, as each in a loop of its own keeps its caches,
// which a call that comes alone never meets. commits returns what commits to the same store.
func idle(b *bar.B, store string, s *rig.Server, commits func() wire.HollowSpec) {
	fill(b, s, idleActors)
	guest := guestOf(b, addAlone)
	call := func(what string, run int, url string, server int) load.Result {
		return called(b, what, run, add(url, wire.Connect, b.Plan(1, idleActors, map[string]int{"server": server})))
	}
	b.Each(func(run int) {
		var alone load.Result
		b.Scope(func() {
			parts := commits()
			parts.Guest = &guest
			url, pid := hollow(b, parts)
			alone = call("handler that runs the guest and commits, "+store, run, url, pid)
		})
		turn := call("Greenroom, "+store, run, s.URL, s.PID)
		b.Compare(store, bar.Micros(turn.P50), bar.Micros(alone.P50))
	})
}
