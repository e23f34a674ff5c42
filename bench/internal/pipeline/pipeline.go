// Package pipeline holds the bars of the commit pipeline and of the wire, one
// file for each kind of question.
//
// Unless a bar says otherwise its subject is a greenroom server in a process of
// its own, called over the stream from another process, and a turn is a counter
// that adds one, in Rust, with 200 bytes of state, committed with fsync.
package pipeline

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
)

// Bars returns the bars of this area in order.
func Bars() []bar.Bar {
	return []bar.Bar{
		{
			Name: "pipeline.1", Title: "PostgreSQL, 100,000 actors: turns against a transaction per turn with 64 workers",
			Checks: []bar.Check{
				{Name: "turns at 1,024 outstanding", Unit: "turns/s", Want: bar.AtLeast, Target: 8},
				{Name: "CPU at 1,024 outstanding against its parts", Unit: "µs/turn", Want: bar.AtMost, Target: overParts},
				{Name: "turns at 64 outstanding", Unit: "turns/s", Want: bar.AtLeast, Target: 2},
				{Name: "CockroachDB, turns at 1,024 outstanding", Unit: "turns/s", Want: bar.AtLeast, Target: 12, Optional: true},
			},
			Run: bar.Of(sqlTurns),
		},
		{
			Name: "pipeline.2", Title: "embedded store, 100,000 actors, inside the host, 1,024 outstanding: turns against their parts",
			Checks: []bar.Check{{Name: "CPU against its parts", Unit: "µs/turn", Want: bar.AtMost, Target: overParts}},
			Run:    bar.Of(embeddedTurns),
		},
		{
			Name: "pipeline.3", Title: "one hot actor, 256 outstanding: turns against a transaction per turn, and against their parts",
			Checks: []bar.Check{
				{Name: "PostgreSQL", Unit: "turns/s", Want: bar.AtLeast, Target: 25},
				{Name: "embedded, CPU against its parts", Unit: "µs/turn", Want: bar.AtMost, Target: overParts},
			},
			Run: bar.Of(hotActor),
		},
		{
			Name: "pipeline.4", Title: "one caller: a unary call against a handler that runs the guest and makes the bare commit",
			Checks: []bar.Check{
				{Name: "embedded", Unit: "µs, p50", Want: bar.AtMost, Target: overParts},
				{Name: "PostgreSQL", Unit: "µs, p50", Want: bar.AtMost, Target: overParts},
			},
			Run: bar.Of(idleLatency),
		},
		{
			Name: "pipeline.5", Title: "embedded store, 10,000 actors, the stream, 1,024 outstanding: turns against their parts",
			Checks: []bar.Check{{Name: "CPU against its parts", Unit: "µs/turn", Want: bar.AtMost, Target: overParts}},
			Run:    bar.Of(streamedTurns),
		},
		{
			Name: "pipeline.6", Title: "warm read-only calls, inside the host and over the stream, against their parts",
			Checks: []bar.Check{
				{Name: "inside the host", Unit: "µs, p50", Want: bar.AtMost, Target: overParts},
				{Name: "over the stream, CPU", Unit: "µs/call", Want: bar.AtMost, Target: overParts},
			},
			Run: bar.Of(readOnlyCalls),
		},
		{
			Name: "pipeline.7", Title: "large states, embedded store: turns inside the host against a bare grouped write",
			Checks: []bar.Check{
				{Name: "10 KB", Unit: "turns/s", Want: bar.AtLeast, Target: 0.7},
				{Name: "100 KB", Unit: "turns/s", Want: bar.AtLeast, Target: 0.7},
			},
			Run: bar.Of(largeStates),
		},
		{
			Name: "pipeline.8", Title: "unary calls, 64 connections, 10,000 counters: turns against an empty handler",
			Checks: []bar.Check{
				{Name: "HTTP", Unit: "calls/s", Want: bar.AtLeast, Target: 0.35},
				{Name: "Connect", Unit: "calls/s", Want: bar.AtLeast, Target: 0.35},
				{Name: "HTTP, p99 over p50", Unit: "µs", Want: bar.AtMost, Target: 20},
				{Name: "Connect, p99 over p50", Unit: "µs", Want: bar.AtMost, Target: 20},
			},
			Run: bar.Of(unaryCalls),
		},
		{
			Name: "pipeline.9", Title: "turns with an idempotency key against turns without",
			Checks: []bar.Check{
				{Name: "embedded, time", Unit: "µs/turn", Want: bar.AtMost, Target: 1.3},
				{Name: "embedded, CPU", Unit: "µs/turn", Want: bar.AtMost, Target: 1.3},
				{Name: "PostgreSQL, time", Unit: "µs/turn", Want: bar.AtMost, Target: 1.3},
				{Name: "PostgreSQL, CPU", Unit: "µs/turn", Want: bar.AtMost, Target: 1.3},
			},
			Run: bar.Of(keyedTurns),
		},
		{
			Name: "pipeline.10", Title: "1,000,000 actors called once through 64 MiB of activations: memory of the second half against the first's",
			Checks: []bar.Check{{Name: "resident", Unit: "MiB", Want: bar.AtMost, Target: 1.1}},
			Run:    bar.Of(flatMemory),
		},
	}
}
