// Package messages holds the bars of durable messages: what it costs to send one and to consume
// it.
//
// The turns are those of the counter in bench/reminderguest, inside the host's process. The turn
// of a sender adds one to its counter and sends a message, in one commit. The turn of its
// receiver, another counter, adds one to that, and its commit consumes the message.
package messages

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/load"
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
	}}
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
