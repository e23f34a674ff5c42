package assignment

import (
	"slices"

	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// Types that have come to be alike share one table at a host, as they do at the leader: see
// Groups of types in protocol.md. That two types share a table changes nothing of
// what is known of either, and where they differ each has its own, in the same group.

// remove takes a table out, with its types.
func (h *Holdings) remove(t *heldTable) {
	last := h.tables[len(h.tables)-1]
	h.tables[t.slot], last.slot = last, t.slot
	h.tables = h.tables[:len(h.tables)-1]
	for _, name := range t.types.names {
		delete(h.types, name)
	}
	h.leaveGroup(t)
	h.remapped = true
}

// separate returns the tables of some types, which are of no others: where they are, those
// types get a copy of their own, in the same group.
func (h *Holdings) separate(names []protocol.TypeName) (tables []*heldTable) {
	by := map[*heldTable][]protocol.TypeName{}
	var order []*heldTable
	for _, name := range names {
		t := h.types[name]
		if by[t] == nil {
			order = append(order, t)
		}
		by[t] = append(by[t], name)
	}
	for _, t := range order {
		switch part := by[t]; {
		case t == nil:
			tables = append(tables, h.add(&heldTable{heldRanges: newHeldRanges([]HeldRange{{}})}, part))
		case len(part) == len(t.types.names):
			tables = append(tables, t)
		default:
			own := newTypeSet(part)
			t.types = newTypeSet(slices.DeleteFunc(slices.Clone(t.types.names), func(name protocol.TypeName) bool { _, is := own.is[name]; return is }))
			separate := *t
			tables = append(tables, h.add(&separate, part))
			if t.group != 0 {
				h.groups[t.group] = append(h.groups[t.group], &separate)
			}
		}
	}
	return tables
}

// of returns the tables of some types, which are of no others.
func (h *Holdings) of(types *typeSet) []*heldTable {
	if t := h.types[types.names[0]]; t != nil && t.types == types {
		return []*heldTable{t}
	}
	return h.separate(slices.DeleteFunc(slices.Clone(types.names), func(name protocol.TypeName) bool { return h.types[name] == nil }))
}

// form puts types into a group.
func (h *Holdings) form(group uint64, names []protocol.TypeName, now clock.Instant) {
	for _, t := range h.separate(names) {
		h.leaveGroup(t)
		t.group = group
		h.groups[group] = append(h.groups[group], t)
	}
	h.unite(group, now)
}

func (h *Holdings) leaveGroup(t *heldTable) {
	if t.group == 0 {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(h.groups[t.group]), func(o *heldTable) bool { return o == t })
	if h.groups[t.group] = rest; len(rest) == 0 {
		delete(h.groups, t.group)
	}
	t.group = 0
}

// disband ends a group.
func (h *Holdings) disband(group uint64) {
	for _, t := range h.groups[group] {
		t.group = 0
	}
	delete(h.groups, group)
}

// unite makes one of the tables of a group that are alike. What one of them holds as clean
// and the other does not is then not.
func (h *Holdings) unite(group uint64, now clock.Instant) {
	tables := h.groups[group]
	if group == 0 || len(tables) < 2 {
		return
	}
	for _, t := range slices.Clone(tables[1:]) {
		first := h.groups[group][0]
		if t.policy != first.policy || t.handing || first.handing || t.competes != first.competes || t.resumes != first.resumes {
			continue
		}
		ranges, same := first.united(t.heldRanges, now)
		if !same {
			continue
		}
		names := slices.Concat(first.types.names, t.types.names)
		h.remove(t)
		first.types, first.heldRanges, first.view = newTypeSet(names), ranges, nil
		first.settled, first.clean = max(first.settled, t.settled), first.clean && t.clean
		for _, name := range names {
			h.types[name] = first
		}
	}
}
