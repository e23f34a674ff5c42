package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/greenroom-run/greenroom/actor"
)

// HostID names one incarnation of a host process.
type HostID = actor.HostID

// Point is a place in the hash space.
type Point uint64

// LastPoint is the end of the hash space, which begins at 0.
const LastPoint = ^Point(0)

// PointOf returns the place of an actor, which is the hash of its [actor.Key.String].
// It never changes: hosts of all versions have to agree on it.
func PointOf(key actor.Key) Point {
	// Written out, since it is asked for with each call and need not allocate.
	var buf [2*actor.MaxNameLen + 64]byte
	b := append(buf[:0], key.App...)
	b = append(b, "||"...)
	b = append(b, key.Type...)
	b = append(b, "||"...)
	if len(b)+len(key.ID) <= len(buf) {
		return Point(xxhash.Sum64(append(b, key.ID...)))
	}
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(b) // neither ever fails
	_, _ = d.WriteString(key.ID)
	return Point(d.Sum64())
}

// Range is a part of the hash space with the hosts that share it.
type Range struct {
	// First is its first point; it ends before the next range's.
	First Point
	// Hosts has the host of the range, or several, without repetition. Each actor
	// belongs to one of them, by rendezvous hashing.
	Hosts []HostID
	// Readers are other hosts that may serve its read-only methods, in order.
	Readers []HostID
	// Moved: it is there because of its heat, not by the policy.
	Moved bool
}

// Table says where the actors of one type are. It is read-only once made, and then
// safe for concurrent use.
type Table struct {
	ranges []Range
}

// NewTable returns the table of some ranges, in any order. It takes them over.
func NewTable(ranges []Range) (*Table, error) {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	if len(ranges) == 0 || ranges[0].First != 0 {
		return nil, fmt.Errorf("placement table: no range begins at point 0")
	}
	for i, r := range ranges {
		if i > 0 && ranges[i-1].First == r.First {
			return nil, fmt.Errorf("placement table: two ranges begin at point %#x", uint64(r.First))
		}
		if len(r.Hosts) == 0 {
			return nil, fmt.Errorf("placement table: the range from point %#x has no host", uint64(r.First))
		}
		for j, h := range r.Hosts {
			if slices.Contains(r.Hosts[:j], h) {
				return nil, fmt.Errorf("placement table: the range from point %#x names host %q twice", uint64(r.First), h)
			}
		}
	}
	return &Table{ranges}, nil
}

// Ranges returns all ranges in order. They are the table's: read-only.
func (t *Table) Ranges() []Range { return t.ranges }

// Find returns the range that a point lies in.
func (t *Table) Find(p Point) Range {
	i, found := slices.BinarySearchFunc(t.ranges, p, func(r Range, p Point) int { return cmp.Compare(r.First, p) })
	if !found {
		i--
	}
	return t.ranges[i]
}

// Owner returns the one host that may hold the actor at a point.
func (t *Table) Owner(p Point) HostID { return OwnerAmong(p, t.Find(p).Hosts) }

// OwnerAmong returns the one of the hosts of a range that may hold the actor at a point
// in it; hosts is not empty.
func OwnerAmong(p Point, hosts []HostID) HostID {
	if len(hosts) == 1 {
		return hosts[0]
	}
	return rendezvous(p, hosts)
}

// ReadParts is into how many parts of one owner each [Table.WithReaders] divides a shared
// range: enough that its hosts own about as much of a type, and few, since each is a range
// of its own.
const ReadParts = 4

// WithReaders returns the table in which each actor of a range of several hosts has one
// owner whom a table names, and the others as its readers: such a range is divided into
// parts, each with the one host that rendezvous hashing gives its first point.
func (t *Table) WithReaders() *Table {
	if !slices.ContainsFunc(t.ranges, func(r Range) bool { return len(r.Hosts) > 1 }) {
		return t
	}
	out := &Table{ranges: make([]Range, 0, ReadParts*len(t.ranges))}
	for i, r := range t.ranges {
		if len(r.Hosts) < 2 {
			out.ranges = append(out.ranges, r)
			continue
		}
		last := LastPoint
		if i+1 < len(t.ranges) {
			last = t.ranges[i+1].First - 1
		}
		size := (last-r.First)/ReadParts + 1
		for p := r.First; ; p += size {
			owner := rendezvous(p, r.Hosts)
			out.ranges = append(out.ranges, Range{First: p, Hosts: []HostID{owner}, Readers: others(r.Hosts, owner), Moved: r.Moved})
			if last-p < size {
				break
			}
		}
	}
	return out
}

// others returns hosts without one, in order.
func others(hosts []HostID, id HostID) []HostID {
	return slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(hosts), func(h HostID) bool { return h == id })))
}

// rendezvous picks the host with the highest weight for a point, so that a host
// which comes or goes moves only the points that it gets or had (Thaler and
// Ravishankar, "Using name-based mappings to increase hit rates", 1998). Hosts of
// equal weight are ordered by name. hosts is not empty.
func rendezvous(p Point, hosts []HostID) HostID {
	best, weight := HostID(""), uint64(0)
	for _, h := range hosts {
		w := mix(uint64(p) ^ xxhash.Sum64String(string(h)))
		if best == "" || w > weight || w == weight && h < best {
			best, weight = h, w
		}
	}
	return best
}

// mix spreads the difference of two numbers over all bits: the finalizer of
// SplitMix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
