package host_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// spender has the method Spend, which uses fuel before and after it calls the first of the actors that its
// payload names. Its reply has the limit that it had at the beginning and after the call, and what was called.
func spender() hosttest.Actor {
	spend := func(t *hosttest.Turn) error {
		fuel := t.Calls.Fuel()
		began, inner := fuel.Limit, ""
		fuel.Used += 200
		if id, rest, _ := strings.Cut(string(t.Frame.Payload), " "); id != "" {
			var err error
			if inner, err = t.Call("T", id, "Spend", rest); err != nil {
				return err
			}
		}
		after := fuel.Limit
		fuel.Used += 50
		return t.Reply(strings.TrimSpace(fmt.Sprintf("%d-%d %s", began, after, inner)))
	}
	return hosttest.Actor{Methods: map[string]hosttest.Func{"Spend": spend}, Reentrant: []string{"Spend"}}
}

// TestFuelOfOpenTurns: what a called turn has used counts against those that it calls, and what they use
// against what it may use afterwards, on one host and over several: the called turns have the outermost
// turn's limit together.
func TestFuelOfOpenTurns(t *testing.T) {
	for path, want := range map[string]string{
		"c d e f":   "1000-1000 1000-250 800-300 600-350 400-400",
		"c c c c c": "1000-1000 1000-201 800-201 600-201 400-201 200-200", // the innermost have used too much
		"b":         "1000-1000 1000-1000",
		"b b1 b2":   "1000-1000 1000-500 800-550 600-600",
		"b a b a":   "1000-1000 1000-250 800-300 600-350 400-400",
		"b c b1 d":  "1000-1000 1000-250 800-300 600-350 400-400",
	} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{Fuel: 1000})
			for _, s := range hs.stages {
				s.world.Deploy("app", "T", spender())
			}
			if reply, err := hs.invoke(t.Context(), "a", "Spend", path, ""); reply != want || err != nil {
				t.Errorf("%s: %q, %v, want %q", path, reply, err, want)
			}
		})
	}
}
