package assignment

import (
	"cmp"
	"maps"
	"slices"

	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// catalog is the tables of all types.
type catalog struct {
	types  map[protocol.TypeName]*rangeTable
	tables map[uint64]*rangeTable   // each once, by its group
	groups uint64                   // number of the newest group
	dirty  map[*rangeTable]struct{} // may have something to do
}

// touch notes that anything of a table may have to be done.
func (c *catalog) touch(table *rangeTable) {
	table.full = true
	c.dirty[table] = struct{}{}
}

func (c *catalog) touchAll() {
	for _, table := range c.tables {
		c.touch(table)
	}
}

// sorted returns the tables in the order of their groups.
func (c *catalog) sorted() []*rangeTable {
	return slices.SortedFunc(maps.Values(c.tables), compareTables)
}

// remove takes a table out, with its types.
func (c *catalog) remove(table *rangeTable) {
	delete(c.tables, table.group)
	for _, name := range table.types {
		delete(c.types, name)
	}
}

// Slow notes that what moves now has been moving for a while: others need not wait for it.
func (c *catalog) Slow() {
	for _, table := range c.tables {
		for i := range table.ranges {
			if r := &table.ranges[i]; r.phase != stable && !r.slow {
				r.slow = true
				c.dirty[table] = struct{}{}
			}
		}
	}
}

// Policy returns the policy of a type that is in force, and whether it is about to
// change, or to come into force; empty if there is no such type.
func (c *catalog) Policy(app, typ string) (policy string, switching bool) {
	table := c.types[protocol.TypeName{App: app, Type: typ}]
	if table == nil {
		return "", false
	}
	return table.policy, table.switching || table.policy == ""
}

// Table returns the table of a type; false if the type has no table.
func (c *catalog) Table(app, typ string) (TypeTable, bool) {
	table := c.types[protocol.TypeName{App: app, Type: typ}]
	if table == nil {
		return TypeTable{}, false
	}
	out := TypeTable{App: app, Type: typ, Policy: table.policy, Version: table.version}
	for i := range table.ranges {
		r := &table.ranges[i]
		at := table.at(i, r.holds)
		if !placement.Assigned(table.policy) {
			out.Ranges = append(out.Ranges, TableRange{Range: table.at(i, r.hosts)})
			continue
		}
		at.Clean = r.clean
		out.Ranges = append(out.Ranges, TableRange{Range: at, Moving: r.phase != stable || len(r.holds) < len(r.hosts) || len(r.hosts) == 0})
	}
	return out, true
}

// Shares returns how many ranges of held types each host holds.
func (c *catalog) Shares() map[placement.HostID]int {
	shares := map[placement.HostID]int{}
	for _, table := range c.tables {
		if !placement.Assigned(table.policy) {
			continue
		}
		for i := range table.ranges {
			for _, id := range table.ranges[i].holds {
				shares[id] += len(table.types)
			}
		}
	}
	return shares
}

func compareTables(a, b *rangeTable) int { return cmp.Compare(a.group, b.group) }

// TypeTable is what a leader knows of the table of a type.
type TypeTable struct {
	App, Type, Policy string
	Version           uint64
	Ranges            []TableRange
}

// TableRange is a range of a [TypeTable].
type TableRange struct {
	protocol.Range
	// Moving: it is between its holders, or not taken over yet.
	Moving bool
}
