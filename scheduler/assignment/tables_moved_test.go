package assignment

import (
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestMovedRangesOutliveTheirLeader: what a leader has moved because of heat stays where it is
// under the next one, which learns of it from claims, and moves nothing back.
func TestMovedRangesOutliveTheirLeader(t *testing.T) {
	types := []protocol.Type{{App: "a", Name: "T", Placement: abi.PlacementRing, Generation: 1}}
	hosts := []placement.HostID{"one", "two"}
	settle := func(tables *Tables) int { return settled(t, tables, nil) }
	before := NewTables(placement.DefaultRanges)
	for _, id := range hosts {
		before.Begin(id, string(id), false)
		before.Reported(id, types)
		before.Claimed(id)
	}
	settle(before)
	table := before.types[protocol.TypeName{App: "a", Type: "T"}]
	at := slices.IndexFunc(table.ranges, func(r tableRange) bool { return slices.Equal(r.hosts, hosts[:1]) })
	hot := table.at(at, nil)
	before.Move("a", "T", []placement.Moved{{First: hot.First, Last: hot.Last, Host: "two"}})
	if n := settle(before); n == 0 || !slices.Equal(table.ranges[at].hosts, hosts[1:]) {
		t.Fatalf("%d locks to move a range, which is at %v", n, table.ranges[at].hosts)
	}

	after := NewTables(placement.DefaultRanges)
	for _, id := range hosts {
		after.Begin(id, string(id), false)
		after.Reported(id, types)
		for i := range table.ranges {
			if r := &table.ranges[i]; slices.Contains(r.holds, id) {
				after.Claim(id, []protocol.TypeName{{App: "a", Type: "T"}}, abi.PlacementRing, []protocol.Range{table.at(i, r.hosts)})
			}
		}
		after.Claimed(id)
	}
	if n := settle(after); n != 0 {
		t.Errorf("the next leader locked %d ranges", n)
	}
	for _, r := range after.types[protocol.TypeName{App: "a", Type: "T"}].ranges {
		if r.first == hot.First && (!r.moved || !slices.Equal(r.holds, hosts[1:])) {
			t.Errorf("what was moved is at %v now, moved %t", r.holds, r.moved)
		}
	}
}
