package pipeline

import (
	"context"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// hotCalls is how many calls of the hot actor are outstanding.
const hotCalls = 256

// hotParts compares a turn of one actor with what it is made of, beside a commit
// that it shares with so many others that it weighs nothing.
func hotParts(ctx context.Context, r *rig.Rig, rec *bar.Record, run int, turns load.Result) error {
	one := addAlone
	one.Plan.Actors = 1
	guest, err := guestAlone(ctx, r, rec, run, one)
	if err != nil {
		return err
	}
	stream, err := streamAlone(ctx, r, rec, run, hotCalls)
	if err == nil {
		compareParts(rec, "embedded, CPU against its parts", turns, part{"the guest", guest}, part{"the stream", stream})
	}
	return err
}

// hotActor is pipeline.3.
func hotActor(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	url, pid, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	turns := func(s *rig.Server, store string, run int, watch map[string]int) (load.Result, error) {
		watch["server"] = s.PID
		return called(ctx, rec, "Greenroom, "+store, run, add(s.URL, wire.Stream, plan(r, hotCalls, 1, watch)))
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
			subject, err := turns(s, "PostgreSQL", run, map[string]int{"PostgreSQL": pid})
			if err == nil {
				rec.Compare("PostgreSQL", subject.Rate(), base.Rate())
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
			subject, err := turns(s, "embedded store", run, map[string]int{})
			if err != nil {
				return err
			}
			return hotParts(ctx, r, rec, run, subject)
		})
	})
}
