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
	err := serveEmbedded(ctx, r, func(s *rig.Server) error {
		return idle(ctx, r, rec, "embedded", s, func(f func(wire.HollowSpec) error) error {
			dir, remove, err := r.Folder()
			if err != nil {
				return err
			}
			defer remove()
			return f(wire.HollowSpec{Pebble: &bare.Pebble{Dir: dir, Plan: plan(r, 1, idleActors, nil), Group: 1, StateBytes: stateBytes}})
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
		return idle(ctx, r, rec, "PostgreSQL", s, func(f func(wire.HollowSpec) error) error {
			return f(wire.HollowSpec{SQL: &bare.SQL{URL: url, Plan: plan(r, 1, idleActors, nil), StateBytes: stateBytes}})
		})
	}, "--store", url)
}

// idle compares one caller of a server with one of a handler on the same wire that
// does a turn's parts and nothing else: it runs the guest and commits the row. The
// parts are measured in one process, as each in a loop of its own keeps its caches,
// which a call that comes alone never meets. with calls its argument with what
// commits to the same store.
func idle(ctx context.Context, r *rig.Rig, rec *bar.Record, store string, s *rig.Server, with func(func(wire.HollowSpec) error) error) error {
	if err := fill(ctx, s.URL, r.Count(idleActors)); err != nil {
		return err
	}
	guest, err := guestOf(ctx, r, addAlone)
	if err != nil {
		return err
	}
	call := func(what string, run int, url string, server int) (load.Result, error) {
		return called(ctx, rec, what, run, add(url, wire.Connect, plan(r, 1, idleActors, map[string]int{"server": server})))
	}
	return each(r, func(run int) error {
		return with(func(parts wire.HollowSpec) error {
			parts.Guest = &guest
			var alone load.Result
			err := withHollow(ctx, parts, func(url string, pid int) (err error) {
				alone, err = call("handler that runs the guest and commits, "+store, run, url, pid)
				return err
			})
			if err != nil {
				return err
			}
			turn, err := call("Greenroom, "+store, run, s.URL, s.PID)
			if err == nil {
				rec.Compare(store, micros(turn.P50), micros(alone.P50))
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
