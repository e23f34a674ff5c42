package assignment

import (
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// View is the table of some types. It never changes.
type View struct {
	Policy string
	// handing: the policy changes, and the sticky actors of the types are handed over.
	HandingOver bool
	// Group is the group that the types are placed with; nil: this is their table.
	Group *placement.Together
	// Competes: each of the types has a table of its partitions beside this one, or the table
	// of the group is in force for them.
	Competes bool
	// Clean: nothing of holders from before the group's table was in force is under way.
	Clean bool
	// static has the names of the hosts of a static type, in the order of its formula.
	Static []string
	heldRanges
	// shared: some range has readers.
	Shared bool
}

// Holds says what this host holds of an actor by the table.
func (t *View) Holds(self actor.HostID, key actor.Key) actor.Hold {
	if r := t.Find(0); t.single() && len(r.among) < 2 {
		return r.held // alone: the point does not matter
	}
	return t.HoldsAt(self, placement.PointOf(key))
}

// HoldsAt is holds for a point.
func (t *View) HoldsAt(self actor.HostID, p placement.Point) actor.Hold {
	r := t.Find(p)
	if r.held == actor.NotHeld || len(r.among) > 1 && placement.OwnerAmong(p, r.among) != self {
		return actor.NotHeld
	}
	return r.held
}

// StaticHost returns the name of the host that an actor of a static type belongs to; of other
// types, nothing.
func (t *View) StaticHost(key actor.Key) string {
	if len(t.Static) == 0 {
		return ""
	}
	return t.Static[placement.Static(placement.PointOf(key), len(t.Static))]
}

// Partition is a partition of a checkout type as a host knows it.
type Partition struct {
	Holder placement.HostID // empty: nobody is known
	Held   actor.Hold       // what this host holds of it
}

// NewPartitionsView returns the table of a checkout type. It has one range without a holder if
// nothing is known of the partitions.
func NewPartitionsView(policy string, partitions []Partition) *View {
	if len(partitions) == 0 {
		return &View{Policy: policy, heldRanges: newHeldRanges([]HeldRange{{}})}
	}
	ranges := make([]HeldRange, len(partitions))
	for i, at := range placement.StaticTable(make([]placement.HostID, len(partitions))).Ranges() {
		r, p := &ranges[i], partitions[i]
		r.First, r.held = at.First, p.Held
		if p.Holder != "" {
			r.Hosts = []placement.HostID{p.Holder}
		}
		if p.Held != actor.NotHeld {
			r.among = r.Hosts
		}
	}
	return &View{Policy: policy, heldRanges: newHeldRanges(ranges)}
}

// Owner returns the host that the table names for a point; empty if it moves or nobody
// has it.
func (t *View) Owner(p placement.Point) actor.HostID {
	switch r := t.Find(p); len(r.Hosts) {
	case 0:
		return ""
	case 1:
		return r.Hosts[0]
	default:
		return placement.OwnerAmong(p, r.Hosts)
	}
}
