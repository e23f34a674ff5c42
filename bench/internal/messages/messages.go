// Package messages holds the bars of messages: what it costs to send a durable one and to consume
// it, and how fast actors of one host tell each other volatile ones.
//
// The turns of durable messages are those of the counter in bench/reminderguest, inside the host's process. The turn
// of a sender adds one to its counter and sends a message, in one commit. The turn of its
// receiver, another counter, adds one to that, and its commit consumes the message. The turns of
// volatile messages are those of bench/tellguest, and the same in Go without Wasm: they change
// nothing.
package messages

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

const (
	actors  = 10_000
	ballast = 200 - 43 // beside the count, as package reminders has it
	many    = 1024     // messages outstanding
	workers = 64       // of the queue table
)

// The names of the checks.
const (
	embeddedCost = "embedded, processor time"
	postgresCost = "PostgreSQL, processor time"
	queueRate    = "PostgreSQL, against a queue table"
	goTells      = "told per second of a processor, actors in Go"
	rustTells    = "told per second of a processor, guests in Rust"
	goRound      = "a round of ping-pong, actors in Go"
	rustRound    = "a round of ping-pong, guests in Rust"
)

// Bars returns the bars of this area.
func Bars() []bar.Bar {
	return []bar.Bar{{
		Name: "messages.1", Title: "messages, from the sender's turn to the receiver's, against two turns, and against rows of a queue table that are consumed one per transaction",
		Checks: []bar.Check{
			{Name: embeddedCost, Unit: "µs", Want: bar.AtMost, Target: 2.5},
			{Name: postgresCost, Unit: "µs", Want: bar.AtMost, Target: 2.5},
			{Name: queueRate, Unit: "messages/s", Want: bar.AtLeast, Target: 8},
		},
		Run: bar.Of(costs),
	}, {
		Name: "messages.2", Title: "volatile messages between two actors of one host: each told and heard, a turn each, and a ball that two actors pass to and fro",
		Checks: []bar.Check{
			{Name: goTells, Unit: "messages/s", Want: bar.AtLeast, Target: 1},
			{Name: rustTells, Unit: "messages/s", Want: bar.AtLeast, Target: 1},
			{Name: goRound, Unit: "µs", Want: bar.AtMost, Target: 1},
			{Name: rustRound, Unit: "µs", Want: bar.AtMost, Target: 1},
		},
		Run: bar.Of(tells),
	}}
}

// Roles are the parts that run in processes of their own.
func Roles() role.Roles {
	return role.Roles{publisherRole: publisher, subscriberRole: subscriber}
}

// tells is messages.2. Its baselines are constants.
func tells(b *bar.B) {
	const goRate, rustRate, round = 500_000, 100_000, 15
	b.Each(func(run int) {
		for _, c := range []struct {
			tells, round, wasm string
			rate               float64
		}{{goTells, goRound, "", goRate}, {rustTells, rustRound, b.BuildOnce("bench/tellguest"), rustRate}} {
			s := inhost.TellSpec{Dir: b.Folder(), Wasm: c.wasm, Plan: b.Plan(1, 1, nil)}
			b.Compare(c.tells, 1e6/bar.Micros(b.Measure(c.tells, run, inhost.TellRole, s).CPUPerCall()), c.rate)
			s.Dir, s.Pings = b.Folder(), true
			b.Compare(c.round, 1e6/b.Measure(c.round, run, inhost.TellRole, s).Rate(), round)
		}
	})
}

// costs is messages.1.
func costs(b *bar.B) {
	b.Each(func(run int) {
		b.Scope(func() { compare(b, run, embeddedCost, inhost.Spec{Dir: b.Folder()}, nil) })
		url, pid := b.Postgres()
		watch := map[string]int{"PostgreSQL": pid}
		sent := compare(b, run, postgresCost, inhost.Spec{StoreURL: url}, watch)
		queue := b.Measure("PostgreSQL, a row of a queue table, inserted and consumed", run, bare.QueueRole,
			bare.SQL{URL: url, Plan: b.Plan(workers, actors, watch), StateBytes: ballast + 43})
		b.Compare(queueRate, sent.Rate(), queue.Rate())
	})
}

// compare measures turns and messages on a store, and returns the messages.
func compare(b *bar.B, run int, name string, s inhost.Spec, watch map[string]int) load.Result {
	s.Wasm, s.StateBytes, s.Method, s.Payload, s.Plan = b.BuildOnce("bench/reminderguest"), ballast, "Add", "1", b.Plan(many, actors, watch)
	turns := b.Measure(name+" of a turn", run, inhost.Role, s)
	s.Method, s.Reminders = "Remind", true
	sent := b.Measure(name+" of a message", run, inhost.MessageRole, s)
	b.Compare(name, bar.Micros(sent.CPUPerCall()), 2*bar.Micros(turns.CPUPerCall()))
	return sent
}
