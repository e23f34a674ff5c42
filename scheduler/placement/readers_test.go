package placement

import (
	"slices"
	"testing"
)

func TestWithReaders(t *testing.T) {
	const quarter = 1 << 62
	// The owner of each part is the winner of rendezvous hashing for its first point.
	wins := func(p Point) (owner, other HostID) {
		if rendezvous(p, []HostID{"a", "b"}) == "a" {
			return "a", "b"
		}
		return "b", "a"
	}
	part := func(p Point) Range {
		owner, other := wins(p)
		return Range{First: p, Hosts: []HostID{owner}, Readers: []HostID{other}}
	}
	half := Point(1) << 63
	for name, tt := range map[string]struct {
		table []Range
		want  []Range
	}{
		"one host each":  {[]Range{on(0, "a"), on(half, "b")}, []Range{on(0, "a"), on(half, "b")}},
		"two hosts":      {[]Range{on(0, "b", "a")}, []Range{part(0), part(quarter), part(2 * quarter), part(3 * quarter)}},
		"one of several": {[]Range{on(0, "a", "b"), on(LastPoint-1, "c")}, []Range{part(0), part((LastPoint-2)/4 + 1), part(2 * ((LastPoint-2)/4 + 1)), part(3 * ((LastPoint-2)/4 + 1)), on(LastPoint-1, "c")}},
		"two points":     {[]Range{on(0, "c"), on(LastPoint-1, "a", "b")}, []Range{on(0, "c"), part(LastPoint - 1), part(LastPoint)}},
	} {
		got := mustTable(t, tt.table...).WithReaders().Ranges()
		if !slices.EqualFunc(got, tt.want, func(a, b Range) bool {
			return a.First == b.First && slices.Equal(a.Hosts, b.Hosts) && slices.Equal(a.Readers, b.Readers)
		}) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestReadersOfARing: each actor has one owner and the readers that its ring says, none of
// them twice; owners are spread evenly, and when a host leaves only what it owned gets
// another owner, but for what the bound on the load pushes on.
func TestReadersOfARing(t *testing.T) {
	for _, tt := range []struct{ each, hosts, readers int }{{1, 3, 0}, {2, 1, 0}, {2, 2, 1}, {2, 3, 1}, {3, 10, 2}, {16, 5, 4}} {
		hosts := named(tt.hosts)
		table := ringTable(t, Ring{Ranges: DefaultRanges / ReadParts, Hosts: tt.each}, hosts).WithReaders()
		for _, r := range table.Ranges() {
			all := slices.Concat(r.Hosts, r.Readers)
			slices.Sort(all)
			if len(r.Hosts) != 1 || len(r.Readers) != tt.readers || len(slices.Compact(all)) != 1+tt.readers {
				t.Fatalf("ring:%d of %d hosts: %+v", tt.each, tt.hosts, r)
			}
		}
		mean := len(table.Ranges()) / tt.hosts
		for h, n := range share(table) {
			if n < mean/2 || n > 2*mean {
				t.Errorf("ring:%d of %d hosts: %s owns %d of %d parts", tt.each, tt.hosts, h, n, len(table.Ranges()))
			}
		}
	}
	all := ringTable(t, Ring{Ranges: DefaultRanges / ReadParts, Hosts: 2}, named(4)).WithReaders()
	fewer := ringTable(t, Ring{Ranges: DefaultRanges / ReadParts, Hosts: 2}, named(3)).WithReaders()
	moved, had := 0, 0
	for i, r := range all.Ranges() {
		if r.Hosts[0] == named(4)[3] {
			had++
		} else if r.Hosts[0] != fewer.Ranges()[i].Hosts[0] {
			moved++
		}
	}
	if moved > had {
		t.Errorf("one of 4 hosts left: of %d parts, %d were its own and %d others moved", len(all.Ranges()), had, moved)
	}
}

// TestMovedPartsKeepTheirReaders: the hosts that a part has by the ring may read it, and
// the one that has it because of its heat is none of its readers.
func TestMovedPartsKeepTheirReaders(t *testing.T) {
	base := mustTable(t, on(0, "a", "b")).WithReaders()
	for _, r := range base.WithMoved([]Moved{{First: 5, Last: 9, Host: "c"}}, []HostID{"a", "b", "c"}).Ranges() {
		if want := []HostID{"a", "b"}; r.Moved && (r.Hosts[0] != "c" || !slices.Equal(r.Readers, want)) {
			t.Errorf("moved to c: %+v", r)
		}
	}
	for _, r := range base.WithMoved([]Moved{{Last: LastPoint, Host: "a"}}, []HostID{"a", "b"}).Ranges() {
		if r.Hosts[0] != "a" || !slices.Equal(r.Readers, []HostID{"b"}) {
			t.Errorf("moved to a: %+v", r)
		}
	}
	for _, r := range mustTable(t, on(0, "a")).WithMoved([]Moved{{First: 5, Last: 9, Host: "c"}}, []HostID{"c"}).Ranges() {
		if len(r.Readers) > 0 {
			t.Errorf("of a ring without readers: %+v", r)
		}
	}
}
