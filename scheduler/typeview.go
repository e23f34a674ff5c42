package scheduler

import (
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// typeView is the table of some types. It never changes.
type typeView struct {
	policy string
	// handing: the policy changes, and the sticky actors of the types are handed over.
	handing bool
	// competes: each of the types has a table of its partitions beside this one.
	competes bool
	// static has the names of the hosts of a static type, in the order of its formula.
	static []string
	heldRanges
	// shared: some range has readers.
	shared bool
}

// holds says what this host holds of an actor by the table.
func (t *typeView) holds(self actor.HostID, key actor.Key) actor.Hold {
	if r := t.find(0); t.single() && len(r.among) < 2 {
		return r.held // alone: the point does not matter
	}
	return t.holdsAt(self, placement.PointOf(key))
}

// holdsAt is holds for a point.
func (t *typeView) holdsAt(self actor.HostID, p placement.Point) actor.Hold {
	r := t.find(p)
	if r.held == actor.NotHeld || len(r.among) > 1 && placement.OwnerAmong(p, r.among) != self {
		return actor.NotHeld
	}
	return r.held
}

// away returns the name of the host that an actor of a static type belongs to if it is
// not there; otherwise, and of other types, nothing.
func (t *typeView) away(v *view, key actor.Key) string {
	if len(t.static) == 0 {
		return ""
	}
	if name := t.static[placement.Static(placement.PointOf(key), len(t.static))]; !v.there(name) {
		return name
	}
	return ""
}

// owner returns the host that the table names for a point; empty if it moves or nobody
// has it.
func (t *typeView) owner(p placement.Point) actor.HostID {
	switch r := t.find(p); len(r.hosts) {
	case 0:
		return ""
	case 1:
		return r.hosts[0]
	default:
		return placement.OwnerAmong(p, r.hosts)
	}
}
