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
	return func(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
		return eachRun(ctx, r, func(run int, s *site) error {
			alone, err := call(ctx, r, s)
			if err != nil {
				return err
			}
			for _, flood := range floods {
				var beside []load.Traced
				count, err := during(ctx, s, flood, time.Now(), func() (err error) {
					beside, err = call(ctx, r, s)
					return err
				})
				if err != nil {
					return err
				}
				rec.Note("%s, run %d: %s", flood, run, count)
				compare(rec, flood, run, alone, beside)
			}
			return nil
		})
	}
}

// call makes the neighbour's calls.
func call(ctx context.Context, r *rig.Rig, s *site) ([]load.Traced, error) {
	return traced(ctx, r.Warmup, r.Duration, wire.TraceRole, wire.TraceSpec{
		Spec: wire.Spec{
			URL: s.URL, Protocol: wire.Unary, App: s.neighbour.Name, Token: s.neighbour.Token, Attempts: 1, Method: "Add", Payload: "1",
		},
		Trace: load.TracePlan{Actors: actors, Rate: rate, Timeout: patience},
	})
}
