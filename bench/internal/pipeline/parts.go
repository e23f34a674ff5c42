package pipeline

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// guestAlone measures the guest's turns with no host around them, one processor's
// worth of them.
func guestAlone(ctx context.Context, r *rig.Rig, rec *bar.Record, run int, s inhost.GuestSpec) (res load.Result, err error) {
	if s, err = guestOf(ctx, r, s); err != nil {
		return res, err
	}
	return measured(ctx, rec, "the guest alone, one at a time", run, inhost.GuestRole, s)
}

// guestOf fills in what all runs of the guest alone have in common.
func guestOf(ctx context.Context, r *rig.Rig, s inhost.GuestSpec) (_ inhost.GuestSpec, err error) {
	if s.Wasm, _, err = r.Guest(ctx); err != nil {
		return s, err
	}
	if s.Plan.Actors == 0 {
		s.Plan.Actors = idleActors
	}
	s.Plan, s.StateBytes = plan(r, 1, s.Plan.Actors, nil), ballast
	return s, nil
}

// addAlone is the turn that is measured.
var addAlone = inhost.GuestSpec{Method: "Add", Payload: "1"}

// getAlone is the read-only call.
var getAlone = inhost.GuestSpec{Method: "Get", ReadOnly: true}

// streamAlone measures the stream to a server whose host answers at once.
func streamAlone(ctx context.Context, r *rig.Rig, rec *bar.Record, run, outstanding int) (res load.Result, err error) {
	err = withHollow(ctx, wire.HollowSpec{}, func(url string, pid int) error {
		res, err = called(ctx, rec, "the stream alone, an empty handler", run,
			add(url, wire.Stream, plan(r, outstanding, streamActors, map[string]int{"server": pid})))
		return err
	})
	return res, err
}

// noteParts tells what the parts of a turn take that no host can do without, each
// measured alone, beside what the bar leaves for all of it.
func noteParts(rec *bar.Record, asked time.Duration, parts ...load.Result) {
	var sum time.Duration
	for _, p := range parts {
		sum += p.CPUPerCall()
	}
	rec.Note("what a turn is made of takes %.1f µs of processor time, each part measured alone; the bar asks for %.1f µs in all", micros(sum), micros(asked))
}
