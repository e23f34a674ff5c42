// Package fair holds the bars of sharing: what one app notices of another that takes as much
// of the server as it is given (package hostile). One file for each kind of question.
//
// Each bar compares a neighbour beside a flood with the same neighbour alone. Floods come
// from a process of low priority, as those who send them have machines of their own.
package fair

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

// Roles are the parts that run in processes of their own.
func Roles() role.Roles { return role.Roles{floodRole: flood, deployRole: deployer} }

// Bars returns the bars of this area in order.
func Bars() []bar.Bar {
	return []bar.Bar{
		{
			Name: "fair.1", Title: "calls, 200 a second, beside 500 actors of another app in endless loops, against the same calls alone",
			Checks: besides(endless), Run: calls(endless),
		},
		{
			Name: "fair.2", Title: "calls, 200 a second, beside replies of another app that nobody reads, and payloads to actors that spin, against the same calls alone",
			Checks: besides(unread, payloads), Run: calls(unread, payloads),
		},
		{
			Name: "fair.3", Title: "how late reminders fire, 100 a second, beside 100,000 reminders of another app, against the same reminders alone",
			Checks: []bar.Check{late(instant), late(failing)},
			Run:    bar.Of(lateness),
		},
		{
			Name: "fair.4", Title: "deploys of a small module, two a second, beside 64 heavy uploads of another app, against the same deploys alone",
			Checks: besides(heavy), Run: bar.Of(deploys),
		},
		{
			Name: "fair.5", Title: "first calls of eight types after a restart with an empty cache, beside first calls of ten heavy modules of another app, against the same alone",
			Checks: besides(restart), Run: bar.Of(restarts),
		},
	}
}
