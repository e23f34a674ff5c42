package pipeline

import (
	"context"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

const (
	unaryConnections = 64
	unaryActors      = 10_000
)

// unaryCalls is pipeline.8.
func unaryCalls(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	return withHollow(ctx, wire.HollowSpec{}, func(hollow string, _ int) error {
		return serveEmbedded(ctx, r, func(s *rig.Server) error {
			if err := fill(ctx, s.URL, r.Count(unaryActors)); err != nil {
				return err
			}
			return each(r, func(run int) error {
				for _, by := range []struct {
					name     string
					protocol wire.Protocol
				}{{"HTTP", wire.HTTP}, {"Connect", wire.Connect}} {
					empty, err := called(ctx, rec, by.name+", empty handler", run,
						add(hollow, by.protocol, plan(r, unaryConnections, unaryActors, nil)))
					if err != nil {
						return err
					}
					turns, err := called(ctx, rec, by.name+", Greenroom", run,
						add(s.URL, by.protocol, plan(r, unaryConnections, unaryActors, map[string]int{"server": s.PID})))
					if err != nil {
						return err
					}
					rec.Compare(by.name, turns.Rate(), empty.Rate())
					rec.Compare(by.name+", p99 over p50", micros(turns.P99), micros(turns.P50))
				}
				return nil
			})
		})
	})
}
