package assignment

import (
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// settled answers the orders of a leader as hosts do, but those that are away, until it has no
// more. It returns how many ranges were locked.
func settled(t *testing.T, tables *Tables, away map[placement.HostID]bool) (locked int) {
	t.Helper()
	for range 10_000 {
		orders := tables.Plan(true)
		if len(orders) == 0 {
			return locked
		}
		for _, o := range orders {
			switch {
			case away[o.To]:
			case o.Kind == protocol.Lock:
				locked += len(o.Ranges)
				tables.Released(o.To, o.Version, o.Ranges)
			case o.Kind == protocol.Update:
				tables.Updated(o.To, o.Version)
			}
		}
	}
	t.Fatalf("no end of orders: %d ranges locked", locked)
	return locked
}

// TestTablesHostAway: what is meant for a host that is registered, and has no session now,
// stays where it is: it is not locked and given back without end. When the host is there
// again it gets its share.
func TestTablesHostAway(t *testing.T) {
	tables := NewTables(placement.DefaultRanges)
	types := []protocol.Type{{App: "a", Name: "T", Placement: abi.PlacementRing, Generation: 1}}
	join := func(id placement.HostID) {
		tables.Begin(id, string(id), false)
		tables.Reported(id, types)
		tables.Claimed(id)
	}
	away := map[placement.HostID]bool{}
	settle := func() (locked int) { return settled(t, tables, away) }
	join("here")
	settle()
	all := tables.Shares()["here"]
	tables.Begin("there", "there", false)
	tables.Reported("there", types)
	away["there"] = true // its claims have not come
	if n := settle(); n != 0 || tables.Shares()["here"] != all {
		t.Errorf("%d ranges were locked for a host that is not there, and %d of %d are left", n, tables.Shares()["here"], all)
	}
	away["there"] = false
	tables.Claimed("there")
	settle()
	if share := tables.Shares()["there"]; share == 0 || share+tables.Shares()["here"] < all {
		t.Errorf("the host that came got %d of %d ranges, the other has %d", share, all, tables.Shares()["here"])
	}
	// Its session ends with what it holds: that is its own. What the other has stays.
	before := tables.Shares()
	tables.Disconnected("there")
	away["there"] = true
	if n := settle(); n != 0 || tables.Shares()["here"] != before["here"] {
		t.Errorf("%d ranges were locked when a session ended: %v, before %v", n, tables.Shares(), before)
	}
	// What it holds it cannot be asked to hand over: that stays, whoever joins, and holds up
	// nothing of the others.
	join("third")
	settle()
	if share := tables.Shares(); share["third"] == 0 || share["there"] != before["there"] {
		t.Errorf("of what a host is not there to hand over: %v, before %v", share, before)
	}
	for _, r := range tables.types[protocol.TypeName{App: "a", Type: "T"}].ranges {
		if slices.Contains(r.holds, "there") && r.phase != stable {
			t.Errorf("the range at %#x of a host that is not there is locked", uint64(r.first))
		}
	}
	tables.Drain("here")
	settle()
	if left := tables.Shares()["here"]; left != 0 {
		t.Errorf("a host that drains has %d ranges", left)
	}
	tables.Cleared("there")
	settle()
	if share := tables.Shares(); share["third"] < all {
		t.Errorf("when its lease is over: %v of %d", share, all)
	}
}

// TestTablesMoveFewAtATime: a few ranges of a host that drains are locked at a time, and
// others follow as they arrive; those that take long hold up others no more, up to a bound.
// What nobody else can run is told to be nobody's.
func TestTablesMoveFewAtATime(t *testing.T) {
	tables := NewTables(placement.DefaultRanges)
	types := []protocol.Type{{App: "a", Name: "T", Placement: abi.PlacementRing, Generation: 1}}
	join := func(id placement.HostID, types []protocol.Type) {
		tables.Begin(id, string(id), false)
		tables.Reported(id, types)
		tables.Claimed(id)
	}
	join("leaves", types)
	holdings := NewHoldings("leaves")
	obey := func() {
		for orders := tables.Plan(true); len(orders) > 0; orders = tables.Plan(true) {
			for _, o := range orders {
				moving := holdings.Order(o, 0)
				switch o.Kind {
				case protocol.Lock:
					holdings.HandedOver(moving, 0)
					tables.Released(o.To, o.Version, moving.Ranges)
				case protocol.Update:
					tables.Updated(o.To, o.Version)
				case protocol.Unlock, protocol.Remove:
				}
			}
		}
	}
	obey()
	if !holdings.Holding() {
		t.Error("a host alone holds nothing")
	}
	tables.Drain("leaves")
	obey()
	if holdings.Holding() || holdings.UnderWay() {
		t.Errorf("what nobody else can run is held: %v, under way: %v", holdings.Holding(), holdings.UnderWay())
	}
	tables = NewTables(placement.DefaultRanges)
	join("leaves", types)
	settleOrders(t, tables)
	join("stays", types)
	settleOrders(t, tables)
	tables.Drain("leaves")
	moving := 0
	locks := func() (locks []protocol.Order) {
		for _, o := range tables.Plan(true) {
			switch {
			case o.Kind == protocol.Update:
				tables.Updated(o.To, o.Version)
			case o.Kind == protocol.Unlock && o.To == "leaves":
				moving -= len(o.Ranges)
			case o.Kind == protocol.Lock && o.To == "leaves":
				locks = append(locks, o)
				moving += len(o.Ranges)
				if len(o.Ranges) > maxTogether {
					t.Errorf("%d ranges are handed over together", len(o.Ranges))
				}
			}
		}
		return locks
	}
	first := locks()
	if moving != MaxMoving || len(locks()) != 0 {
		t.Fatalf("%d ranges move", moving)
	}
	tables.Released("leaves", first[0].Version, first[0].Ranges)
	for range 3 { // UPDATE; UNLOCK, and the next LOCK
		locks()
	}
	if moving != MaxMoving {
		t.Errorf("%d ranges move once some have arrived", moving)
	}
	for range 10 {
		tables.Slow()
		locks()
	}
	if moving != maxSlow {
		t.Errorf("%d ranges move when all take long", moving)
	}
}
