package pipeline

import (
	"context"
	"runtime"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// hotCalls is how many calls of the hot actor are outstanding.
const hotCalls = 256

// wantFsyncs is how many turns of one actor the embedded store is to commit in the
// time of an fsync.
const wantFsyncs = 15

// hotParts measures what a turn of one actor is made of, beside a commit that it
// shares with many, and tells what all processors together have for it.
func hotParts(ctx context.Context, r *rig.Rig, rec *bar.Record, run int, fsyncs float64) error {
	one := addAlone
	one.Plan.Actors = 1
	guest, err := guestAlone(ctx, r, rec, run, one)
	if err != nil {
		return err
	}
	rec.Note("turns of one actor follow each other: without anything around the guest they would be %.1f times the fsyncs", guest.Rate()/fsyncs)
	stream, err := streamAlone(ctx, r, rec, run, hotCalls)
	if err == nil {
		asked := float64(runtime.NumCPU()) / (wantFsyncs * fsyncs) * float64(time.Second)
		noteParts(rec, time.Duration(asked), guest, stream)
	}
	return err
}

// hotActor is pipeline.3.
func hotActor(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	url, pid, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	turns := func(s *rig.Server, store string, run int, watch map[string]int) (float64, error) {
		watch["server"] = s.PID
		res, err := called(ctx, rec, "Greenroom, "+store, run, add(s.URL, wire.Stream, plan(r, hotCalls, 1, watch)))
		return res.Rate(), err
	}
	err = serve(ctx, r, func(s *rig.Server) error {
		if err := fill(ctx, s.URL, 1); err != nil {
			return err
		}
		return each(r, func(run int) error {
			base, err := measured(ctx, rec, "a transaction per turn, one row, 64 workers", run, bare.TransactionRole,
				bare.SQL{URL: url, Plan: plan(r, workers, 1, map[string]int{"PostgreSQL": pid}), StateBytes: stateBytes})
			if err != nil {
				return err
			}
			rate, err := turns(s, "PostgreSQL", run, map[string]int{"PostgreSQL": pid})
			if err == nil {
				rec.Compare("PostgreSQL", rate, base.Rate())
			}
			return err
		})
	}, "--store", url)
	if err != nil {
		return err
	}
	return serveEmbedded(ctx, r, func(s *rig.Server) error {
		if err := fill(ctx, s.URL, 1); err != nil {
			return err
		}
		return each(r, func(run int) error {
			base, err := bareLoop(ctx, r, rec, "Pebble, an fsync per turn", run,
				bare.Pebble{Plan: plan(r, 1, 1, nil), Group: 1, StateBytes: stateBytes})
			if err != nil {
				return err
			}
			rate, err := turns(s, "embedded store", run, map[string]int{})
			if err != nil {
				return err
			}
			rec.Compare("embedded", rate, base.Rate())
			return hotParts(ctx, r, rec, run, base.Rate())
		})
	})
}
