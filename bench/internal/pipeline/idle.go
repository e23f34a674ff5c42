package pipeline

import (
	"context"
	"errors"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// idleActors are enough for no call to meet the one before it.
const idleActors = 1000

// idleLatency is pipeline.4.
func idleLatency(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	return withHollow(ctx, func(hollow string, _ int) error {
		err := serveEmbedded(ctx, r, func(s *rig.Server) error {
			return idle(ctx, r, rec, "embedded", s, hollow, func(run int) (load.Result, error) {
				return bareLoop(ctx, r, rec, "bare commit, embedded", run,
					bare.Pebble{Plan: plan(r, 1, idleActors, nil), Group: 1, StateBytes: stateBytes})
			})
		})
		if err != nil {
			return err
		}
		url, _, err := r.Postgres(ctx)
		if err != nil {
			return err
		}
		return serve(ctx, r, func(s *rig.Server) error {
			return idle(ctx, r, rec, "PostgreSQL", s, hollow, func(run int) (load.Result, error) {
				return measured(ctx, rec, "bare commit, PostgreSQL", run, bare.UpdateRole,
					bare.SQL{URL: url, Plan: plan(r, 1, idleActors, nil), StateBytes: stateBytes})
			})
		}, "--store", url)
	})
}

// idle compares one caller of a server with a bare commit and a call of the
// hollow server.
func idle(ctx context.Context, r *rig.Rig, rec *bar.Record, store string, s *rig.Server, hollow string, commit func(run int) (load.Result, error)) error {
	if err := fill(ctx, s.URL, r.Count(idleActors)); err != nil {
		return err
	}
	return each(r, func(run int) error {
		bareCommit, err := commit(run)
		if err != nil {
			return err
		}
		empty, err := called(ctx, rec, "empty handler", run, add(hollow, wire.Connect, plan(r, 1, idleActors, nil)))
		if err != nil {
			return err
		}
		turn, err := called(ctx, rec, "Greenroom, "+store, run, add(s.URL, wire.Connect, plan(r, 1, idleActors, map[string]int{"server": s.PID})))
		if err != nil {
			return err
		}
		rec.Compare(store, micros(turn.P50), micros(bareCommit.P50+empty.P50))
		return nil
	})
}

// withHollow runs the server of empty handlers while f runs.
func withHollow(ctx context.Context, f func(url string, pid int) error) error {
	p, err := role.Start(ctx, wire.HollowRole, nil)
	if err != nil {
		return err
	}
	var url string
	if err := p.Answer(&url); err != nil {
		return err
	}
	return errors.Join(f(url, p.PID()), p.Close())
}
