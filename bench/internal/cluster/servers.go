package cluster

import (
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

const (
	servers = 3
	// lease is the servers' default.
	lease = 3 * time.Second
	// many is the number of calls outstanding that keeps every part busy.
	many = 1024
	// ballast brings the counter's encoded state to 200 bytes.
	ballast = 200 - 43
	// callTimeout bounds a call while servers come and go.
	callTimeout = 20 * time.Second
)

// serve starts n servers on a fresh database with args, and returns them with the process ID of
// the database's server.
func serve(b *bar.B, n int, args ...string) (c *rig.Cluster, database int) {
	url, database := b.Postgres()
	return b.ServeCluster(b.Guest(), n, append([]string{"--store", url, "--lease", lease.String()}, args...)...), database
}

// calls is what all calls of a cluster have in common: they add one.
func calls(c *rig.Cluster) wire.Spec {
	urls := c.URLs()
	return wire.Spec{URL: urls[0], URLs: urls[1:], Protocol: wire.Stream, Method: "Add", Payload: "1"}
}

// fill gives actors their state.
func fill(b *bar.B, c *rig.Cluster, actors int) {
	bar.Call[load.Result](b, wire.Role, calls(c).Fill(0, actors, ballast))
}

// third measures what the servers can do with actors, and returns a third of it.
func third(b *bar.B, c *rig.Cluster, actors int) (rate float64) {
	fill(b, c, actors)
	s := calls(c)
	s.Plan = b.Plan(many, actors, c.Watch())
	return b.Measure("three servers, 1,024 outstanding", 1, wire.Role, s).Rate() / 3
}

// begin begins calls at a steady rate, which go on whatever happens. end stops it, and returns
// one entry for each call.
func begin(b *bar.B, s wire.Spec, p load.TracePlan) (end func() trace) {
	p.Timeout = callTimeout
	var begun bool
	process := b.Start(wire.TraceRole, wire.TraceSpec{Spec: s, Trace: p}, &begun)
	return func() (all trace) {
		process.End()
		must.Check(process.Answer(&all))
		must.Check(process.Close())
		return all
	}
}

// restart starts a server again, and waits until the cluster is as it was.
func restart(b *bar.B, c *rig.Cluster, s *rig.Server) {
	must.Check(s.Start(b.Context()))
	must.Check(c.Settled(b.Context()))
	b.Pause(b.Warmup)
}
