package assignment

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// orderTraffic is what a change makes the leader send.
type orderTraffic struct {
	messages, ranges, bytes int
}

// settleOrders performs orders as hosts do until there are no more, and returns what was
// sent by kind of order.
func settleOrders(tb testing.TB, tables *Tables) map[protocol.OrderKind]orderTraffic {
	tb.Helper()
	sent := map[protocol.OrderKind]orderTraffic{}
	for orders := tables.Plan(true); len(orders) > 0; orders = tables.Plan(true) {
		for _, o := range orders {
			traffic := sent[o.Kind]
			traffic.messages++
			traffic.ranges += len(o.Ranges)
			traffic.bytes += proto.Size(protocol.ToOrder(o))
			sent[o.Kind] = traffic
			switch o.Kind {
			case protocol.Lock:
				tables.Released(o.To, o.Version, o.Ranges)
			case protocol.Update:
				for _, r := range o.Ranges {
					if !slices.Contains(r.Hosts, o.To) {
						tb.Errorf("%s is told to hold what is for %v", o.To, r.Hosts)
					}
				}
				tables.Updated(o.To, o.Version)
			case protocol.Unlock, protocol.Remove:
			}
		}
	}
	return sent
}

// aJoin is what a leader sends when one more host joins so many, all of which can run so
// many types.
func aJoin(tb testing.TB, hosts, types int) map[protocol.OrderKind]orderTraffic {
	tb.Helper()
	tables := NewTables(placement.DefaultRanges)
	join := func(i int) {
		id := placement.HostID(fmt.Sprintf("%026d", i)) // as long as IDs are
		var all []protocol.Type
		for n := range types {
			all = append(all, protocol.Type{App: "a", Name: fmt.Sprintf("Type%02d", n), Placement: abi.PlacementRing, Generation: 1})
		}
		tables.Begin(id, fmt.Sprint("host-", i), false)
		tables.Reported(id, all)
		tables.Claimed(id)
	}
	for i := range hosts {
		join(i)
	}
	settleOrders(tb, tables)
	join(hosts)
	return settleOrders(tb, tables)
}

// TestOrdersOfAJoin: when a host joins, an UPDATE has what its receiver gets and nothing
// else, and LOCK and UNLOCK name what moves, once to each host for all types; only the
// host that joins gets the table in full.
func TestOrdersOfAJoin(t *testing.T) {
	const hosts, types = 12, 4
	sent := aJoin(t, hosts, types)
	moved := sent[protocol.Update].ranges
	if moved == 0 || moved > placement.DefaultRanges/2 {
		t.Errorf("%d ranges moved", moved)
	}
	if got, want := sent[protocol.Lock].ranges, moved*(hosts+1); got != want {
		t.Errorf("LOCKs have %d ranges, want %d", got, want)
	}
	if got, want := sent[protocol.Unlock].ranges, placement.DefaultRanges+moved*(hosts+1); got != want {
		t.Errorf("UNLOCKs have %d ranges, want %d", got, want)
	}
}

// BenchmarkOrdersOfAJoin is the size of what the leader of a hundred hosts sends them when
// another one joins.
func BenchmarkOrdersOfAJoin(b *testing.B) {
	var sent map[protocol.OrderKind]orderTraffic
	for b.Loop() {
		sent = aJoin(b, 100, 50)
	}
	for kind, name := range map[protocol.OrderKind]string{protocol.Lock: "lock", protocol.Update: "update", protocol.Unlock: "unlock"} {
		b.ReportMetric(float64(sent[kind].bytes), name+"-B")
		b.ReportMetric(float64(sent[kind].messages), name+"s")
	}
}
