package fair

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

const (
	// rate is of the neighbour's calls in a second: few, so that what it waits for is
	// not itself.
	rate = 200
	// actors are those that it calls.
	actors = 64
	// patience bounds each of its calls.
	patience = 30 * time.Second
)

// calls compares calls beside each flood with the same calls alone.
func calls(floods ...string) func(context.Context, *rig.Rig, *bar.Record) error {
	return bar.Of(func(b *bar.B) {
		eachRun(b, func(run int, s *site) {
			call := func() []load.Traced {
				return traced(b, b.Duration, wire.TraceRole, wire.TraceSpec{
					Spec: wire.Spec{
						URL: s.URL, Protocol: wire.Unary, App: s.neighbour.Name, Token: s.neighbour.Token, Attempts: 1, Method: "Add", Payload: "1",
					},
					Trace: load.TracePlan{Actors: actors, Rate: rate, Timeout: patience},
				})
			}
			alone := call()
			for _, flood := range floods {
				beside(b, s, flood, run, alone, call)
			}
		})
	})
}

// beside compares calls alone with those of call while the server is flooded.
func beside(b *bar.B, s *site, flood string, run int, alone []load.Traced, call func() []load.Traced) {
	var calls []load.Traced
	count := during(b, s, flood, time.Now(), func() { calls = call() })
	b.Note("%s, run %d: %s", flood, run, count)
	compare(b, flood, run, alone, calls)
}
