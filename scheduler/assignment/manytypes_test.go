//go:build unix

package assignment

import (
	"flag"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/scheduler/protocol"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// manyTypes is a leader and hosts that can all run the same types, without a network: orders
// and answers are encoded and decoded as on the wire.
type manyTypes struct {
	tb     testing.TB
	types  []protocol.Type
	tables *Tables
	hosts  map[placement.HostID]*Holdings
	spent  manyTypesCost
}

// processorTime is what this process has had.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// manyTypesCost is what a change took of processor time, and what was sent.
type manyTypesCost struct {
	leader, hosts                  time.Duration
	busiest                        time.Duration // the hosts' share of the one that took longest
	messages, orders, bytes, built int           // built: ranges that hosts made anew
}

func newManyTypes(tb testing.TB, hosts, types int) *manyTypes {
	tb.Helper()
	m := &manyTypes{tb: tb, tables: NewTables(placement.DefaultRanges), hosts: map[placement.HostID]*Holdings{}}
	for i := range types {
		m.types = append(m.types, protocol.Type{App: fmt.Sprint("app", i/10), Name: fmt.Sprint("Type", i%10), Placement: "ring", Generation: 1, Readers: true})
	}
	for i := range hosts {
		m.begin(i)
	}
	m.settle()
	return m
}

func manyTypesHost(i int) placement.HostID { return placement.HostID(fmt.Sprintf("%026d", i)) } // as long as IDs are

func (m *manyTypes) begin(i int) {
	id := manyTypesHost(i)
	m.hosts[id] = NewHoldings(id)
	m.hosts[id].Connect(m.types)
	m.leads(func() {
		m.tables.Begin(id, fmt.Sprint("host-", i), false)
		m.tables.Reported(id, m.types)
		m.tables.Claimed(id)
	})
}

// leads does something at the leader.
func (m *manyTypes) leads(do func()) {
	began := processorTime()
	do()
	m.spent.leader += processorTime() - began
}

// settle performs orders until there are no more.
func (m *manyTypes) settle() {
	took := map[placement.HostID]time.Duration{}
	for {
		sent := map[placement.HostID][][]byte{}
		m.leads(func() {
			byHost := map[placement.HostID][]protocol.Order{}
			for _, o := range m.tables.Plan(true) {
				byHost[o.To] = append(byHost[o.To], o)
				m.spent.orders++
			}
			for id, orders := range byHost {
				for _, message := range protocol.ToOrders(orders) {
					sent[id] = append(sent[id], m.encode(message))
				}
			}
		})
		if len(sent) == 0 {
			break
		}
		for id, messages := range sent {
			if m.hosts[id] == nil {
				continue // it has crashed
			}
			began := processorTime()
			answers := m.obey(m.hosts[id], messages)
			took[id] += processorTime() - began
			m.leads(func() { m.answered(id, answers) })
		}
	}
	for _, d := range took {
		m.spent.hosts += d
		m.spent.busiest = max(m.spent.busiest, d)
	}
}

func (m *manyTypes) encode(message proto.Message) []byte {
	encoded, err := proto.Marshal(message)
	if err != nil {
		m.tb.Fatal(err)
	}
	m.spent.messages++
	m.spent.bytes += len(encoded)
	return encoded
}

// obey is what a host does about messages.
func (m *manyTypes) obey(h *Holdings, messages [][]byte) (answers [][]byte) {
	for _, encoded := range messages {
		var message greenroomv1.ReportActorTypesResponse
		if err := proto.Unmarshal(encoded, &message); err != nil {
			m.tb.Fatal(err)
		}
		before := map[*rangeChunk]bool{}
		for _, t := range h.tables {
			for _, c := range t.chunks {
				before[c] = true
			}
		}
		for _, on := range message.GetOrders().GetOrders() {
			o := protocol.FromOrder(on)
			moving := h.Order(o, 1)
			switch o.Kind {
			case protocol.Lock:
				moving = h.HandedOver(moving, 1)
				answers = append(answers, m.encode(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Released{Released: protocol.ToReleased(o, moving.Ranges)}}))
			case protocol.Update:
				answers = append(answers, m.encode(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Updated{Updated: protocol.ToUpdated(o)}}))
			case protocol.Unlock, protocol.Remove, protocol.Form:
			}
		}
		h.Views()
		for _, t := range h.tables {
			for _, c := range t.chunks {
				if !before[c] {
					m.spent.built += len(c.ranges)
				}
			}
		}
	}
	return answers
}

func (m *manyTypes) answered(id placement.HostID, answers [][]byte) {
	for _, encoded := range answers {
		var message greenroomv1.ReportActorTypesRequest
		if err := proto.Unmarshal(encoded, &message); err != nil {
			m.tb.Fatal(err)
		}
		if r := message.GetReleased(); r != nil {
			m.tables.Released(id, r.GetVersion(), protocol.FromRanges(r.GetRanges()))
		} else if u := message.GetUpdated(); u != nil {
			m.tables.Updated(id, u.GetVersion())
		}
	}
}

// cost returns what a change takes until everything has settled.
func (m *manyTypes) cost(change func()) manyTypesCost {
	m.spent = manyTypesCost{}
	change()
	m.settle()
	return m.spent
}

// join is that of a host that gets something: by the ring one of a thousand may get nothing.
func (m *manyTypes) join(i int) manyTypesCost {
	for ; ; i++ {
		if cost := m.cost(func() { m.begin(i) }); m.tables.Shares()[manyTypesHost(i)] > 0 {
			return cost
		}
	}
}

// changes are a join, a drain and a loss of a host of so many.
func (m *manyTypes) changes(hosts int) map[string]manyTypesCost {
	return map[string]manyTypesCost{
		"join":  m.join(hosts),
		"drain": m.cost(func() { m.leads(func() { m.tables.Drain(manyTypesHost(0)) }) }),
		"loss": m.cost(func() {
			id := manyTypesHost(1)
			delete(m.hosts, id)
			m.leads(func() { m.tables.Disconnected(id); m.tables.Cleared(id) })
		}),
	}
}

// TestManyTypesCostWhatOneDoes: a change of the hosts costs the orders of one type, however
// many types the hosts run, and a host rebuilds what changes of its table and not the rest.
func TestManyTypesCostWhatOneDoes(t *testing.T) {
	const hosts = 3
	one, many := newManyTypes(t, hosts, 1), newManyTypes(t, hosts, 300)
	of := many.changes(hosts)
	for change, cost := range one.changes(hosts) {
		if got := of[change]; got.orders != cost.orders || got.messages != cost.messages || got.built != cost.built {
			t.Errorf("%s: with one type %d orders in %d messages, by which hosts make %d ranges; with 300 types %d in %d, and %d", change, cost.orders, cost.messages, cost.built, got.orders, got.messages, got.built)
		}
		// Each order is about some ranges: of each a chunk is made anew, and what a small one is
		// next to.
		if most := cost.orders * 3 * maxTogether * chunkRanges / 4; change == "drain" && cost.built > most {
			t.Errorf("%s: by %d orders hosts make %d ranges, more than %d", change, cost.orders, cost.built, most)
		}
	}
	if n := len(many.tables.tables); n != 1 {
		t.Errorf("the leader has %d tables of types that are alike", n)
	}
	for id, h := range many.hosts {
		if len(h.tables) != 1 || len(h.types) != 300 {
			t.Errorf("%s has %d tables of %d types", id, len(h.tables), len(h.types))
		}
		if h.Holding() == (id == manyTypesHost(0)) || h.UnderWay() {
			t.Errorf("%s holds something: %t, under way: %t", id, h.Holding(), h.UnderWay())
		}
	}
}

var (
	costHosts = flag.Int("cost.hosts", 30, "how many hosts TestCostOfManyTypes has")
	costTypes = flag.Int("cost.types", 100, "how many types they run")
)

// TestCostOfManyTypes prints what a join, a drain and a loss of a host take; see
// docs/scheduler-model.md.
func TestCostOfManyTypes(t *testing.T) {
	m := newManyTypes(t, *costHosts, *costTypes)
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("%d hosts, %d types: %d MiB for the leader and all hosts", *costHosts, *costTypes, memory.HeapAlloc>>20)
	for change, cost := range m.changes(*costHosts) {
		t.Logf("%s: leader %v; all hosts %v, the busiest %v; %d orders, %d messages with answers, %d KiB", change, cost.leader.Round(time.Millisecond),
			cost.hosts.Round(time.Millisecond), cost.busiest.Round(100*time.Microsecond), cost.orders, cost.messages, cost.bytes>>10)
	}
}
