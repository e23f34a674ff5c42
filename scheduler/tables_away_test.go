package scheduler

import (
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// TestTablesHostAway: what is meant for a host that is registered, and has no session now,
// stays where it is: it is not locked and given back without end. When the host is there
// again it gets its share.
func TestTablesHostAway(t *testing.T) {
	tables := NewTables(placement.DefaultRanges)
	types := []Type{{App: "a", Name: "T", Placement: abi.PlacementRing, Generation: 1}}
	join := func(id placement.HostID) {
		tables.Begin(id, string(id), false)
		tables.Reported(id, types)
		tables.Claimed(id)
	}
	// settle answers orders as hosts do until there are none, and returns how many ranges
	// were locked.
	away := map[placement.HostID]bool{}
	settle := func() (locked int) {
		t.Helper()
		for round := 0; ; round++ {
			orders := tables.Plan(true)
			if len(orders) == 0 {
				return locked
			}
			if round > 10_000 {
				t.Fatalf("no end of orders: %d of ranges to lock", locked)
			}
			for _, o := range orders {
				switch {
				case away[o.To]:
				case o.Kind == Lock:
					locked += len(o.Ranges)
					tables.Released(o.To, o.App, o.Type, o.Version, o.Ranges)
				case o.Kind == Update:
					tables.Updated(o.To, o.App, o.Type, o.Version)
				}
			}
		}
	}
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
}
