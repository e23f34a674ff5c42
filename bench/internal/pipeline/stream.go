package pipeline

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// streamedTurns is pipeline.5.
func streamedTurns(b *bar.B) {
	s := serveEmbedded(b)
	fill(b, s, streamActors)
	b.Each(func(run int) {
		loop := bareLoop(b, "bare Pebble loop, groups of 256", run,
			bare.Pebble{Plan: b.Plan(many, streamActors, nil), Group: group, StateBytes: stateBytes})
		stream := called(b, "Greenroom, stream", run, add(s.URL, wire.Stream, b.Plan(many, streamActors, map[string]int{"server": s.PID})))
		guest := guestAlone(b, run, addAlone)
		compareParts(b, "CPU against its parts", stream,
			part{"a row", loop}, part{"the guest", guest}, part{"the stream", streamAlone(b, run, many)})
	})
}

// readOnlyCalls is pipeline.6. Inside the host the medians are compared: the mean
// has in it what neighbours of the machine take.
func readOnlyCalls(b *bar.B) {
	s := serveEmbedded(b)
	fill(b, s, streamActors)
	b.Each(func(run int) {
		inside := inHost(b, "inside the host, one caller", run,
			inhost.Spec{Plan: b.Plan(1, idleActors, nil), StateBytes: ballast, Method: "Get", ReadOnly: true})
		guest := guestAlone(b, run, getAlone)
		b.Compare("inside the host", bar.Micros(inside.P50), bar.Micros(guest.P50))
		stream := called(b, "over the stream, 1,024 outstanding", run, wire.Spec{
			URL: s.URL, Protocol: wire.Stream, Plan: b.Plan(many, streamActors, map[string]int{"server": s.PID}), Method: "Get", ReadOnly: true,
		})
		compareParts(b, "over the stream, CPU", stream, part{"the guest", guest}, part{"the stream", streamAlone(b, run, many)})
	})
}
