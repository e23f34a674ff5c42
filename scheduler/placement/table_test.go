package placement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/actor"
)

// TestPointOf pins places: tables in force rest on them, on hosts of other versions too.
func TestPointOf(t *testing.T) {
	for key, want := range map[actor.Key]Point{
		{App: "default", Type: "Counter", ID: "me"}: 0x9aaa78ddd89978cf,
		{App: "a", Type: "T", ID: "x||ü"}:           0x46107fb08df8ead0,
	} {
		if got := PointOf(key); got != want {
			t.Errorf("PointOf(%v) = %#x, want %#x", key, uint64(got), uint64(want))
		}
	}
}

// TestPointOfIsTheHashOfTheKey: however long the parts are, and without allocating.
func TestPointOfIsTheHashOfTheKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`)
		key := actor.Key{App: name.Draw(t, "app"), Type: name.Draw(t, "type"), ID: rapid.StringN(1, 512, 512).Draw(t, "id")}
		if got, want := PointOf(key), Point(xxhash.Sum64String(key.String())); got != want {
			t.Fatalf("%#x, want %#x", uint64(got), uint64(want))
		}
	})
	for _, n := range []int{1, 36, actor.MaxIDLen} {
		key := actor.Key{App: "default", Type: "Counter", ID: strings.Repeat("x", n)}
		if got := testing.AllocsPerRun(100, func() { PointOf(key) }); got != 0 {
			t.Errorf("with an ID of %d bytes: %v allocations", n, got)
		}
	}
}

func mustTable(t interface{ Fatal(...any) }, ranges ...Range) *Table {
	table, err := NewTable(ranges)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func on(first Point, hosts ...HostID) Range { return Range{First: first, Hosts: hosts} }

func TestTableFinds(t *testing.T) {
	table := mustTable(t, on(100, "b"), on(0, "a"), on(200, "c"))
	for p, want := range map[Point]HostID{0: "a", 1: "a", 99: "a", 100: "b", 199: "b", 200: "c", LastPoint: "c"} {
		if got := table.Owner(p); got != want {
			t.Errorf("Owner(%d) = %q, want %q", p, got, want)
		}
	}
}

func TestTableRefuses(t *testing.T) {
	for name, ranges := range map[string][]Range{
		"nothing":          {},
		"a gap at 0":       {on(1, "a")},
		"a range twice":    {on(0, "a"), on(5, "a"), on(5, "b")},
		"a range of none":  {on(0, "a"), on(5)},
		"a host of it two": {on(0, "a", "b", "a")},
	} {
		if table, err := NewTable(ranges); err == nil {
			t.Errorf("%s: accepted as %v", name, table.Ranges())
		}
	}
}

// TestSharedRange: each actor of a range of several hosts has one, all hosts have
// some, and a host that leaves takes only its own along.
func TestSharedRange(t *testing.T) {
	three, two := mustTable(t, on(0, "a", "b", "c")), mustTable(t, on(0, "c", "a"))
	counts := map[HostID]int{}
	for i := range 3000 {
		p := PointOf(actor.Key{App: "x", Type: "T", ID: fmt.Sprint(i)})
		before, after := three.Owner(p), two.Owner(p)
		counts[before]++
		if before != "b" && before != after {
			t.Fatalf("point %#x moved from %s to %s when b left", uint64(p), before, after)
		}
	}
	for _, h := range []HostID{"a", "b", "c"} {
		if counts[h] < 800 || counts[h] > 1200 {
			t.Errorf("host %s has %d of 3,000 actors", h, counts[h])
		}
	}
}
