package pipeline

import (
	"context"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// keyedTurns is pipeline.9.
func keyedTurns(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	err := serveEmbedded(ctx, r, func(s *rig.Server) error {
		return keyed(ctx, r, rec, "embedded", s, map[string]int{"server": s.PID})
	})
	if err != nil {
		return err
	}
	url, pid, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	return serve(ctx, r, func(s *rig.Server) error {
		return keyed(ctx, r, rec, "PostgreSQL", s, map[string]int{"server": s.PID, "PostgreSQL": pid})
	}, "--store", url)
}

// keyed compares the two kinds of turns on one server.
func keyed(ctx context.Context, r *rig.Rig, rec *bar.Record, store string, s *rig.Server, watch map[string]int) error {
	if err := fill(ctx, s.URL, r.Count(streamActors)); err != nil {
		return err
	}
	return each(r, func(run int) error {
		turn := add(s.URL, wire.Stream, plan(r, many, streamActors, watch))
		without, err := called(ctx, rec, store+", without a key", run, turn)
		if err != nil {
			return err
		}
		turn.Keys = true
		with, err := called(ctx, rec, store+", with a key", run, turn)
		if err != nil {
			return err
		}
		rec.Compare(store+", time", 1e6/with.Rate(), 1e6/without.Rate())
		rec.Compare(store+", CPU", micros(with.CPUPerCall()), micros(without.CPUPerCall()))
		return nil
	})
}
