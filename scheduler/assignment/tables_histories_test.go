package assignment

import (
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// shortHistory is a leader and hosts that perform all orders at once. It is for histories that the
// random ones of TestTablesOneHolder led to, reduced to the steps that they need.
type shortHistory struct {
	*Tables
	now      clock.Instant
	holdings map[placement.HostID]*Holdings
}

func newShortHistory() *shortHistory {
	return &shortHistory{NewTables(1), 0, map[placement.HostID]*Holdings{}}
}

// join has a host, which is named by its ID, begin a session.
func (s *shortHistory) join(id placement.HostID, policy string) {
	if s.holdings[id] == nil {
		s.holdings[id] = NewHoldings(id)
	}
	s.Begin(id, string(id), false)
	s.Reported(id, []protocol.Type{placed("T", policy, 1)})
	for _, c := range s.holdings[id].Claims(s.now) {
		s.Claim(id, c.Types, c.Policy, c.Ranges)
	}
	s.Claimed(id)
}

// settle has the hosts perform all orders.
func (s *shortHistory) settle() {
	for orders := s.Plan(true); len(orders) > 0; orders = s.Plan(true) {
		for _, o := range orders {
			h := s.holdings[o.To]
			moving := h.Order(o, s.now)
			switch o.Kind {
			case protocol.Lock:
				s.Released(o.To, o.Version, h.HandedOver(moving, s.now).Ranges)
			case protocol.Update:
				s.Updated(o.To, o.Version)
			}
		}
	}
}

// TestRangesCleanInParts: a host may hold in parts, which become clean at different times, what its
// leader knows as one range that is not clean. The range is clean for the next holder only if
// all parts are: a commit of a host that was cleared may still land in the others.
func TestRangesCleanInParts(t *testing.T) {
	const half = placement.Point(1 << 63)
	for name, tt := range map[string]struct {
		first     []protocol.Range // what the host has held for an hour when it gets the rest
		handsOver clock.Instant
		want      actor.Hold
	}{
		"the last part is not":        {[]protocol.Range{rangeOf(0, half-1, "a")}, CleanAfter, actor.Held},
		"the first part is not":       {[]protocol.Range{rangeOf(half, placement.LastPoint, "a")}, CleanAfter, actor.Held},
		"a part in the middle is not": {[]protocol.Range{rangeOf(0, half-1, "a"), rangeOf(half+1, placement.LastPoint, "a")}, CleanAfter, actor.Held},
		"all parts are":               {[]protocol.Range{rangeOf(0, half-1, "a")}, 2 * CleanAfter, actor.HeldClean},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShortHistory()
			s.holdings["a"] = NewHoldings("a")
			s.holdings["a"].Order(protocol.Order{Types: []protocol.TypeName{{App: "a", Type: "T"}}, Kind: protocol.Update, Policy: abi.PlacementRing, Ranges: tt.first}, s.now)
			s.join("a", abi.PlacementRing) // a new leader; the host with the rest is frozen
			s.now = CleanAfter
			s.settle() // the frozen host has been cleared: a gets the rest
			s.now = tt.handsOver
			s.Drain("a")
			s.settle()
			s.join("b", abi.PlacementRing)
			s.settle()
			least := actor.HeldClean
			for _, p := range []placement.Point{0, half - 1, half, half + 1, placement.LastPoint} {
				least = min(least, s.holdings["b"].Held("a", "T", p, s.now))
			}
			if least != tt.want {
				t.Errorf("the next holder holds all points as %d or more, want %d", least, tt.want)
			}
		})
	}
}

// TestPartOfAClearedStaticHost: the part of a static host that was cleared has no holder, and the
// other hosts learn that.
func TestPartOfAClearedStaticHost(t *testing.T) {
	s := newShortHistory()
	for _, id := range []placement.HostID{"n0", "n1"} {
		s.join(id, "static:n0,n1")
	}
	s.settle()
	known := func() []placement.HostID {
		return s.holdings["n0"].types[protocol.TypeName{App: "a", Type: "T"}].Find(placement.LastPoint).Hosts
	}
	if hosts := known(); !sameSet(hosts, []placement.HostID{"n1"}) {
		t.Fatalf("n0 knows the part of n1 at %v", hosts)
	}
	delete(s.holdings, "n1")
	s.Cleared("n1")
	s.settle()
	if hosts := known(); len(hosts) > 0 {
		t.Errorf("n0 knows the part of n1 at %v, after n1 was cleared", hosts)
	}
}

// TestOrdersOfAnEarlierSession: what a leader could not send while its lease was over is not sent
// in a later session. Otherwise a host that has handed over a type placed with a group, and
// answered, would run it again by an UNLOCK that an earlier session was to get.
func TestOrdersOfAnEarlierSession(t *testing.T) {
	group := protocol.Type{App: "a", Name: "@g", Placement: abi.PlacementRing, Generation: 1}
	name := protocol.TypeName{App: "a", Type: "T"}
	tables, h := NewTables(1), NewHoldings("a")
	begin := func() {
		tables.Begin("a", "a", false)
		for _, c := range h.Claims(0) {
			tables.Claim("a", c.Types, c.Policy, c.Ranges)
		}
		tables.Claimed("a")
	}
	begin()
	tables.Reported("a", []protocol.Type{group, placed("T", tablesTogether, 1)})
	for orders := tables.Plan(true); len(orders) > 0; orders = tables.Plan(true) {
		for _, o := range orders {
			h.Order(o, 0)
			if o.Kind == protocol.Update {
				tables.Updated("a", o.Version)
			}
		}
	}
	if !h.types[name].competes {
		t.Fatal("the host does not run the type at the places of its group")
	}
	tables.Reported("a", []protocol.Type{group, placed("T", abi.PlacementRing, 2)})
	tables.Plan(true) // a LOCK, which is lost with its session
	h.Resume(0)
	begin() // the leader's lease is over, so it sends nothing
	begin()
	for _, o := range tables.Plan(true) { // the leader has renewed its lease
		moving := h.Order(o, 0)
		if o.Kind == protocol.Lock {
			tables.Released("a", o.Version, h.HandedOver(moving, 0).Ranges)
			tables.Plan(true)
		}
		if policy, _ := tables.Policy(name.App, name.Type); policy == abi.PlacementRing && h.types[name].competes {
			t.Fatal("the host runs the type at the places of its group, and the leader has put another policy in force")
		}
	}
	if policy, _ := tables.Policy(name.App, name.Type); policy != abi.PlacementRing {
		t.Errorf("the policy %s is in force", policy)
	}
}
