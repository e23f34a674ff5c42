package assignment

import "github.com/greenroom-run/greenroom/scheduler/protocol"

// outgoing is the orders that are to be sent, and those that hosts answer.
type outgoing struct {
	orders  []protocol.Order
	version uint64              // of the newest order
	awaited map[uint64]*awaited // the orders that hosts have not all answered, by version
}

// awaited is an order that hosts answer.
type awaited struct {
	// version is that of the order. One that is repeated in another session has a version of
	// its own, since its types may have been divided: an answer is about no more than the
	// order that it answers.
	version uint64
	tables  []*rangeTable // of the types that it was about
	ranges  []protocol.Range
}

// answered has an answer taken by the tables and ranges that the order was about, each of
// which says whether it waits for another one. They get the version that they know.
func (q *outgoing) answered(version uint64, tableWaits func(*rangeTable, uint64) bool, rangeWaits func(*rangeTable, int, uint64) bool) {
	order := q.awaited[version]
	if order == nil {
		return
	}
	waits := false
	for _, table := range order.tables {
		waits = tableWaits(table, order.version) || waits
		for _, ordered := range order.ranges {
			for i := table.index(ordered.First); i < len(table.ranges) && table.ranges[i].first <= ordered.Last; i++ {
				waits = rangeWaits(table, i, order.version) || waits
			}
		}
	}
	if !waits {
		delete(q.awaited, version)
	}
}

// order adds an order about a table, at its present version.
func (q *outgoing) order(o protocol.Order, table *rangeTable) {
	o.Group, o.Types, o.Version, o.Policy = table.group, table.types, table.version, table.policy
	q.orders = append(q.orders, o)
}

// renumber gives a table's orders from now on a version of their own.
func (q *outgoing) renumber(table *rangeTable) {
	q.version++
	table.version = q.version
}

// await notes that hosts answer the table's newest order.
func (q *outgoing) await(table *rangeTable, ranges []protocol.Range) {
	q.awaited[table.version] = &awaited{table.version, []*rangeTable{table}, ranges}
}
