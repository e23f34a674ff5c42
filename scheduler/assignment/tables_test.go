package assignment

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// chance makes the choices of a history.
type chance struct {
	*rand.Rand
	w *tablesWorld
}

// host picks one of the hosts that fit; nil without any.
func (c chance) host(fit func(*tablesHost) bool) *tablesHost {
	return pick(c, slices.DeleteFunc(slices.Clone(c.w.hosts), func(h *tablesHost) bool { return !fit(h) }))
}

// stream picks a stream on which something may arrive.
func (c chance) stream() *tablesStream {
	var fits []*tablesStream
	for _, h := range c.w.hosts {
		for _, s := range append(slices.Clone(h.old), h.stream) {
			if s != nil && (len(s.up) > 0 && !s.leader.frozen || len(s.down) > 0 && !h.frozen) {
				fits = append(fits, s)
			}
		}
	}
	return pick(c, fits)
}

// leader is the newest one, nil without any.
func (c chance) leader() *tablesLeader {
	if n := len(c.w.leaders); n > 0 {
		return c.w.leaders[n-1]
	}
	return nil
}

func pick[E any](c chance, from []*E) *E {
	if len(from) == 0 {
		return nil
	}
	return from[c.IntN(len(from))]
}

func (c chance) rarely() bool { return c.IntN(6) == 0 }

func awake(h *tablesHost) bool     { return !h.frozen }
func connected(h *tablesHost) bool { return !h.frozen && h.stream != nil }

type tablesStep struct {
	weight int
	name   string
	do     func(c chance)
}

// tablesSteps are what may happen, with how often.
var tablesSteps = []tablesStep{
	{2, "a host registers", func(c chance) {
		if len(c.w.hosts) < 4 {
			h := &tablesHost{name: fmt.Sprint("n", len(c.w.hosts)), deploys: c.w.deploys, early: c.rarely()}
			c.w.register(h)
			c.w.hosts = append(c.w.hosts, h)
		}
	}},
	{4, "a leader is elected", func(c chance) {
		if c.w.now >= c.w.leader.until {
			c.w.elect()
			c.leader().early = c.rarely()
		}
	}},
	{8, "a host connects", func(c chance) {
		if h := c.host(awake); h != nil && len(c.w.leaders) > 0 && (h.stream == nil || h.stream.leader != c.leader() || c.rarely()) {
			back := 1
			if len(c.w.leaders) > 1 && c.rarely() {
				back = 2
			}
			c.w.connect(h, c.w.leaders[len(c.w.leaders)-back])
		}
	}},
	{40, "a message arrives", func(c chance) {
		for range 1 + c.IntN(5) {
			s := c.stream()
			switch {
			case s == nil:
			case len(s.up) > 0 && !s.leader.frozen && (len(s.down) == 0 || s.host.frozen || c.IntN(2) == 0):
				c.w.up(s)
			default:
				c.w.down(s)
			}
		}
	}},
	{10, "a host has handed over", func(c chance) {
		if h := c.host(func(h *tablesHost) bool { return len(h.handing) > 0 && awake(h) }); h != nil {
			c.w.handedOver(h)
		}
	}},
	{12, "leases are renewed", func(c chance) {
		for _, h := range c.w.hosts {
			if awake(h) {
				c.w.renew(h)
			}
		}
		if l := c.leader(); l != nil && !l.frozen {
			c.w.leader.until = c.w.now + tablesLease
			l.leader.Renewed(c.w.now, tablesLease)
			c.w.plan(l)
		}
	}},
	{3, "a stream breaks", func(c chance) {
		if h := c.host(connected); h != nil {
			h.breakStream(c.w.now)
		}
	}},
	{12, "time passes", func(c chance) { c.w.now += clock.Instant(10 + 25*c.IntN(3)) }},
	{1, "an hour passes", func(c chance) { c.w.now += CleanAfter }},
	{3, "a host freezes or wakes", func(c chance) {
		if h := c.host(func(*tablesHost) bool { return true }); h != nil {
			h.frozen = !h.frozen
		}
	}},
	{1, "the leader freezes or wakes", func(c chance) {
		if l := c.leader(); l != nil {
			l.frozen = !l.frozen
		}
	}},
	{5, "rows are cleared", func(c chance) {
		if l := c.leader(); l != nil && !l.frozen && l.leader.Leading(c.w.now) {
			c.w.clear(l)
		}
	}},
	{1, "a host drains", func(c chance) {
		if h := c.host(connected); h != nil && !h.draining {
			h.draining = true
			h.stream.up = append(h.stream.up, func(l *tablesLeader) { l.tables.Drain(h.id) })
		}
	}},
	{2, "a deployment", func(c chance) {
		k := max(0, c.IntN(2*len(tablesTypes))-len(tablesTypes)) // mostly the first
		d := &c.w.deploys[k]
		d.policy = tablesPolicies[c.IntN(len(tablesPolicies))]
		switch {
		case k == 0:
		case k < tablesGroup && c.IntN(2) == 0:
			d.policy = tablesTogether
			c.w.stats["placed with a group"]++
		case d.policy == abi.PlacementSticky || placement.IsCheckout(d.policy), k == tablesGroup && d.policy == abi.PlacementAny:
			d.policy = abi.PlacementRing
		}
		d.n++
	}},
	{3, "a host reports types", func(c chance) {
		if h := c.host(connected); h != nil {
			h.deploys = c.w.deploys
			types := h.types()
			h.stream.up = append(h.stream.up, func(l *tablesLeader) { l.tables.Reported(h.id, types) })
		}
	}},
	{5, "a host asks for the sticky actor", func(c chance) {
		if h := c.host(connected); h != nil {
			c.w.acquire(h)
		}
	}},
	{8, "a host leases a partition", func(c chance) {
		if h := c.host(awake); h != nil && h.member.Current(c.w.now) {
			c.w.compete(h, c.IntN(2))
		}
	}},
	{6, "a host hears of its partition", func(c chance) {
		if h := c.host(func(h *tablesHost) bool { return awake(h) && h.asked > 0 }); h != nil {
			c.w.answered(h)
		}
	}},
	{2, "ranges are moved by heat", func(c chance) {
		l, h := c.leader(), c.host(awake)
		if l == nil || h == nil {
			return
		}
		typ := tablesTypes[c.IntN(len(tablesTypes))]
		table := l.tables.types[typ]
		if table == nil || !placement.IsRing(table.policy) {
			return
		}
		var moved []placement.Moved // and otherwise all goes back
		if !c.rarely() {
			first, last := placement.Cell(c.IntN(placement.Cells)), placement.Cell(c.IntN(placement.Cells))
			if p := placement.CellOf(tablesPoints[c.IntN(len(tablesPoints))]); c.IntN(2) == 0 {
				first, last = p, p
			}
			moved = placement.AddMoved(table.moved, placement.Moved{First: min(first, last).First(), Last: max(first, last).Last(), Host: h.id})
		}
		l.tables.Move(typ.App, typ.Type, moved)
		c.w.stats["moved by heat"]++
		c.w.plan(l)
	}},
}

// TestTablesOneHolder: in no history are turns at one point under way at two hosts that
// may run them, nor is anything held as clean that is not; and when the faults end,
// every point has a holder that everybody knows.
func TestTablesOneHolder(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(*tablesSeeds) {
		if fault, history := tablesHistory(seed, noRule, seen); fault != "" {
			t.Fatalf("seed %d: %s, after\n%s", seed, fault, strings.Join(history, "\n"))
		}
	}
	for _, what := range []string{"order 1", "order 2", "order 3", "host ended", "host cleared", "sticky granted", "policy switched", "static host away", "static host there", "partition leased", "partition given back", "moved by heat", "held where it was moved", "read elsewhere", "placed with a group", "no types share a table", "all types share a table", "all types share a table of a host"} {
		if seen[what] == 0 {
			t.Errorf("in no history: %s", what)
		}
	}
	t.Log(seen)
}

var tablesSeeds = flag.Int("tables.seeds", 300, "how many histories TestTablesOneHolder tries")

// TestTablesFindFaults: each rule is needed: histories that break it come to a fault.
func TestTablesFindFaults(t *testing.T) {
	for rule, name := range map[tablesRule]string{
		waitsForClaims:   "a new leader waits for claims",
		newestSession:    "orders of old sessions are ignored",
		answersAfterward: "a LOCK is answered after the hand-over",
		clearsWhenOver:   "a row is cleared when its lease is over",
		countsUnclean:    "what a cleared host held is not clean",
		competesAlways:   "partitions are leased under their policy alone",
		toldFirst:        "nothing is run anywhere before a leader has told what is held",
		stopsFirst:       "what is run anywhere is handed over before it is held",
		groupsStopFirst:  "a type is handed over before it comes to or leaves a group",
		claimsGroups:     "types that are placed with a group are claimed",
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20000) {
				if fault, _ := tablesHistory(seed, rule, map[string]int{}); fault != "" {
					t.Logf("seed %d: %s", seed, fault)
					return
				}
			}
			t.Fatal("no history comes to a fault")
		})
	}
}

// tablesHistory runs the history of a seed, and returns the fault that it comes to.
func tablesHistory(seed uint64, broken tablesRule, seen map[string]int) (fault string, history []string) {
	c := chance{rand.New(rand.NewPCG(seed, 0)), newTablesWorld()}
	c.w.broken = broken
	sum := 0
	for _, s := range tablesSteps {
		sum += s.weight
	}
	for range 20 + c.IntN(400) {
		n := c.IntN(sum)
		i := slices.IndexFunc(tablesSteps, func(s tablesStep) bool { n -= s.weight; return n < 0 })
		history = append(history, fmt.Sprintf("%5d %s", c.w.now, tablesSteps[i].name))
		tablesSteps[i].do(c)
		if fault = c.w.check(); fault != "" {
			return fault, history
		}
	}
	if broken != noRule {
		return "", nil
	}
	if fault = c.w.settle(); fault != "" {
		return fault, history
	}
	for what, n := range c.w.stats {
		seen[what] += n
	}
	return "", nil
}
