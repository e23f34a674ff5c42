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
	return withHollow(ctx, wire.HollowSpec{}, func(hollow string, pid int) error {
		err := serveEmbedded(ctx, r, func(s *rig.Server) error {
			return idle(ctx, r, rec, "embedded", s, hollow, pid, func(f func(role string, spec any, hollow wire.HollowSpec) error) error {
				dir, remove, err := r.Folder()
				if err != nil {
					return err
				}
				defer remove()
				row := bare.Pebble{Dir: dir, Plan: plan(r, 1, idleActors, nil), Group: 1, StateBytes: stateBytes}
				return f(bare.PebbleRole, row, wire.HollowSpec{Pebble: &row})
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
			row := bare.SQL{URL: url, Plan: plan(r, 1, idleActors, nil), StateBytes: stateBytes}
			return idle(ctx, r, rec, "PostgreSQL", s, hollow, pid, func(f func(role string, spec any, hollow wire.HollowSpec) error) error {
				return f(bare.UpdateRole, row, wire.HollowSpec{SQL: &row})
			})
		}, "--store", url)
	})
}

// idle compares one caller of a server with a bare commit and a call of the
// hollow server. with calls its argument with what commits to the same store, in a
// loop and before the answers of a server.
func idle(ctx context.Context, r *rig.Rig, rec *bar.Record, store string, s *rig.Server, hollow string, hollowPID int,
	with func(func(role string, spec any, hollow wire.HollowSpec) error) error,
) error {
	if err := fill(ctx, s.URL, r.Count(idleActors)); err != nil {
		return err
	}
	call := func(what string, run int, url string, server int) (load.Result, error) {
		return called(ctx, rec, what, run, add(url, wire.Connect, plan(r, 1, idleActors, map[string]int{"server": server})))
	}
	return each(r, func(run int) error {
		return with(func(role string, spec any, committing wire.HollowSpec) error {
			bareCommit, err := measured(ctx, rec, "bare commit, "+store, run, role, spec)
			if err != nil {
				return err
			}
			empty, err := call("empty handler", run, hollow, hollowPID)
			if err != nil {
				return err
			}
			turn, err := call("Greenroom, "+store, run, s.URL, s.PID)
			if err != nil {
				return err
			}
			rec.Compare(store, micros(turn.P50), micros(bareCommit.P50+empty.P50))
			var commits, runs load.Result
			err = withHollow(ctx, committing, func(url string, pid int) error {
				commits, err = call("empty handler that commits, "+store, run, url, pid)
				return err
			})
			if err != nil {
				return err
			}
			guest, err := guestOf(ctx, r, addAlone)
			if err != nil {
				return err
			}
			committing.Guest = &guest
			err = withHollow(ctx, committing, func(url string, pid int) error {
				runs, err = call("handler that runs the guest and commits, "+store, run, url, pid)
				return err
			})
			if err == nil {
				apart := micros(bareCommit.P50 + empty.P50)
				rec.Note("%s: an empty handler that makes the bare commit takes %.2f times what the two take apart, one that runs the guest first %.2f times, Greenroom %.2f times",
					store, micros(commits.P50)/apart, micros(runs.P50)/apart, micros(turn.P50)/apart)
			}
			return err
		})
	})
}

// withHollow runs the server of empty handlers while f runs.
func withHollow(ctx context.Context, spec wire.HollowSpec, f func(url string, pid int) error) error {
	p, err := role.Start(ctx, wire.HollowRole, spec)
	if err != nil {
		return err
	}
	var url string
	if err := p.Answer(&url); err != nil {
		return err
	}
	return errors.Join(f(url, p.PID()), p.Close())
}
