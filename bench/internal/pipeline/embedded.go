package pipeline

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
)

// embeddedTurns is pipeline.2.
func embeddedTurns(b *bar.B) {
	noteGuest(b)
	b.Each(func(run int) {
		base := bareLoop(b, "bare Pebble loop, groups of 256", run, bare.Pebble{Plan: b.Plan(many, actors, nil), Group: group, StateBytes: stateBytes})
		turns := inHost(b, "Greenroom, inside the host", run, inhost.Spec{Plan: b.Plan(many, actors, nil), StateBytes: ballast, Method: "Add", Payload: "1"})
		compareParts(b, "CPU against its parts", turns, part{"a row", base}, part{"the guest", guestAlone(b, run, addAlone)})
	})
}

// largeStates is pipeline.7. The guest reads and writes its count; the ballast
// beside it is stored again with every turn, and that is what is measured.
func largeStates(b *bar.B) {
	for _, size := range []struct {
		name          string
		bytes, actors int
		group         int
	}{
		// As many bytes in a group as the pipeline's own groups have, at most.
		{"10 KB", 10_000, 5_000, 256},
		{"100 KB", 100_000, 500, 40},
	} {
		outstanding := 4 * size.group
		b.Each(func(run int) {
			base := bareLoop(b, "bare grouped write, "+size.name, run,
				bare.Pebble{Plan: b.Plan(outstanding, size.actors, nil), Group: size.group, StateBytes: size.bytes})
			turns := inHost(b, "Greenroom, inside the host, "+size.name, run,
				inhost.Spec{Plan: b.Plan(outstanding, size.actors, nil), StateBytes: size.bytes, Method: "Add", Payload: "1"})
			b.Compare(size.name, turns.Rate(), base.Rate())
		})
	}
}
