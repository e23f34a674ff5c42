package pipeline

import (
	"context"
	"fmt"
	"strings"

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

// part is what a turn cannot do without, measured alone.
type part struct {
	name   string
	result load.Result
}

// compareParts holds the processor time of a turn against the sum of its parts.
func compareParts(rec *bar.Record, check string, whole load.Result, parts ...part) {
	sum, names := 0.0, make([]string, len(parts))
	for i, p := range parts {
		took := micros(p.result.CPUPerCall())
		sum += took
		names[i] = fmt.Sprintf("%s %.1f", p.name, took)
	}
	rec.Compare(check, micros(whole.CPUPerCall()), sum)
	rec.Note("%s: %s; %.1f µs of processor time together, the whole %.1f",
		check, strings.Join(names, ", "), sum, micros(whole.CPUPerCall()))
}
