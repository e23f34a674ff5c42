package pipeline

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// keyedTurns is pipeline.9.
func keyedTurns(b *bar.B) {
	b.Scope(func() {
		s := serveEmbedded(b)
		keyed(b, "embedded", s, map[string]int{"server": s.PID}, func(what string, records bool) load.Result {
			return bareLoop(b, what, 1, bare.Pebble{Plan: b.Plan(many, streamActors, nil), Group: group, StateBytes: stateBytes, Records: records})
		})
	})
	url, pid := b.Postgres()
	s := serve(b, "--store", url)
	keyed(b, "PostgreSQL", s, map[string]int{"server": s.PID, "PostgreSQL": pid}, func(what string, records bool) load.Result {
		return b.Measure(what, 1, bare.GroupRole, bare.SQL{
			URL: url, Plan: b.Plan(many, streamActors, map[string]int{"PostgreSQL": pid}), Group: group, StateBytes: stateBytes, Records: records,
		})
	})
}

// keyed compares the two kinds of turns on one server. rows measures groups of rows of its
// store alone, each with a record or without.
func keyed(b *bar.B, store string, s *rig.Server, watch map[string]int, rows func(what string, records bool) load.Result) {
	fill(b, s, streamActors)
	b.Each(func(run int) {
		turn := add(s.URL, wire.Stream, b.Plan(many, streamActors, watch))
		without := called(b, store+", without a key", run, turn)
		turn.Keys = true
		with := called(b, store+", with a key", run, turn)
		b.Compare(store+", time", 1e6/with.Rate(), 1e6/without.Rate())
		b.Compare(store+", CPU", bar.Micros(with.CPUPerCall()), bar.Micros(without.CPUPerCall()))
		if run > 1 {
			return
		}
		// What a second row for each takes that is written by nobody but a bare loop, beside
		// what the bar leaves for a key and what Greenroom took.
		alone, both := rows(store+", groups of 256 rows alone", false), rows(store+", the same with a record each", true)
		b.Note("%s, first run: in a bare loop the second row takes %.1f µs of processor time; for a key the bar leaves %.1f, and Greenroom took %.1f",
			store, over(both, alone), bar.Micros(without.CPUPerCall()*3/10), over(with, without))
	})
}

// over is the processor time that one result has for a call beyond another.
func over(of, base load.Result) float64 { return bar.Micros(of.CPUPerCall() - base.CPUPerCall()) }
