package placement

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
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

// TestRingExamples: who has each of eight ranges, in order, the readers behind the holder. A
// leader of another version that had other tables would move the actors of a whole cluster.
func TestRingExamples(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ring  Ring
		hosts string
		want  string
	}{
		{"one host has all", Ring{Ranges: 8}, "a", "a a a a a a a a"},
		{"two, with five at most", Ring{Ranges: 8}, "a b", "b a b a b a a a"},
		{"two, with four each", Ring{Ranges: 8, Load: 1}, "a b", "b a b a b a a b"},
		{"a third takes some and moves few others", Ring{Ranges: 8}, "a b c", "b a b c b c c c"},
		{"the order of hosts is nothing", Ring{Ranges: 8}, "c a b", "b a b c b c c c"},
		{"another name is another host", Ring{Ranges: 8}, "a b d", "b a b d b d d d"},
		{"more hosts than ranges", Ring{Ranges: 2}, "a b c d", "b c"},
		{"a holder and a reader", Ring{Ranges: 8, Hosts: 2}, "a b c", "ba ac bc ca bc ca ca ca"},
		{"a holder and as many readers as there are", Ring{Ranges: 8, Hosts: 3}, "a b", "ba ab ba ab ba ab ab ab"},
	} {
		hosts := []HostID{}
		for _, h := range strings.Fields(tt.hosts) {
			hosts = append(hosts, HostID(h))
		}
		got := ""
		for _, r := range ringTable(t, tt.ring, hosts).Ranges() {
			for _, h := range r.Hosts {
				got += string(h)
			}
			got += " "
		}
		if got = strings.TrimSpace(got); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestRingIsBalanced: no host has more than its bound, and none has nothing.
func TestRingIsBalanced(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 100} {
		shares := share(ringTable(t, Ring{Ranges: DefaultRanges}, named(n)))
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
	r := Ring{Ranges: DefaultRanges}
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
	r := Ring{Ranges: 64}
	hosts := named(7)
	want := ringTable(t, r, hosts)
	slices.Reverse(hosts)
	if got := ringTable(t, r, hosts); !reflect.DeepEqual(got, want) {
		t.Error("the order of the hosts changes the table")
	}
	if table := ringTable(t, r, nil); table != nil {
		t.Errorf("without hosts: %v", table.Ranges())
	}
	if _, err := (Ring{Ranges: 1, Load: 0.5}).Table(hosts); err == nil {
		t.Error("a load factor below 1 is accepted")
	}
}

// TestRingSpreads: a range on several hosts names different ones, as many as there are.
func TestRingSpreads(t *testing.T) {
	for _, n := range []int{1, 2, 9} {
		for _, r := range ringTable(t, Ring{Ranges: 8, Hosts: 5, Load: 1}, named(n)).Ranges() {
			if len(r.Hosts) != min(n, 5) {
				t.Errorf("on %d hosts: %v", n, r.Hosts)
			}
		}
	}
	if _, err := (Ring{}).Table(named(1)); err == nil {
		t.Error("a ring without ranges is accepted")
	}
}
