package pipeline

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// wantLoop is the rate of the bare loop above which pipeline.5 asks for no more
// turns: 40,000 a second.
const wantLoop = 80_000

// wantUnary is how many streamed turns a unary one is to cost.
const wantUnary = 15

// streamActors are few enough for every run to meet warm ones.
const streamActors = 10_000

// streamedTurns is pipeline.5.
func streamedTurns(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	return serveEmbedded(ctx, r, func(s *rig.Server) error {
		if err := fill(ctx, s.URL, r.Count(streamActors)); err != nil {
			return err
		}
		return each(r, func(run int) error {
			loop, err := bareLoop(ctx, r, rec, "bare Pebble loop, groups of 256", run,
				bare.Pebble{Plan: plan(r, many, streamActors, nil), Group: group, StateBytes: stateBytes})
			if err != nil {
				return err
			}
			server := map[string]int{"server": s.PID}
			unary, err := called(ctx, rec, "Greenroom, unary calls", run, add(s.URL, wire.Unary, plan(r, many, streamActors, server)))
			if err != nil {
				return err
			}
			stream, err := called(ctx, rec, "Greenroom, stream", run, add(s.URL, wire.Stream, plan(r, many, streamActors, server)))
			if err != nil {
				return err
			}
			rec.Compare("against unary calls", stream.Rate(), unary.Rate())
			rec.Compare("against the bare loop", stream.Rate(), min(loop.Rate(), wantLoop))
			guest, err := guestAlone(ctx, r, rec, run, addAlone)
			if err != nil {
				return err
			}
			empty, err := streamAlone(ctx, r, rec, run, many)
			if err == nil {
				noteParts(rec, unary.CPUPerCall()/wantUnary, loop, guest, empty)
			}
			return err
		})
	})
}

// readOnlyCalls is pipeline.6. Its baselines are figures, not measurements. The
// median stands for what a call takes: the mean has in it what neighbours take.
func readOnlyCalls(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	const (
		wantMicros = 3
		wantRate   = 100_000
	)
	return serveEmbedded(ctx, r, func(s *rig.Server) error {
		if err := fill(ctx, s.URL, r.Count(streamActors)); err != nil {
			return err
		}
		return each(r, func(run int) error {
			inside, err := inHost(ctx, r, rec, "inside the host, one caller", run,
				inhost.Spec{Plan: plan(r, 1, 1000, nil), StateBytes: ballast, Method: "Get", ReadOnly: true})
			if err != nil {
				return err
			}
			stream, err := called(ctx, rec, "over the stream, 1,024 outstanding", run,
				get(s.URL, plan(r, many, streamActors, map[string]int{"server": s.PID})))
			if err != nil {
				return err
			}
			rec.Compare("inside the host", micros(inside.P50), wantMicros)
			rec.Compare("over the stream", stream.Rate(), wantRate)
			guest, err := guestAlone(ctx, r, rec, run, getAlone)
			if err == nil {
				noteParts(rec, wantMicros*time.Microsecond, guest)
			}
			return err
		})
	})
}
