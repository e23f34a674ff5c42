package assignment

import (
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// Types that are alike share one table in [Tables]: the same hosts report them alike and hold
// them. Orders call a table's types a group. A table is divided when its types begin to
// differ, and two tables are united once they are at rest and equal.

// report is what some hosts can run.
type report struct {
	id    uint64 // reports that are there together have different ones
	hosts int    // that have it
	types map[protocol.TypeName]protocol.Type
}

// says reports whether a host that has the report can run these types.
func (r *report) says(types []protocol.Type) bool {
	if len(types) != len(r.types) {
		return false
	}
	return !slices.ContainsFunc(types, func(t protocol.Type) bool { return r.types[t.TypeName()] != t })
}

// without removes one host from the report, and the report from reports with its last host.
func (r *report) without(reports []*report) []*report {
	if r.hosts--; r.hosts > 0 {
		return reports
	}
	return slices.DeleteFunc(reports, func(o *report) bool { return o == r })
}

// reports notes that the host can run these types, in the place of what it reported before,
// and returns the reports that there are then, in the order of their IDs.
func (h *tableHost) reports(reports []*report, types []protocol.Type) []*report {
	if h.report != nil {
		reports = h.report.without(reports)
	}
	i := slices.IndexFunc(reports, func(r *report) bool { return r.says(types) })
	if i < 0 {
		r := &report{id: 1, types: make(map[protocol.TypeName]protocol.Type, len(types))}
		for _, typ := range types {
			r.types[typ.TypeName()] = typ
		}
		if n := len(reports); n > 0 {
			r.id = reports[n-1].id + 1
		}
		i, reports = len(reports), append(reports, r)
	}
	h.report = reports[i]
	h.report.hosts++
	return reports
}

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

// hostSet is the hosts that a table is computed from.
type hostSet struct {
	serving []placement.HostID // that can run its types, and do not leave; in order
	there   []placement.HostID // those of them that are connected
}

// set returns the hosts that have one of some reports.
func (t *Tables) set(reports string) *hostSet {
	if set := t.sets[reports]; set != nil {
		return set
	}
	has := map[uint64]bool{}
	for rest := []byte(reports); len(rest) > 0; {
		id, n := binary.Uvarint(rest)
		has[id], rest = true, rest[n:]
	}
	set := &hostSet{}
	for id, h := range t.hosts {
		if has[h.report.id] && !h.draining && !h.leadsOnly {
			set.serving = append(set.serving, id)
		}
	}
	slices.Sort(set.serving)
	set.there = slices.DeleteFunc(slices.Clone(set.serving), func(id placement.HostID) bool { return !t.hosts[id].connected })
	t.sets[reports] = set
	return set
}

// hostsChanged notes that a host has come, gone, or is another one than before.
func (t *Tables) hostsChanged() { t.sets, t.all, t.weighed = map[string]*hostSet{}, nil, nil }

// Weights returns the weights of the hosts that may be given actors.
func (t *Tables) Weights() map[placement.HostID]placement.Weight {
	if t.weighed == nil {
		offers := map[placement.HostID]placement.Resources{}
		for id, h := range t.hosts {
			if !h.draining && !h.leadsOnly {
				offers[id] = h.resources
			}
		}
		t.weighed = placement.Weights(offers)
	}
	return t.weighed
}

// connected returns the hosts that get orders, in order.
func (t *Tables) connected() []placement.HostID {
	if t.all == nil {
		t.all = []placement.HostID{}
		for id, h := range t.hosts {
			if h.connected {
				t.all = append(t.all, id)
			}
		}
		slices.Sort(t.all)
	}
	return t.all
}

// touch notes that anything of a table may have to be done.
func (t *Tables) touch(table *rangeTable) {
	table.full = true
	t.dirty[table] = struct{}{}
}

func (t *Tables) touchAll() {
	for _, table := range t.tables {
		t.touch(table)
	}
}

func compareTables(a, b *rangeTable) int { return cmp.Compare(a.group, b.group) }

// sorted returns the tables in the order of their groups.
func (t *Tables) sorted() []*rangeTable {
	return slices.SortedFunc(maps.Values(t.tables), compareTables)
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

// remove takes a table out, with its types.
func (t *Tables) remove(table *rangeTable) {
	delete(t.tables, table.group)
	for _, name := range table.types {
		delete(t.types, name)
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
	if t.tables[table.group] != table || !table.rests() {
		return
	}
	for _, other := range t.sorted() {
		if other == table || other.role != table.role || !other.rests() || !table.same(other) {
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

// rests reports whether nothing of a table moves or should, and nothing of it was moved
// because of its heat.
func (t *rangeTable) rests() bool {
	return !t.full && len(t.open) == 0 && !t.switching && t.policy == t.role.policy && len(t.moved) == 0
}

// same reports whether two tables that rest differ by what is clean alone.
func (t *rangeTable) same(o *rangeTable) bool {
	return slices.EqualFunc(t.ranges, o.ranges, func(a, b tableRange) bool {
		return a.first == b.first && a.moved == b.moved && slices.Equal(a.hosts, b.hosts) && slices.Equal(a.holds, b.holds) && slices.Equal(a.readers, b.readers)
	})
}

// alikeClaims returns one for all claims that are the same, by each of them.
func alikeClaims(claims map[protocol.TypeName]*claim) map[*claim]*claim {
	alike, byHash := map[*claim]*claim{nil: nil}, map[uint64][]*claim{}
	for _, c := range claims {
		if _, known := alike[c]; known {
			continue
		}
		hash := c.hash()
		i := slices.IndexFunc(byHash[hash], c.same)
		if i < 0 {
			i, byHash[hash] = len(byHash[hash]), append(byHash[hash], c)
		}
		alike[c] = byHash[hash][i]
	}
	return alike
}

func (c *claim) hash() uint64 {
	h := xxhash.New()
	_, _ = h.WriteString(c.policy)
	var buf []byte
	for _, r := range c.ranges {
		buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(buf[:0], uint64(r.First)), uint64(r.Last))
		_, _ = h.Write(buf)
	}
	return h.Sum64()
}

func (c *claim) same(o *claim) bool {
	return c.policy == o.policy && slices.EqualFunc(c.ranges, o.ranges, func(a, b protocol.Range) bool {
		return a.First == b.First && a.Last == b.Last && a.Clean == b.Clean && a.Moved == b.Moved && slices.Equal(a.Hosts, b.Hosts)
	})
}
