package placement

import "math/bits"

// Static returns the index of the host that an actor belongs to among n hosts with
// stable names that are known beforehand: floor(point · n / 2^64). Nothing about it
// changes while the server runs: an actor whose host is down waits for it. n is at
// least 1.
func Static(p Point, n int) int {
	i, _ := bits.Mul64(uint64(p), uint64(n))
	return int(i)
}

// StaticTable returns the table by which [Static] gives n hosts their parts: the i-th
// part is hosts[i]'s. It is the one kind of table whose ranges may have no host: those of
// an empty ID. hosts is not empty.
func StaticTable(hosts []HostID) *Table {
	t := &Table{ranges: make([]Range, len(hosts))}
	for i, h := range hosts {
		// The first point p with p · n / 2^64 ≥ i.
		first, rest := bits.Div64(uint64(i), 0, uint64(len(hosts)))
		if rest > 0 {
			first++
		}
		t.ranges[i].First = Point(first)
		if h != "" {
			t.ranges[i].Hosts = []HostID{h}
		}
	}
	return t
}
