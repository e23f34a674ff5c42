package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// A type whose transactions deadlock at least so often, and in one of so many cases, is worth a
// warning.
const (
	deadlocksWarn = 10
	deadlocksIn   = 50
)

// ActorType names an actor type.
type ActorType struct{ App, Type string }

// Chains counts the transactions that turns of one type began since the server started.
type Chains struct{ Began, Deadlocks float64 }

// Calls warns of types whose transactions often wait for each other, the worst first.
func Calls(byType map[ActorType]Chains) []*greenroomv1.Finding {
	var findings []*greenroomv1.Finding
	for _, of := range slices.SortedFunc(maps.Keys(byType), func(a, b ActorType) int {
		return cmp.Or(cmp.Compare(byType[b].Deadlocks, byType[a].Deadlocks), strings.Compare(a.App, b.App), strings.Compare(a.Type, b.Type))
	}) {
		n := byType[of]
		if n.Deadlocks < deadlocksWarn || n.Deadlocks*deadlocksIn < n.Began {
			continue
		}
		findings = append(findings, &greenroomv1.Finding{
			Check: "calls", Verdict: verdictWarn,
			Found:  fmt.Sprintf("%s of app %s: of %.0f turns that called others, %.0f were taken back and ran again, since they and others waited for each other's actors (counted since the server started)", of.Type, of.App, n.Began, n.Deadlocks),
			Remedy: "call actors in one order from all methods, the smaller ID first, and those that many call last (docs/calls.md)",
		})
	}
	return findings
}
