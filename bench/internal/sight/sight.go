// Package sight has the bars of what people see of a server, and of what it costs to see: the
// console, queries, typed calls and traces.
package sight

import (
	"slices"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/fair"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

// Bars returns the bars of the area.
func Bars() []bar.Bar {
	return slices.Concat([]bar.Bar{{
		Name: "sight.1", Title: "the console in Chromium, over loopback, with 1,000,000 stored actors: its first paint, and its list of actors, against a second; its files, compressed, against 250 KB",
		Checks: []bar.Check{
			{Name: firstPaint, Unit: "ms", Want: bar.AtMost, Target: 1},
			{Name: listShown, Unit: "ms", Want: bar.AtMost, Target: 1},
			{Name: bundle, Unit: "KB", Want: bar.AtMost, Target: 1},
		}, Run: bar.Of(console),
	}}, fair.Queries(), []bar.Bar{
		{
			Name: "sight.3", Title: "unary calls of a generated Connect client against ActorService.Invoke of the same method with the same bytes, 64 kept connections: processor time",
			Checks: []bar.Check{{Name: typedCalls, Unit: "µs/call", Want: bar.AtMost, Target: 1.1}}, Run: bar.Of(typed),
		},
		{
			Name: "sight.4", Title: "warm turns inside the host: processor time with a recorder of spans that samples nothing against none, and with one turn of a hundred sampled against nothing sampled",
			Checks: []bar.Check{
				{Name: tracesOff, Unit: "µs/turn", Want: bar.AtMost, Target: 1.01},
				{Name: tracesSampled, Unit: "µs/turn", Want: bar.AtMost, Target: 1.03},
			}, Run: bar.Of(traces),
		},
	})
}

// Roles are what the bars do in processes of their own.
func Roles() role.Roles {
	return role.Roles{CollectorRole: Collector, TypedRole: role.Of(Typed)}
}
