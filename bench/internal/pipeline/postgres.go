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

// sqlTurns is pipeline.1.
func sqlTurns(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	if err := noteGuest(ctx, r, rec); err != nil {
		return err
	}
	url, pid, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	err = serve(ctx, r, func(s *rig.Server) error {
		if err := fill(ctx, s.URL, r.Count(actors)); err != nil {
			return err
		}
		database := map[string]int{"PostgreSQL": pid}
		all := map[string]int{"PostgreSQL": pid, "server": s.PID}
		return each(r, func(run int) error {
			base, err := measured(ctx, rec, "a transaction per turn, 64 workers", run, bare.TransactionRole,
				bare.SQL{URL: url, Plan: plan(r, workers, actors, database), StateBytes: stateBytes})
			if err != nil {
				return err
			}
			busy, err := called(ctx, rec, "Greenroom, 1,024 outstanding", run, add(s.URL, wire.Stream, plan(r, many, actors, all)))
			if err != nil {
				return err
			}
			some, err := called(ctx, rec, "Greenroom, 64 outstanding", run, add(s.URL, wire.Stream, plan(r, workers, actors, all)))
			if err != nil {
				return err
			}
			rec.Compare("turns at 1,024 outstanding", busy.Rate(), base.Rate())
			rec.Compare("turns at 64 outstanding", some.Rate(), base.Rate())
			return sqlParts(ctx, r, rec, run, busy, bare.SQL{URL: url, Plan: plan(r, many, actors, database), StateBytes: stateBytes, Group: group})
		})
	}, "--store", url)
	if err != nil || r.Cockroach() == "" {
		return err
	}
	return cockroachTurns(ctx, r, rec)
}

// sqlParts compares a turn on PostgreSQL with what it is made of.
func sqlParts(ctx context.Context, r *rig.Rig, rec *bar.Record, run int, turns load.Result, s bare.SQL) error {
	groups, err := measured(ctx, rec, "groups of 256 rows alone", run, bare.GroupRole, s)
	if err != nil {
		return err
	}
	guest, err := guestAlone(ctx, r, rec, run, addAlone)
	if err != nil {
		return err
	}
	stream, err := streamAlone(ctx, r, rec, run, many)
	if err == nil {
		compareParts(rec, "CPU at 1,024 outstanding against its parts", turns,
			part{"a row", groups}, part{"the guest", guest}, part{"the stream", stream})
	}
	return err
}

// cockroachTurns is the part of pipeline.1 for machines with a CockroachDB. Its
// processes are not ours to watch.
func cockroachTurns(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	database, err := role.Start(ctx, bare.DatabaseRole, r.Cockroach())
	if err != nil {
		return err
	}
	var url string
	if err := database.Answer(&url); err != nil {
		return err
	}
	err = serve(ctx, r, func(s *rig.Server) error {
		if err := fill(ctx, s.URL, r.Count(actors)); err != nil {
			return err
		}
		return each(r, func(run int) error {
			base, err := measured(ctx, rec, "CockroachDB, a transaction per turn, 64 workers", run, bare.TransactionRole,
				bare.SQL{URL: url, Plan: plan(r, workers, actors, nil), StateBytes: stateBytes})
			if err != nil {
				return err
			}
			turns, err := called(ctx, rec, "CockroachDB, Greenroom, 1,024 outstanding", run,
				add(s.URL, wire.Stream, plan(r, many, actors, map[string]int{"server": s.PID})))
			if err == nil {
				rec.Compare("CockroachDB, turns at 1,024 outstanding", turns.Rate(), base.Rate())
			}
			return err
		})
	}, "--store", url)
	return errors.Join(err, database.Close())
}
