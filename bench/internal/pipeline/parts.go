package pipeline

import (
	"fmt"
	"strings"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// guestAlone measures the guest's turns with no host around them, one processor's
// worth of them.
func guestAlone(b *bar.B, run int, s inhost.GuestSpec) load.Result {
	return b.Measure("the guest alone, one at a time", run, inhost.GuestRole, guestOf(b, s))
}

// guestOf fills in what all runs of the guest alone have in common.
func guestOf(b *bar.B, s inhost.GuestSpec) inhost.GuestSpec {
	if s.Plan.Actors == 0 {
		s.Plan.Actors = idleActors
	}
	s.Wasm, s.Plan, s.StateBytes = b.Guest(), b.Plan(1, s.Plan.Actors, nil), ballast
	return s
}

// addAlone is the turn that is measured.
var addAlone = inhost.GuestSpec{Method: "Add", Payload: "1"}

// getAlone is the read-only call.
var getAlone = inhost.GuestSpec{Method: "Get", ReadOnly: true}

// hollow starts the server of empty handlers.
func hollow(b *bar.B, spec wire.HollowSpec) (url string, pid int) {
	pid = b.Start(wire.HollowRole, spec, &url).PID()
	return url, pid
}

// streamAlone measures the stream to a server whose host answers at once.
func streamAlone(b *bar.B, run, outstanding int) (res load.Result) {
	b.Scope(func() {
		url, pid := hollow(b, wire.HollowSpec{})
		res = called(b, "the stream alone, an empty handler", run,
			add(url, wire.Stream, b.Plan(outstanding, streamActors, map[string]int{"server": pid})))
	})
	return res
}

// part is what a turn cannot do without, measured alone.
type part struct {
	name   string
	result load.Result
}

// compareParts holds the processor time of a turn against the sum of its parts.
func compareParts(b *bar.B, check string, whole load.Result, parts ...part) {
	sum, names := 0.0, make([]string, len(parts))
	for i, p := range parts {
		took := bar.Micros(p.result.CPUPerCall())
		sum += took
		names[i] = fmt.Sprintf("%s %.1f", p.name, took)
	}
	b.Compare(check, bar.Micros(whole.CPUPerCall()), sum)
	b.Note("%s: %s; %.1f µs of processor time together, the whole %.1f",
		check, strings.Join(names, ", "), sum, bar.Micros(whole.CPUPerCall()))
}
