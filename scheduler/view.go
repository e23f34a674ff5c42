package scheduler

import (
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
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
	tables     []*assignment.View
	partitions map[protocol.TypeName]*assignment.View
	members    map[actor.HostID]actor.Host
	// drains has those of the others that are draining; draining: this host is.
	drains   map[actor.HostID]bool
	draining bool
	// informed: what is in no table is held by nobody.
	informed bool
	// changed is closed when another view is in force.
	changed chan struct{}
}

// typeRef is where a type's table is, and what counts its calls.
type typeRef struct {
	table  int
	counts *callCounts
}

// of returns the table of a type and what counts its calls; nil if there is none.
func (v *view) of(app, typ string) (*assignment.View, *callCounts) {
	name := protocol.TypeName{App: app, Type: typ}
	ref, found := v.types[name]
	if !found {
		return nil, nil
	}
	t := v.tables[ref.table]
	if t.Competes {
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
func (v *view) readers(key actor.Key) *assignment.HeldRange {
	t, _ := v.of(key.App, key.Type)
	if t == nil || !t.Shared {
		return nil
	}
	return t.Find(placement.PointOf(key))
}

// reads reports whether this host is a reader of a range.
func (v *view) reads(r *assignment.HeldRange) bool {
	return !v.draining && slices.Contains(r.Readers, v.self)
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

// away returns the name of the host that an actor of a static type belongs to if it is not
// there; otherwise, and of other types, nothing.
func (v *view) away(t *assignment.View, key actor.Key) string {
	if name := t.StaticHost(key); name != "" && !v.there(name) {
		return name
	}
	return ""
}
