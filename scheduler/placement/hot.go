package placement

import (
	"cmp"
	"slices"
)

// Heat is what a range was asked for lately.
type Heat struct {
	First Point
	// Writes and Reads are turns per second, read-only ones apart.
	Writes, Reads float64
}

// Cooling says when a range is hot, and what may be done about it.
type Cooling struct {
	// Share is the part of one host's mean load above which a range is hot. Defaults
	// to 0.5: two such ranges would fill a host.
	Share float64
	// MaxRanges bounds the table. Defaults to 4 times [DefaultRanges].
	MaxRanges int
	// MaxSpread bounds the hosts of one range. Defaults to 4.
	MaxSpread int
}

// Cool returns splits in which the hottest range is split, or spread over one host
// more if most of what it is asked for is read-only; and whether anything changed.
// One range at a time: the next measurement shows what it helped. splits are in
// order, and each of heat is the first point of one of them.
func (c Cooling) Cool(splits []Split, heat []Heat, hosts int) ([]Split, bool) {
	share, most, spread := c.Share, c.MaxRanges, c.MaxSpread
	if share == 0 {
		share = 0.5
	}
	if most == 0 {
		most = 4 * DefaultRanges
	}
	if spread == 0 {
		spread = 4
	}
	if hosts < 2 || len(heat) == 0 {
		return splits, false
	}
	total := 0.0
	for _, h := range heat {
		total += h.Writes + h.Reads
	}
	hottest := slices.MaxFunc(heat, func(a, b Heat) int { return cmp.Compare(a.Writes+a.Reads, b.Writes+b.Reads) })
	if hottest.Writes+hottest.Reads <= share*total/float64(hosts) {
		return splits, false
	}
	i, found := slices.BinarySearchFunc(splits, hottest.First, func(s Split, p Point) int { return cmp.Compare(s.First, p) })
	if !found {
		return splits, false
	}
	if now := max(splits[i].Hosts, 1); hottest.Reads > hottest.Writes && now < min(spread, hosts) {
		return SpreadRange(splits, hottest.First, now+1), true
	}
	if len(splits) >= most {
		return splits, false
	}
	cut := SplitRange(splits, hottest.First)
	return cut, len(cut) > len(splits)
}
