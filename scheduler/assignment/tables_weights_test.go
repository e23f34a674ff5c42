package assignment

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// placed is a type of an app with a policy, by its n-th deployment.
func placed(name, policy string, n uint64) protocol.Type {
	return protocol.Type{App: "a", Name: name, Placement: policy, Generation: n}
}

// processors is the resources of a host that has n processors, and 2 GiB for each of them.
func processors(n int) placement.Resources {
	return placement.Resources{Processors: n, Memory: int64(n) << 31}
}

// weighed is tables of a term, and what hosts answered them.
type weighed struct {
	*Tables
	at map[placement.Point]placement.HostID // the ranges of the sticky type
}

func newWeighed() *weighed {
	return &weighed{NewTables(64), map[placement.Point]placement.HostID{}}
}

// join begins a session of a host, which claims what it was given.
func (w *weighed) join(id placement.HostID, r placement.Resources) {
	w.Begin(id, string(id), false)
	w.Offers(id, r)
	w.Reported(id, []protocol.Type{placed("S", abi.PlacementSticky, 1)})
	var held []protocol.Range
	for _, first := range slices.Sorted(maps.Keys(w.at)) {
		if w.at[first] == id {
			held = append(held, protocol.Range{First: first, Last: first + 1<<58 - 1, Hosts: []placement.HostID{id}, Clean: true})
		}
	}
	w.Claim(id, []protocol.TypeName{{App: "a", Type: "S"}}, abi.PlacementSticky, held)
	w.Claimed(id)
}

// settle answers all orders, and returns how many ranges were locked.
func (w *weighed) settle() (locked int) {
	for orders := w.Plan(true); len(orders) > 0; orders = w.Plan(true) {
		for _, o := range orders {
			switch o.Kind {
			case protocol.Lock:
				for _, r := range o.Ranges {
					if w.at[r.First] == o.To {
						locked++
					}
				}
				w.Released(o.To, o.Version, o.Ranges)
			case protocol.Update:
				for _, r := range o.Ranges {
					w.at[r.First] = o.To
				}
				w.Updated(o.To, o.Version)
			case protocol.Unlock, protocol.Remove, protocol.Form:
			}
		}
	}
	return locked
}

// TestRejoinsWithItsWeight: a host that begins another session with what it had, or with
// little more, moves no range; nor does a leader change. With much more it gets more, and
// only what goes to it or from it by that moves; when it announces nothing it is a mean one.
func TestRejoinsWithItsWeight(t *testing.T) {
	w := newWeighed()
	hosts := []placement.HostID{"a", "b", "c"}
	for i, id := range hosts {
		w.join(id, processors(1<<i))
	}
	w.settle()
	ranges := func() map[placement.HostID]int {
		n := map[placement.HostID]int{}
		for _, id := range w.at {
			n[id]++
		}
		return n
	}
	before := ranges()
	if len(w.at) != 64 || before["a"] > before["b"] || before["b"] > before["c"] {
		t.Fatalf("ranges: %v", before)
	}
	w.Disconnected("c")
	w.settle()
	w.join("c", processors(4))
	if n := w.settle(); n > 0 {
		t.Errorf("%d ranges moved when a host came back as it was", n)
	}
	w.join("c", placement.Resources{Processors: 4, Memory: 4<<31 + 4<<27})
	if n := w.settle(); n > 0 {
		t.Errorf("%d ranges moved when a host came back with 6 %% more memory", n)
	}
	w.Tables = NewTables(64) // another leader
	for i, id := range hosts {
		w.join(id, processors(1<<i))
	}
	if n := w.settle(); n > 0 {
		t.Errorf("%d ranges moved under another leader", n)
	}
	w.join("a", processors(16))
	n, after := w.settle(), ranges()
	if n == 0 || after["a"] <= after["c"] || after["c"] <= after["b"] {
		t.Errorf("%d ranges moved when a host came back with more; ranges: %v", n, after)
	}
	w.join("b", placement.Resources{})
	if w.settle(); w.Weights()["b"] != placement.MeanWeight {
		t.Errorf("a host that announces nothing weighs %d", w.Weights()["b"])
	}
}

// TestWhoIsWeighed: the mean is of hosts that take actors: not of one that drains, nor of
// one that only leads.
func TestWhoIsWeighed(t *testing.T) {
	w := newWeighed()
	w.join("a", processors(4))
	w.join("b", processors(4))
	w.join("leader", processors(64))
	w.LeadsOnly("leader")
	w.join("leaves", processors(64))
	w.Drain("leaves")
	if got, want := w.Weights(), map[placement.HostID]placement.Weight{"a": 64, "b": 64}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestHeatByWeight: a bigger host that is called more is not hot for it.
func TestHeatByWeight(t *testing.T) {
	w, heat := newWeighed(), NewHeat(5*time.Second)
	w.join("a", processors(1))
	w.join("b", processors(4))
	w.settle()
	for _, id := range []placement.HostID{"a", "b"} {
		for range heatReports {
			heat.Reported(id, &greenroomv1.HeatReport{}, 0)
		}
	}
	loads, known := w.loads(heat, 0)
	if !known || len(loads) != 2 || loads[0].Weight != 27 || loads[1].Weight != 108 {
		t.Errorf("loads: %+v (%t)", loads, known)
	}
}
