package placement

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
)

func named(n int) []HostID {
	hosts := make([]HostID, n)
	for i := range hosts {
		hosts[i] = HostID(fmt.Sprintf("host-%02d", i))
	}
	return hosts
}

func ringTable(t *testing.T, r Ring, hosts []HostID) *Table {
	t.Helper()
	table, err := r.Table(hosts)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// share is how many ranges each host has.
func share(table *Table) map[HostID]int {
	n := map[HostID]int{}
	for _, r := range table.Ranges() {
		for _, h := range r.Hosts {
			n[h]++
		}
	}
	return n
}

// TestRingIsBalanced: no host has more than its bound, and none has nothing.
func TestRingIsBalanced(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 100} {
		shares := share(ringTable(t, Ring{Splits: EvenSplits(DefaultRanges)}, named(n)))
		most := int(math.Ceil(DefaultLoad * DefaultRanges / float64(n)))
		for _, h := range named(n) {
			if shares[h] == 0 || shares[h] > most {
				t.Errorf("of %d hosts %s has %d ranges; at most %d", n, h, shares[h], most)
			}
		}
	}
}

// TestRingMovesLittle: a host that leaves moves what it had and what the bound pushes
// on, together at most twice its share; the same backwards.
func TestRingMovesLittle(t *testing.T) {
	r := Ring{Splits: EvenSplits(DefaultRanges)}
	for _, n := range []int{3, 10, 50} {
		all := ringTable(t, r, named(n))
		for _, gone := range []int{0, n / 2, n - 1} {
			fewer := ringTable(t, r, slices.Delete(named(n), gone, gone+1))
			moved := 0
			for i, a := range all.Ranges() {
				if !slices.Equal(a.Hosts, fewer.Ranges()[i].Hosts) {
					moved++
				}
			}
			if bound := 2 * int(math.Ceil(DefaultLoad*DefaultRanges/float64(n))); moved > bound {
				t.Errorf("of %d hosts one left and %d of %d ranges moved; at most %d", n, moved, DefaultRanges, bound)
			}
		}
	}
}

func TestRingIsTheSameForAll(t *testing.T) {
	r := Ring{Splits: EvenSplits(64)}
	hosts := named(7)
	want := ringTable(t, r, hosts)
	slices.Reverse(hosts)
	if got := ringTable(t, r, hosts); !reflect.DeepEqual(got, want) {
		t.Error("the order of the hosts changes the table")
	}
	if table := ringTable(t, r, nil); table != nil {
		t.Errorf("without hosts: %v", table.Ranges())
	}
	if _, err := (Ring{Splits: EvenSplits(1), Load: 0.5}).Table(hosts); err == nil {
		t.Error("a load factor below 1 is accepted")
	}
}

// TestSplitKeepsItsPlace: splitting a range moves at most its second half.
func TestSplitKeepsItsPlace(t *testing.T) {
	r := Ring{Splits: EvenSplits(16), Load: 2}
	before := ringTable(t, r, named(4))
	p := Point(0x3456_0000_0000_0000)
	r.Splits = SplitRange(r.Splits, p)
	if len(r.Splits) != 17 {
		t.Fatalf("%d ranges", len(r.Splits))
	}
	for _, after := range ringTable(t, r, named(4)).Ranges() {
		if after.First != 0x3800_0000_0000_0000 && !slices.Equal(after.Hosts, before.Find(after.First).Hosts) {
			t.Errorf("the range at %#x moved", uint64(after.First))
		}
	}
}

func TestSplitRange(t *testing.T) {
	for name, tt := range map[string]struct {
		splits []Split
		at     Point
		want   []Split
	}{
		"whole":        {[]Split{{0, 0}}, 77, []Split{{0, 0}, {1 << 63, 0}}},
		"last, spread": {[]Split{{0, 0}, {1 << 63, 3}}, 1 << 63, []Split{{0, 0}, {1 << 63, 3}, {3 << 62, 3}}},
		"two points":   {[]Split{{0, 0}, {8, 2}, {10, 0}}, 9, []Split{{0, 0}, {8, 2}, {9, 2}, {10, 0}}},
		"one point":    {[]Split{{0, 0}, {8, 0}, {9, 0}}, 8, []Split{{0, 0}, {8, 0}, {9, 0}}},
		"one at end":   {[]Split{{0, 0}, {^Point(0), 0}}, ^Point(0), []Split{{0, 0}, {^Point(0), 0}}},
	} {
		if got := SplitRange(tt.splits, tt.at); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestSpreadRange: a range on several hosts names different ones, as many as there are.
func TestSpreadRange(t *testing.T) {
	splits := SpreadRange(EvenSplits(8), 1, 5)
	for _, n := range []int{1, 2, 9} {
		got := ringTable(t, Ring{Splits: splits, Load: 1}, named(n)).Find(0).Hosts
		if len(got) != min(n, 5) {
			t.Errorf("on %d hosts: %v", n, got)
		}
	}
}

func TestCool(t *testing.T) {
	even := EvenSplits(4)
	const q = Point(1 << 62) // the second quarter
	for name, tt := range map[string]struct {
		cooling Cooling
		heat    []Heat
		hosts   int
		want    []Split
	}{
		"even":            {Cooling{}, []Heat{{0, 10, 0}, {q, 10, 0}, {2 * q, 10, 0}, {3 * q, 10, 0}}, 2, nil},
		"hot with writes": {Cooling{}, []Heat{{0, 10, 0}, {q, 90, 5}, {2 * q, 10, 0}}, 4, SplitRange(even, q)},
		"hot with reads":  {Cooling{}, []Heat{{0, 10, 0}, {q, 9, 900}}, 4, SpreadRange(even, q, 2)},
		"spread enough":   {Cooling{MaxSpread: 1}, []Heat{{0, 10, 0}, {q, 9, 900}}, 4, SplitRange(even, q)},
		"split enough":    {Cooling{MaxRanges: 4}, []Heat{{0, 10, 0}, {q, 90, 5}}, 4, nil},
		"one host":        {Cooling{}, []Heat{{0, 10, 0}, {q, 90, 5}}, 1, nil},
		"nothing to do":   {Cooling{}, nil, 4, nil},
		"idle":            {Cooling{}, []Heat{{0, 0, 0}}, 4, nil},
		"no such range":   {Cooling{}, []Heat{{5, 9, 0}}, 4, nil},
	} {
		got, changed := tt.cooling.Cool(even, tt.heat, tt.hosts)
		if want := tt.want != nil; changed != want || want && !slices.Equal(got, tt.want) || !want && !slices.Equal(got, even) {
			t.Errorf("%s: %v (%v), want %v", name, got, changed, tt.want)
		}
	}
}
