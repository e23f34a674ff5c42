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
