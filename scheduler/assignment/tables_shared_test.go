package assignment

import (
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestSharedRangesAreCleanAsAWhole: a range that several hosts claim to share is clean only if
// each of them holds its share as clean; of a share that nobody answers for, commits may
// still be under way when the range moves.
func TestSharedRangesAreCleanAsAWhole(t *testing.T) {
	share := func(clean bool) []protocol.Range {
		return []protocol.Range{{Last: placement.LastPoint, Hosts: []placement.HostID{"a", "b"}, Clean: clean}}
	}
	for name, tt := range map[string]struct {
		claims map[placement.HostID]bool // whether the share is clean
		clean  bool
	}{
		"both clean":          {map[placement.HostID]bool{"a": true, "b": true}, true},
		"the first is not":    {map[placement.HostID]bool{"a": false, "b": true}, false},
		"the second is not":   {map[placement.HostID]bool{"a": true, "b": false}, false},
		"only one is claimed": {map[placement.HostID]bool{"a": true}, false},
	} {
		tables := NewTables(1)
		for _, id := range []placement.HostID{"a", "b", "c"} {
			tables.Begin(id, string(id), false)
			if id == "c" {
				tables.Reported(id, []protocol.Type{{App: "a", Name: "T", Placement: abi.PlacementRing, Generation: 1}})
			}
			if clean, claims := tt.claims[id]; claims {
				tables.Claim(id, []protocol.TypeName{{App: "a", Type: "T"}}, abi.PlacementRing, share(clean))
			}
			tables.Claimed(id)
		}
		given := 0
		for orders := tables.Plan(true); len(orders) > 0; orders = tables.Plan(true) {
			for _, o := range orders {
				switch o.Kind {
				case protocol.Lock:
					tables.Released(o.To, o.Version, share(tt.claims[o.To]))
				case protocol.Update:
					tables.Updated(o.To, o.Version)
					for _, r := range o.Ranges {
						if given++; o.To != "c" || r.Clean != tt.clean {
							t.Errorf("%s: %s is given %+v", name, o.To, r)
						}
					}
				case protocol.Unlock, protocol.Remove:
				}
			}
		}
		if given == 0 {
			t.Errorf("%s: nothing is given", name)
		}
	}
}

// TestStopsOnce: a host that has stopped what it ran anywhere, since the type is to be held,
// does not begin again when it reconnects before that is so.
func TestStopsOnce(t *testing.T) {
	name := protocol.TypeName{App: "a", Type: "T"}
	tables, holdings := NewTables(4), map[placement.HostID]*Holdings{"a": NewHoldings("a"), "b": NewHoldings("b")}
	obey := func(answers ...placement.HostID) {
		for orders := tables.Plan(true); len(orders) > 0; orders = tables.Plan(true) {
			for _, o := range orders {
				moving := holdings[o.To].Order(o, 0)
				for _, id := range answers {
					if o.Kind == protocol.Lock && o.To == id {
						moving = holdings[id].HandedOver(moving, 0)
						tables.Released(id, o.Version, moving.Ranges)
					}
				}
			}
		}
	}
	runs := func(id placement.HostID) bool { return !placement.Exclusive(holdings[id].types[name].policy) }
	connect := func(id placement.HostID, policy string, n uint64) {
		tables.Begin(id, string(id), false)
		tables.Reported(id, []protocol.Type{placed("T", policy, n)})
		for _, c := range holdings[id].Claims(0) {
			tables.Claim(id, c.Types, c.Policy, c.Ranges)
		}
		tables.Claimed(id)
	}
	connect("a", abi.PlacementAny, 1)
	connect("b", abi.PlacementAny, 1)
	obey()
	if !runs("a") || !runs("b") {
		t.Fatal("they do not run it anywhere")
	}
	tables.Reported("a", []protocol.Type{placed("T", abi.PlacementRing, 2)})
	obey("a") // b takes its time
	if runs("a") {
		t.Fatal("it goes on when it has answered")
	}
	connect("a", abi.PlacementRing, 2)
	obey("a")
	if runs("a") {
		t.Error("it has reconnected, and runs again what it has stopped")
	}
	connect("b", abi.PlacementAny, 1)
	obey("a", "b") // it is asked again
	if policy, switching := tables.Policy("a", "T"); policy != abi.PlacementRing || switching || runs("a") || runs("b") {
		t.Errorf("when both have answered: %s, switching %t, run by a %t, by b %t", policy, switching, runs("a"), runs("b"))
	}
}

// TestAlikeClaims: claims are alike only if they say the same, down to what is clean.
func TestAlikeClaims(t *testing.T) {
	of := func(change func(*claim)) *claim {
		c := &claim{policy: "p", ranges: []protocol.Range{{First: 1, Last: 2}}}
		change(c)
		return c
	}
	one := of(func(*claim) {})
	for name, other := range map[string]*claim{
		"policy": of(func(c *claim) { c.policy = "q" }),
		"clean":  of(func(c *claim) { c.ranges[0].Clean = true }),
		"range":  of(func(c *claim) { c.ranges[0].Last = 3 }),
	} {
		if alike := alikeClaims(map[protocol.TypeName]*claim{{App: "a", Type: "S"}: one, {App: "a", Type: "T"}: other}); alike[one] == alike[other] {
			t.Errorf("alike with another %s", name)
		}
	}
	same := of(func(*claim) {})
	if alike := alikeClaims(map[protocol.TypeName]*claim{{App: "a", Type: "S"}: one, {App: "a", Type: "T"}: same}); alike[one] != alike[same] {
		t.Error("the same claims are not alike")
	}
}
