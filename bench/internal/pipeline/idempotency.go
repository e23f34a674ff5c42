package pipeline

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// keyedTurns is pipeline.9.
func keyedTurns(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	err := serveEmbedded(ctx, r, func(s *rig.Server) error {
		return keyed(ctx, r, rec, keyedStore{
			name: "embedded", url: s.URL, watch: map[string]int{"server": s.PID},
			rows: func(what string, records bool) (load.Result, error) {
				return bareLoop(ctx, r, rec, what, 1,
					bare.Pebble{Plan: plan(r, many, streamActors, nil), Group: group, StateBytes: stateBytes, Records: records})
			},
		})
	})
	if err != nil {
		return err
	}
	url, pid, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	return serve(ctx, r, func(s *rig.Server) error {
		return keyed(ctx, r, rec, keyedStore{
			name: "PostgreSQL", url: s.URL, watch: map[string]int{"server": s.PID, "PostgreSQL": pid},
			rows: func(what string, records bool) (load.Result, error) {
				return measured(ctx, rec, what, 1, bare.GroupRole, bare.SQL{
					URL: url, Plan: plan(r, many, streamActors, map[string]int{"PostgreSQL": pid}),
					Group: group, StateBytes: stateBytes, Records: records})
			},
		})
	}, "--store", url)
}

// keyedStore is a store under a server.
type keyedStore struct {
	name  string
	url   string // of the server
	watch map[string]int
	// rows measures groups of rows alone, each with a record or without.
	rows func(what string, records bool) (load.Result, error)
}

// keyed compares the two kinds of turns on one server.
func keyed(ctx context.Context, r *rig.Rig, rec *bar.Record, s keyedStore) error {
	if err := fill(ctx, s.url, r.Count(streamActors)); err != nil {
		return err
	}
	return each(r, func(run int) error {
		turn := add(s.url, wire.Stream, plan(r, many, streamActors, s.watch))
		without, err := called(ctx, rec, s.name+", without a key", run, turn)
		if err != nil {
			return err
		}
		turn.Keys = true
		with, err := called(ctx, rec, s.name+", with a key", run, turn)
		if err != nil {
			return err
		}
		rec.Compare(s.name+", time", 1e6/with.Rate(), 1e6/without.Rate())
		rec.Compare(s.name+", CPU", micros(with.CPUPerCall()), micros(without.CPUPerCall()))
		if run > 1 {
			return nil
		}
		return noteRecords(rec, s, without.CPUPerCall()*3/10, with.CPUPerCall()-without.CPUPerCall())
	})
}

// noteRecords measures, in the first run, what a second row for each takes that is
// written by nobody but a bare loop, and tells it beside what the bar leaves for a
// key and what Greenroom took.
func noteRecords(rec *bar.Record, s keyedStore, asked, took time.Duration) error {
	rows, err := s.rows(s.name+", groups of 256 rows alone", false)
	if err != nil {
		return err
	}
	both, err := s.rows(s.name+", the same with a record each", true)
	if err == nil {
		rec.Note("%s, first run: in a bare loop the second row takes %.1f µs of processor time; for a key the bar leaves %.1f, and Greenroom took %.1f",
			s.name, micros(both.CPUPerCall()-rows.CPUPerCall()), micros(asked), micros(took))
	}
	return err
}
