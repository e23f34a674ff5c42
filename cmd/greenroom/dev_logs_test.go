package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
)

// gate is a terminal that takes nothing before it is opened.
type gate struct {
	open chan struct{}
	bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.Buffer.Write(p)
}

// A guest that logs faster than the terminal shows is not held up: what does
// not fit is counted, and what is queued is printed in order.
func TestGuestLogsNeverBlock(t *testing.T) {
	out := &gate{open: make(chan struct{})}
	g := newGuestLogs(&cli{console: console{stderr: out, getenv: noEnv}})
	const lines = guestLogQueue + 100
	for i := range lines {
		g.Add(host.GuestLog{Key: actor.Key{App: "default", Type: "Counter", ID: "me"}, Method: "Add", Text: fmt.Sprintf("line %d", i)})
	}
	close(out.open)
	g.Close()
	text := out.String()
	if !strings.Contains(text, "INFO  Counter me Add  line 0\n") {
		t.Errorf("the first line is missing in %q", text[:min(len(text), 200)])
	}
	printed := strings.Count(text, "Counter me Add")
	if printed < guestLogQueue || printed >= lines {
		t.Errorf("%d of %d lines were printed; want as many as are queued, at least %d", printed, lines, guestLogQueue)
	}
	if !strings.Contains(text, "lines of guests were dropped here") {
		t.Error("nothing says that lines were dropped")
	}
}

// What guests log cannot steer the terminal, and each line says whose it is.
func TestGuestLogLines(t *testing.T) {
	var out bytes.Buffer
	g := newGuestLogs(&cli{console: console{stderr: &out, getenv: noEnv}})
	g.Add(host.GuestLog{Key: actor.Key{App: "default", Type: "Cart", ID: "a b"}, Method: "Add", Level: 8, Text: "one\n\ttwo \x1b[2J"})
	g.Close()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], " ERROR Cart a b Add  one") || !strings.HasSuffix(lines[1], " ERROR Cart a b Add      two \uFFFD[2J") {
		t.Errorf("got %q", lines)
	}
}

// TestCallLines: dev says how each call ended, and why if the log does not.
func TestCallLines(t *testing.T) {
	var out bytes.Buffer
	g := newGuestLogs(&cli{console: console{stderr: &out, getenv: noEnv}})
	key := actor.Key{App: "default", Type: "Cart", ID: "a b"}
	g.Call(host.TurnEnd{Key: key, Method: "Add", Lane: host.LaneWarm, Runs: 2, Fuel: 71, Duration: 1234567})
	g.Call(host.TurnEnd{Key: key, Method: "Add", Lane: host.LaneWarm, Runs: 1, Err: &actor.FuelError{Used: 2, Limit: 1}})
	g.Call(host.TurnEnd{Key: key, Method: "Ad", Err: actor.ErrMethodNotFound})
	g.Call(host.TurnEnd{Key: key, Method: "Add", Lane: host.LaneCalled, Runs: 1, Caller: actor.Key{App: "default", Type: "Shop", ID: "s"}, Depth: 2})
	g.Call(host.TurnEnd{Key: key, Method: "Add", Lane: host.LaneCalled, Runs: 1, Depth: 1})
	g.Call(host.TurnEnd{Key: key, Method: actor.MethodAll, Lane: host.LaneWarm, Runs: 1})
	g.Close()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{
		"CALL  Cart a b Add  ok (1.23ms, fuel 71, 2 runs)",
		"CALL  Cart a b Add  out_of_fuel (0s, fuel 0)",
		"CALL  Cart a b Ad  method_not_found: the actor type has no such method (0s, fuel 0)",
		"CALL      Cart a b Add  ok (0s, fuel 0, called by Shop s)",
		"CALL    Cart a b Add  ok (0s, fuel 0)",
		"CALL  Cart a b (the calls together)  ok (0s, fuel 0)",
	} {
		if len(lines) != 6 || !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %d of %q, want %q", i, lines, want)
		}
	}
}
