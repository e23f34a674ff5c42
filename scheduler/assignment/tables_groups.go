package assignment

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// Types that are alike share one table in [Tables]: the same hosts report them alike and hold
// them. Orders call a table's types a group. A table is divided when its types begin to
// differ, and two tables are united once they are at rest and equal.

// role is what the reports of all hosts say of a type.
type role struct {
	// policy by which hosts run the type: where they differ, that of the newest deployment;
	// empty if none knows it.
	policy string
	// reports are the IDs of those that have the type.
	reports string
	// readable: the type may have readers, since all hosts that can run it know what these
	// are, and its policy.
	readable bool
	// behind: of a type whose policy is not known yet: a host has not reported the newest
	// deployment, and that is not the first one.
	behind bool
}

// roleOf returns the role of a type.
func (t *Tables) roleOf(name protocol.TypeName) role {
	var (
		newest  protocol.Type
		out     role
		reports []byte
	)
	for _, r := range t.reports {
		typ, runs := r.types[name]
		if !runs {
			continue
		}
		if len(reports) == 0 || typ.Generation > newest.Generation || typ.Generation == newest.Generation && typ.Placement > newest.Placement {
			newest = typ
		}
		reports = binary.AppendUvarint(reports, r.id)
	}
	out.policy, out.reports = newest.Placement, string(reports)
	if table := t.types[name]; table != nil && table.policy == "" && newest.Generation > 1 {
		out.behind = slices.ContainsFunc(t.reports, func(r *report) bool { return r.types[name].Generation < newest.Generation })
	}
	if placement.RingHosts(out.policy) > 1 {
		out.readable = !slices.ContainsFunc(t.reports, func(r *report) bool {
			typ, runs := r.types[name]
			return runs && (!typ.Readers || typ.Placement != out.policy)
		})
	}
	return out
}

// add takes a table in, for types that have none.
func (t *Tables) add(table *rangeTable, types []protocol.TypeName) {
	if len(types) == 0 {
		return
	}
	t.groups++
	table.group, table.types = t.groups, types
	t.tables[table.group] = table
	for _, name := range types {
		t.types[name] = table
	}
	t.touch(table)
	if t.granting {
		t.broadcast(protocol.Order{Kind: protocol.Form}, table)
	}
}

// divideAll gives types of different roles tables of their own.
func (t *Tables) divideAll() {
	t.divides = false
	for _, table := range t.sorted() {
		for r, part := range divide(t, table, t.roleOf) {
			if part.role != r {
				part.role = r
				t.touch(part)
			}
		}
	}
}

// divide splits a table by a property of its types, and returns all parts. The part with
// the most types stays the table that it was.
func divide[K comparable](t *Tables, table *rangeTable, by func(protocol.TypeName) K) iter.Seq2[K, *rangeTable] {
	parts, order, most := map[K][]protocol.TypeName{}, []K{}, 0
	for _, name := range table.types {
		k := by(name)
		if parts[k] == nil {
			order = append(order, k)
		}
		parts[k] = append(parts[k], name)
	}
	for i, k := range order {
		if len(parts[k]) > len(parts[order[most]]) {
			most = i
		}
	}
	return func(yield func(K, *rangeTable) bool) {
		for i, k := range order {
			if i != most && !yield(k, t.split(table, parts[k])) {
				return
			}
		}
		yield(order[most], table)
	}
}

// split gives some types of a table a table of their own, whose state is that of the old one.
func (t *Tables) split(table *rangeTable, types []protocol.TypeName) *rangeTable {
	part := *table
	part.ranges, part.open = slices.Clone(table.ranges), slices.Clone(table.open)
	t.add(&part, types)
	table.types = slices.DeleteFunc(slices.Clone(table.types), func(name protocol.TypeName) bool { return t.types[name] == &part })
	for _, order := range t.awaited {
		if slices.Contains(order.tables, table) {
			order.tables = append(order.tables, &part)
		}
	}
	return &part
}

// unite makes one of a table and another one, if both are at rest and the same but for what
// is clean: that is what is clean in both.
func (t *Tables) unite(table *rangeTable) {
	if t.tables[table.group] != table || !table.isStable() {
		return
	}
	for _, other := range t.sorted() {
		if other == table || other.role != table.role || !other.isStable() || !table.same(other) {
			continue
		}
		into, from := table, other
		if len(from.types) > len(into.types) {
			into, from = from, into
		}
		t.remove(from)
		delete(t.dirty, from)
		for i := range into.ranges {
			into.ranges[i].clean = into.ranges[i].clean && from.ranges[i].clean
		}
		into.types = slices.Concat(into.types, from.types)
		for _, name := range from.types {
			t.types[name] = into
		}
		for _, id := range t.connected() {
			t.order(protocol.Order{To: id, Kind: protocol.Form}, into)
			t.orders[len(t.orders)-1].Types = from.types
		}
		return
	}
}
