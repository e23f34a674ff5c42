package assignment

import (
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

func rangeOf(first, last placement.Point, hosts ...placement.HostID) protocol.Range {
	return protocol.Range{First: first, Last: last, Hosts: hosts}
}

// TestHoldings: what a host holds after a series of orders, as the view of it says that
// answers calls.
func TestHoldings(t *testing.T) {
	const half = placement.Point(1 << 63)
	h := NewHoldings("me")
	order := func(kind protocol.OrderKind, ranges ...protocol.Range) Moving {
		return h.Order(protocol.Order{Types: []protocol.TypeName{{App: "a", Type: "T"}}, Version: 7, Kind: kind, Policy: abi.PlacementRing, Ranges: ranges}, 0)
	}
	points := []placement.Point{0, half - 1, half, placement.LastPoint}
	check := func(what string, want ...actor.Hold) {
		t.Helper()
		v := h.Views()[h.types[protocol.TypeName{App: "a", Type: "T"}].slot]
		for i, p := range points {
			got := h.Held("a", "T", p, 0)
			r := v.Find(p)
			if got != want[i] || r.held != want[i] {
				t.Errorf("%s: at point %#x %d, in the view %d; want %d", what, uint64(p), got, r.held, want[i])
			}
		}
	}
	order(protocol.Unlock, rangeOf(0, placement.LastPoint, "other"))
	check("routes alone", actor.NotHeld, actor.NotHeld, actor.NotHeld, actor.NotHeld)
	order(protocol.Update, rangeOf(half, placement.LastPoint, "me"))
	check("half taken over, not clean", actor.NotHeld, actor.NotHeld, actor.Held, actor.Held)
	clean := rangeOf(0, half-1, "me")
	clean.Clean = true
	order(protocol.Update, clean)
	check("the rest as clean", actor.HeldClean, actor.HeldClean, actor.Held, actor.Held)
	m := order(protocol.Lock, rangeOf(half-1, half, "other"))
	check("two points locked", actor.HeldClean, actor.NotHeld, actor.NotHeld, actor.Held)
	if len(m.Ranges) != 2 || !m.Ranges[0].Clean || m.Ranges[1].Clean || m.Order.Version != 7 {
		t.Errorf("handed over: %+v", m)
	}
	if got := h.Claims(0)[0].Ranges; len(got) != 4 {
		t.Errorf("claims before it is handed over: %+v", got)
	}
	h.HandedOver(m, 0)
	if got := h.Claims(0)[0].Ranges; len(got) != 2 {
		t.Errorf("claims after: %+v", got)
	}
	m = order(protocol.Lock, rangeOf(0, placement.LastPoint))
	check("all locked", actor.NotHeld, actor.NotHeld, actor.NotHeld, actor.NotHeld)
	h.Resume(0)
	check("the stream broke before", actor.HeldClean, actor.NotHeld, actor.NotHeld, actor.Held)
	h.HandedOver(m, 0) // too late
	check("and the hand-over ends", actor.HeldClean, actor.NotHeld, actor.NotHeld, actor.Held)
	if h.CleanAt(0) != CleanAfter || h.CleanAt(CleanAfter) != 0 || h.Held("a", "T", placement.LastPoint, CleanAfter) != actor.HeldClean {
		t.Error("an hour later it is not clean")
	}
}

func movingOf(typ string, ranges ...protocol.Range) Moving {
	return Moving{parts: []movingPart{{types: newTypeSet([]protocol.TypeName{{App: "a", Type: typ}}), ranges: ranges}}}
}

// TestMovingContains: an actor moves if its point is in a range that moves, and in this
// host's share of it.
func TestMovingContains(t *testing.T) {
	key := actor.Key{App: "a", Type: "T", ID: "x"}
	p := placement.PointOf(key)
	owner := placement.OwnerAmong(p, []placement.HostID{"me", "other"})
	for name, tt := range map[string]struct {
		ranges []protocol.Range
		self   placement.HostID
		want   bool
	}{
		"the point":       {[]protocol.Range{rangeOf(p, p, "me")}, "me", true},
		"between":         {[]protocol.Range{rangeOf(0, p-1, "me"), rangeOf(p+1, placement.LastPoint, "me")}, "me", false},
		"after the last":  {[]protocol.Range{rangeOf(0, p-1, "me")}, "me", false},
		"nothing":         {nil, "me", false},
		"shared, mine":    {[]protocol.Range{rangeOf(0, placement.LastPoint, "me", "other")}, owner, true},
		"shared, another": {[]protocol.Range{rangeOf(0, placement.LastPoint, "me", "other")}, "third", false},
	} {
		if got := movingOf("T", tt.ranges...).Contains(tt.self, key); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if movingOf("U", rangeOf(0, placement.LastPoint, "me")).Contains("me", key) {
		t.Error("an actor of another type moves")
	}
}

// TestTold: a host knows where everything is when it was told of each type with which its
// first session began, or does not run it any more; a session that broke before counts for
// nothing, and what breaks later takes nothing back.
func TestTold(t *testing.T) {
	h := NewHoldings("a")
	told := func(when string, want bool) {
		t.Helper()
		if h.Informed() != want {
			t.Errorf("%s: told: %t", when, h.Informed())
		}
	}
	about := func(names ...string) {
		for _, name := range names {
			h.Order(protocol.Order{Types: []protocol.TypeName{{App: "a", Type: name}}, Kind: protocol.Unlock, Ranges: []protocol.Range{{Last: placement.LastPoint}}}, 0)
		}
	}
	told("before a session", false)
	about("T1")
	told("before a session, and told of a type", false)
	h.Connect([]protocol.Type{{App: "a", Name: "T1"}, {App: "a", Name: "T2"}})
	about("T1", "T3")
	told("not of all types", false)
	h.Connect([]protocol.Type{{App: "a", Name: "T1"}, {App: "a", Name: "T2"}, {App: "a", Name: "T4"}})
	about("T2")
	told("not in this session", false)
	h.Reports(map[protocol.TypeName]protocol.Type{{App: "a", Type: "T1"}: {}, {App: "a", Type: "T5"}: {}})
	told("not of all that it runs", false)
	h.Order(protocol.Order{Types: []protocol.TypeName{{App: "a", Type: "T1"}}, Kind: protocol.Remove}, 0)
	told("of all that it runs", true)
	h.Connect([]protocol.Type{{App: "a", Name: "T6"}})
	told("in another session", true)
}
