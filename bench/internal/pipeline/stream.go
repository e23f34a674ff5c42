package pipeline

import (
	"context"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

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
			stream, err := called(ctx, rec, "Greenroom, stream", run, add(s.URL, wire.Stream, plan(r, many, streamActors, server)))
			if err != nil {
				return err
			}
			guest, err := guestAlone(ctx, r, rec, run, addAlone)
			if err != nil {
				return err
			}
			empty, err := streamAlone(ctx, r, rec, run, many)
			if err == nil {
				compareParts(rec, "CPU against its parts", stream, part{"a row", loop}, part{"the guest", guest}, part{"the stream", empty})
			}
			return err
		})
	})
}

// readOnlyCalls is pipeline.6. Inside the host the medians are compared: the mean
// has in it what neighbours of the machine take.
func readOnlyCalls(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	return serveEmbedded(ctx, r, func(s *rig.Server) error {
		if err := fill(ctx, s.URL, r.Count(streamActors)); err != nil {
			return err
		}
		return each(r, func(run int) error {
			inside, err := inHost(ctx, r, rec, "inside the host, one caller", run,
				inhost.Spec{Plan: plan(r, 1, idleActors, nil), StateBytes: ballast, Method: "Get", ReadOnly: true})
			if err != nil {
				return err
			}
			guest, err := guestAlone(ctx, r, rec, run, getAlone)
			if err != nil {
				return err
			}
			rec.Compare("inside the host", micros(inside.P50), micros(guest.P50))
			stream, err := called(ctx, rec, "over the stream, 1,024 outstanding", run,
				get(s.URL, plan(r, many, streamActors, map[string]int{"server": s.PID})))
			if err != nil {
				return err
			}
			empty, err := streamAlone(ctx, r, rec, run, many)
			if err == nil {
				compareParts(rec, "over the stream, CPU", stream, part{"the guest", guest}, part{"the stream", empty})
			}
			return err
		})
	})
}
