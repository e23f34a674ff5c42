package pipeline

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

const (
	unaryConnections = 64
	unaryActors      = 10_000
)

// unaryCalls is pipeline.8.
func unaryCalls(b *bar.B) {
	handler, _ := hollow(b, wire.HollowSpec{})
	s := serveEmbedded(b)
	fill(b, s, unaryActors)
	b.Each(func(run int) {
		for _, by := range []struct {
			name     string
			protocol wire.Protocol
		}{{"HTTP", wire.HTTP}, {"Connect", wire.Connect}} {
			empty := called(b, by.name+", empty handler", run, add(handler, by.protocol, b.Plan(unaryConnections, unaryActors, nil)))
			turns := called(b, by.name+", Greenroom", run,
				add(s.URL, by.protocol, b.Plan(unaryConnections, unaryActors, map[string]int{"server": s.PID})))
			b.Compare(by.name, turns.Rate(), empty.Rate())
			b.Compare(by.name+", p99 over p50", bar.Micros(turns.P99), bar.Micros(turns.P50))
		}
	})
}
