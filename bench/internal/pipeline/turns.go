package pipeline

import (
	"strconv"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

const (
	actors = 100_000
	// idleActors are enough for no call to meet the one before it.
	idleActors = 1000
	// streamActors are few enough for every run to meet warm ones.
	streamActors = 10_000
	stateBytes   = 200
	// ballast brings the counter's encoded state to stateBytes.
	ballast = stateBytes - 43
	// many is the number of calls outstanding that keeps every part busy.
	many = 1024
	// group is how many rows the bare loops put into a commit.
	group = 256
	// workers are the connections of the transaction per turn.
	workers = 64
	// overParts bounds the cost of a turn divided by the cost of its engine, store
	// and wire alone, measured in the same run.
	overParts = 1.5
)

// add is the turn that is measured.
func add(url string, p wire.Protocol, plan load.Plan) wire.Spec {
	return wire.Spec{URL: url, Protocol: p, Plan: plan, Method: "Add", Payload: "1"}
}

// fill gives a server's actors their state.
func fill(b *bar.B, s *rig.Server, actors int) {
	bar.Call[load.Result](b, wire.Role, wire.Spec{URL: s.URL}.Fill(0, b.Count(actors), ballast))
}

// called runs the load generator once and puts it into the table.
func called(b *bar.B, what string, run int, s wire.Spec) load.Result {
	return b.Measure(what, run, wire.Role, s)
}

// inHost measures turns inside the host, over a fresh embedded store.
func inHost(b *bar.B, what string, run int, s inhost.Spec) load.Result {
	s.Dir, s.Wasm = b.Folder(), b.Guest()
	return b.Measure(what, run, inhost.Role, s)
}

// bareLoop measures the bare Pebble loop in a fresh folder.
func bareLoop(b *bar.B, what string, run int, s bare.Pebble) load.Result {
	s.Dir = b.Folder()
	return b.Measure(what, run, bare.PebbleRole, s)
}

// serveEmbedded runs a server on a fresh embedded store.
func serveEmbedded(b *bar.B, args ...string) *rig.Server {
	return serve(b, append(args, "--data-dir", b.Folder())...)
}

// serve runs a server with the counter.
func serve(b *bar.B, args ...string) *rig.Server {
	// The last of a flag counts: args may say otherwise.
	return b.Serve(b.Guest(), append([]string{"--max-actors", strconv.Itoa(2 * actors)}, args...)...)
}

// noteGuest notes what the guest is.
func noteGuest(b *bar.B) {
	b.Note("the guest is bench/guest, built by cargo; %d bytes of state", stateBytes)
}
