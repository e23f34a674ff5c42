package placement

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

const (
	// DefaultRanges is how many ranges a new ring has: enough that the shares of a
	// hundred hosts differ by little, few enough that a table is a small message.
	DefaultRanges = 1024
	// DefaultLoad lets a host have a quarter more ranges than the mean. A lower bound
	// moves more ranges when hosts change.
	DefaultLoad = 1.25
	// finer is how many times its weight a host stands on the ring where weights differ: with
	// fewer points the share of a small host is often half of what it should be.
	finer = 4
)

// Ring computes tables by consistent hashing with bounded load (Mirrokni, Thorup and
// Zadimoghaddam, "Consistent Hashing with Bounded Loads", 2018): a range goes to the
// first host clockwise of its place on the ring that has not had its share.
type Ring struct {
	// Ranges is how many there are, of equal size; at least 1.
	Ranges int
	// Hosts is how many hosts share each range; 0 is 1. Fewer if there are fewer.
	Hosts int
	// Load is the most ranges of a host, in units of its share. Defaults to
	// [DefaultLoad]; at least 1.
	Load float64
	// Weights say how often each host stands on the ring, and how large its share is;
	// [MeanWeight] without one. Only their proportions count: hosts of one weight have the
	// same table whatever it is.
	Weights map[HostID]Weight
}

// Table returns the table for some hosts, in any order; nil without hosts. It is the
// same for the same ring and hosts, whoever computes it.
func (r Ring) Table(hosts []HostID) (*Table, error) {
	if len(hosts) == 0 {
		return nil, nil
	}
	load := r.Load
	if load == 0 {
		load = DefaultLoad
	}
	if load < 1 || r.Ranges < 1 {
		return nil, fmt.Errorf("placement ring: Load is %v and Ranges is %d; give at least 1 of each", load, r.Ranges)
	}
	each := min(max(r.Hosts, 1), len(hosts))
	ring := r.newCircle(hosts, load*float64(each*r.Ranges))
	ranges := make([]Range, r.Ranges)
	size := math.MaxUint64/uint64(r.Ranges) + 1 //nolint:gosec // checked
	for i := range ranges {
		first := Point(uint64(i) * size) //nolint:gosec // an index
		ranges[i] = Range{First: first, Hosts: ring.take(first, each)}
	}
	return NewTable(ranges)
}

// circle is the ring with what each host may still be given.
type circle struct {
	points []virtualPoint // in order
	left   map[HostID]int // ranges
}

type virtualPoint struct {
	at   uint64
	host HostID
}

// newCircle returns the ring on which hosts may be given so many ranges together.
func (r Ring) newCircle(hosts []HostID, most float64) *circle {
	points := make(map[HostID]Weight, len(hosts))
	sum, differ := Weight(0), false
	for _, h := range hosts {
		points[h] = cmp.Or(r.Weights[h], MeanWeight)
		sum += points[h]
		differ = differ || points[h] != points[hosts[0]]
	}
	c := &circle{left: make(map[HostID]int, len(hosts))}
	for _, h := range hosts {
		c.left[h] = int(math.Ceil(most * float64(points[h]) / float64(sum)))
		if differ {
			points[h] *= finer
		} else {
			points[h] = MeanWeight
		}
		for i := range uint64(points[h]) { //nolint:gosec // above 0
			c.points = append(c.points, virtualPoint{mix(xxhash.Sum64String(string(h)) + i), h})
		}
	}
	slices.SortFunc(c.points, func(a, b virtualPoint) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.host, b.host))
	})
	return c
}

// take gives a range to n hosts, which there are. The first with room that are met
// clockwise get it; where too few have room, since a range needs different hosts,
// those that may have most yet.
func (c *circle) take(first Point, n int) []HostID {
	var name [8]byte
	binary.BigEndian.PutUint64(name[:], uint64(first))
	at := xxhash.Sum64(name[:])
	start, _ := slices.BinarySearchFunc(c.points, at, func(p virtualPoint, at uint64) int { return cmp.Compare(p.at, at) })
	var taken, full []HostID
	for i := range c.points {
		h := c.points[(start+i)%len(c.points)].host
		switch {
		case slices.Contains(taken, h) || slices.Contains(full, h):
		case c.left[h] <= 0:
			full = append(full, h)
		default:
			taken = append(taken, h)
		}
		if len(taken) == n {
			break
		}
	}
	if missing := n - len(taken); missing > 0 {
		slices.SortStableFunc(full, func(a, b HostID) int { return cmp.Compare(c.left[b], c.left[a]) })
		taken = append(taken, full[:missing]...)
	}
	for _, h := range taken {
		c.left[h]--
	}
	return taken
}
