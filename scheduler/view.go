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

// of returns the table of a type and what counts its calls; nil if the type has no table.
func (v *view) of(app, typ string) (*assignment.View, *callCounts) {
	name := protocol.TypeName{App: app, Type: typ}
	ref, found := v.types[name]
	if !found {
		return nil, nil
	}
	t := v.tables[ref.table]
	if t.Competes && t.Group == nil {
		return v.partitions[name], ref.counts
	}
	return t, ref.counts
}

// nowhere is the table of types that nobody may run now.
var nowhere = assignment.NewPartitionsView("", nil)

// place is where an actor is looked for.
type place struct {
	table  *assignment.View // nil: none is known for its type
	counts *callCounts
	// key is the actor's in the table: its own, or that of its group key.
	key actor.Key
	// unfenced: it is of a type that had other holders not long ago, whatever the table says.
	unfenced bool
}

// locate returns where an actor is looked for. Everything that asks for the holder of an
// actor goes through it. The key is that of its place also while the table is not in force.
func (v *view) locate(key actor.Key) place {
	t, counts := v.of(key.App, key.Type)
	p := place{table: t, counts: counts, key: key}
	if t == nil || t.Group == nil {
		return p
	}
	p.key, p.table, p.unfenced = t.Group.Place(key), nowhere, !t.Clean
	if !t.Competes {
		return p
	}
	if of, counts := v.of(p.key.App, p.key.Type); of != nil {
		p.table, p.counts = of, counts
	}
	return p
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
	p := v.locate(key)
	if p.table == nil || !p.table.Shared {
		return nil
	}
	return p.table.Find(placement.PointOf(p.key))
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
