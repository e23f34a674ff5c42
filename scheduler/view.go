package scheduler

import (
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// view is what this process knows of the cluster, for those who ask with each call. It
// is never changed, only replaced.
type view struct {
	self actor.HostID
	// types says whose table is which of tables. Views share it as long as no type comes,
	// goes, or gets another table. partitions has the tables of types that compete.
	types      map[protocol.TypeName]typeRef
	tables     []*typeView
	partitions map[protocol.TypeName]*typeView
	members    map[actor.HostID]actor.Host
	// drains has those of the others that are draining; draining: this host is.
	drains   map[actor.HostID]bool
	draining bool
	// told: what is in no table is held by nobody.
	told bool
	// changed is closed when another view is in force.
	changed chan struct{}
}

// typeRef is where a type's table is, and what counts its calls.
type typeRef struct {
	table  int
	counts *callCounts
}

// of returns the table of a type and what counts its calls; nil if there is none.
func (v *view) of(app, typ string) (*typeView, *callCounts) {
	name := protocol.TypeName{App: app, Type: typ}
	ref, found := v.types[name]
	if !found {
		return nil, nil
	}
	t := v.tables[ref.table]
	if t.competes {
		return v.partitions[name], ref.counts
	}
	return t, ref.counts
}

// here is the answer for a call that is run here.
func (v *view) here(counts *callCounts, key actor.Key) placement.Where {
	if len(v.members) > 1 {
		counts.count(key)
	}
	return placement.Where{Here: true}
}

// readers returns the range of an actor if it may have readers; otherwise nil.
func (v *view) readers(key actor.Key) *heldRange {
	t, _ := v.of(key.App, key.Type)
	if t == nil || !t.shared {
		return nil
	}
	return t.find(placement.PointOf(key))
}

// reads reports whether this host is a reader of a range.
func (v *view) reads(r *heldRange) bool { return !v.draining && slices.Contains(r.readers, v.self) }

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

// there reports whether a host of a name can run actors, or is about to: it is a member,
// and does not drain.
func (v *view) there(name string) bool {
	for id, h := range v.members {
		draining := v.drains[id] || id == v.self && v.draining
		if h.Name == name && !draining && slices.Contains(h.Roles, protocol.RoleHost) {
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
