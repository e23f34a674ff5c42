package scheduler

import (
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// view is what this process knows of the cluster, for those who ask with each call. It
// is never changed, only replaced.
type view struct {
	self    actor.HostID
	types   map[typeName]*typeView
	members map[actor.HostID]actor.Host
	// drains has those of the others that are draining; draining: this host is.
	drains   map[actor.HostID]bool
	draining bool
	// told: what is in no table is held by nobody.
	told bool
	// changed is closed when another view is in force.
	changed chan struct{}
}

// here is the answer for a call that is run here.
func (v *view) here(t *typeView, key actor.Key) placement.Where {
	if len(v.members) > 1 {
		t.counts.count(key)
	}
	return placement.Where{Here: true}
}

// readers returns the range of an actor if it may have readers; otherwise nil.
func (v *view) readers(key actor.Key) *rangeView {
	t := v.types[typeName{key.App, key.Type}]
	if t == nil || !t.shared {
		return nil
	}
	return t.find(placement.PointOf(key))
}

// reads reports whether this host is a reader of a range.
func (v *view) reads(r *rangeView) bool { return r.reads && !v.draining }

// typeView is the table of one type.
type typeView struct {
	policy string
	// handing: the policy changes, and the sticky actors of the type are handed over.
	handing bool
	// static has the names of the hosts of a static type, in the order of its formula.
	static []string
	// ranges are in order and cover the hash space.
	ranges []rangeView
	// shared: some range has readers.
	shared bool
	// counts has the calls that are answered here; nil where nobody asks.
	counts *callCounts
}

// rangeView is a range of the table as this host sees it.
type rangeView struct {
	first placement.Point
	hosts []actor.HostID // who shares it; empty: it moves, or nobody has it
	// held says what this host holds of its share.
	held actor.Hold
	// formula has the hosts among whom the share is held, which are not those that
	// calls are sent to while the range moves.
	formula []actor.HostID
	moved   bool // by its heat
	// readers may answer read-only methods of its actors; reads: this host is one.
	readers []actor.HostID
	reads   bool
}

// find returns the range of a point.
func (t *typeView) find(p placement.Point) *rangeView {
	if len(t.ranges) == 1 {
		return &t.ranges[0]
	}
	i, found := slices.BinarySearchFunc(t.ranges, p, func(r rangeView, p placement.Point) int {
		switch {
		case r.first < p:
			return -1
		case r.first > p:
			return 1
		default:
			return 0
		}
	})
	if !found {
		i--
	}
	return &t.ranges[i]
}

// holds says what this host holds of an actor by the table.
func (t *typeView) holds(self actor.HostID, key actor.Key) actor.Hold {
	if len(t.ranges) == 1 && len(t.ranges[0].formula) < 2 {
		return t.ranges[0].held // alone: the point does not matter
	}
	return t.holdsAt(self, placement.PointOf(key))
}

// holdsAt is holds for a point.
func (t *typeView) holdsAt(self actor.HostID, p placement.Point) actor.Hold {
	r := t.find(p)
	if r.held == actor.NotHeld || len(r.formula) > 1 && placement.OwnerAmong(p, r.formula) != self {
		return actor.NotHeld
	}
	return r.held
}

// there reports whether a host of a name can run actors, or is about to: it is a member,
// and does not drain.
func (v *view) there(name string) bool {
	for id, h := range v.members {
		draining := v.drains[id] || id == v.self && v.draining
		if h.Name == name && !draining && slices.Contains(h.Roles, RoleHost) {
			return true
		}
	}
	return false
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
