package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestStatic(t *testing.T) {
	for _, tt := range []struct {
		p    Point
		n    int
		want int
	}{
		{0, 1, 0}, {LastPoint, 1, 0},
		{0, 3, 0}, {0x5555_5555_5555_5555, 3, 0}, {0x5555_5555_5555_5556, 3, 1},
		{0xaaaa_aaaa_aaaa_aaab, 3, 2}, {LastPoint, 3, 2},
		{1<<63 - 1, 2, 0}, {1 << 63, 2, 1},
	} {
		if got := Static(tt.p, tt.n); got != tt.want {
			t.Errorf("Static(%#x, %d) = %d, want %d", uint64(tt.p), tt.n, got, tt.want)
		}
	}
}

// TestStaticTable: the table is the formula, at and around each bound.
func TestStaticTable(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 7, 64, 255, 256} {
		hosts := make([]HostID, n)
		for i := range hosts {
			hosts[i] = HostID(fmt.Sprint("h", i))
		}
		hosts[n/2] = "" // away
		table := StaticTable(hosts)
		if got := len(table.Ranges()); got != n {
			t.Fatalf("%d hosts: %d ranges", n, got)
		}
		for _, r := range table.Ranges() {
			for _, p := range []Point{r.First - 1, r.First, r.First + 1} {
				if got, want := table.Owner(p), hosts[Static(p, n)]; got != want {
					t.Errorf("%d hosts: %#x is %q's by the table, %q's by the formula", n, uint64(p), got, want)
				}
			}
		}
	}
}

func TestAnywhere(t *testing.T) {
	for name, tt := range map[string]struct {
		here  HostID
		hosts []HostID
		want  HostID
	}{
		"here":            {"b", []HostID{"a", "b"}, "b"},
		"the only other":  {"x", []HostID{"a"}, "a"},
		"nobody":          {"x", nil, ""},
		"not served here": {"x", []HostID{"a", "b"}, rendezvous(7, []HostID{"b", "a"})},
	} {
		if got := Anywhere(tt.here, 7, tt.hosts); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestCheckoutNext(t *testing.T) {
	later := noon.Add(3 * time.Second)
	lease := func(p Partition, h HostID, until time.Time) PartitionLease { return PartitionLease{p, h, until} }
	two := []HostID{"a", "b"}
	for name, tt := range map[string]struct {
		checkout Checkout
		leases   []PartitionLease
		out, in  int
		again    time.Time
	}{
		"alone takes all":       {Checkout{Self: "a", Hosts: two[:1]}, []PartitionLease{{}, {Partition: 1}, {Partition: 2}}, 3, 0, time.Time{}},
		"its share":             {Checkout{Self: "a", Hosts: two}, []PartitionLease{{}, {Partition: 1}, {Partition: 2}}, 2, 0, time.Time{}},
		"one that ran out":      {Checkout{Self: "a", Hosts: two}, []PartitionLease{lease(0, "b", noon), lease(1, "b", later)}, 1, 0, time.Time{}},
		"waits for others":      {Checkout{Self: "a", Hosts: two}, []PartitionLease{lease(0, "b", later), lease(1, "b", later.Add(1))}, 0, 0, later},
		"too many, one goes":    {Checkout{Self: "a", Hosts: two}, []PartitionLease{lease(0, "a", later), lease(1, "a", later), lease(2, "a", later), lease(3, "a", later)}, 0, 1, time.Time{}},
		"leaving":               {Checkout{Self: "a", Hosts: two[1:], Leaving: true}, []PartitionLease{lease(0, "a", later), lease(1, "", noon), lease(2, "a", later)}, 0, 2, time.Time{}},
		"its own that ran out":  {Checkout{Self: "a", Hosts: two[:1]}, []PartitionLease{lease(0, "a", noon)}, 1, 0, time.Time{}},
		"content with its half": {Checkout{Self: "a", Hosts: two}, []PartitionLease{lease(0, "a", later), lease(1, "b", later)}, 0, 0, time.Time{}},
	} {
		got := tt.checkout.Next(tt.leases, noon)
		if len(got.CheckOut) != tt.out || len(got.CheckIn) != tt.in || !got.Again.Equal(tt.again) {
			t.Errorf("%s: %+v; want %d out, %d in, again %v", name, got, tt.out, tt.in, tt.again)
		}
	}
}

// TestCheckoutSettles: hosts that step in turns share all partitions evenly, take over
// those of a host that is gone, and make room for one that comes.
func TestCheckoutSettles(t *testing.T) {
	leases := make([]PartitionLease, 12)
	for i := range leases {
		leases[i].Partition = Partition(i)
	}
	now := noon
	settle := func(hosts ...HostID) {
		t.Helper()
		for range 3 * len(leases) {
			now = now.Add(time.Second)
			for i := range leases {
				if slices.Contains(hosts, leases[i].Holder) {
					leases[i].Until = now.Add(3 * time.Second) // renewed
				}
			}
			for _, h := range hosts {
				step := Checkout{Self: h, Hosts: hosts}.Next(leases, now)
				for _, p := range step.CheckOut {
					if !leases[p].free(now) {
						t.Fatalf("%s takes partition %d of %s", h, p, leases[p].Holder)
					}
					leases[p].Holder, leases[p].Until = h, now.Add(3*time.Second)
				}
				for _, p := range step.CheckIn {
					leases[p].Holder = ""
				}
			}
		}
		counts := map[HostID]int{}
		for _, l := range leases {
			counts[l.Holder]++
		}
		for _, h := range hosts {
			if counts[h] != len(leases)/len(hosts) {
				t.Errorf("of %d hosts %s has %d of %d partitions", len(hosts), h, counts[h], len(leases))
			}
		}
	}
	settle("a")
	settle("a", "b", "c")
	settle("b", "c") // a is gone without a word
	settle("d", "c", "b", "e")
}
