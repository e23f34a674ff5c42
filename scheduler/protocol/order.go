package protocol

import (
	"slices"
	"sort"
	"strconv"

	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// Range is a part of the hash space with the hosts that share it.
type Range struct {
	First, Last placement.Point // inclusive
	Hosts       []placement.HostID
	// Readers may answer read-only methods of it; an UNLOCK names them.
	Readers []placement.HostID
	// Clean: all that earlier holders sent to the store is settled.
	Clean bool
	// Moved: it is there because of its heat.
	Moved bool
}

// OrderKind says what an [Order] asks for.
type OrderKind uint8

// The kinds of orders; doc.go says what each means.
const (
	Lock   OrderKind = iota + 1 // the ranges move: hand over, and answer released
	Update                      // the ranges are the host's from now on; answer updated
	Unlock                      // the ranges are where the order says; without hosts: nobody knows
	Remove                      // no host serves the types any more
	Form                        // the types are of the group from now on
)

// Order changes a part of the table of a group of types at one host.
type Order struct {
	To    placement.HostID
	Group uint64 // 0: none, and Types has the one type that the order is about
	// Types are those of the group. An order that a host gets has them if it forms the group.
	Types      []TypeName
	Version    uint64 // of the term's orders; answers have it
	Kind       OrderKind
	Policy     string
	Ranges     []Range
	WithSticky bool // the sticky actors of the types are handed over as well
}

// About names what an order is about for people.
func (o Order) About() string {
	if o.Group == 0 {
		return o.Types[0].String()
	}
	return "group " + strconv.FormatUint(o.Group, 10)
}

// Bounds returns where ranges begin, and what comes after them begins, in order.
func Bounds(ranges []Range) []placement.Point {
	points := make([]placement.Point, 0, 2*len(ranges))
	for _, r := range ranges {
		points = append(points, r.First)
		if r.Last != placement.LastPoint {
			points = append(points, r.Last+1)
		}
	}
	slices.Sort(points)
	return points
}

// CutAt returns ranges in order in which some begin at points, which are in order as
// well. The first range begins at 0. The parts of a range are copies of it.
func CutAt[R any](ranges []R, points []placement.Point, first func(*R) *placement.Point) []R {
	var missing []placement.Point
	for _, p := range points {
		i := sort.Search(len(ranges), func(i int) bool { return *first(&ranges[i]) >= p })
		if found := i < len(ranges) && *first(&ranges[i]) == p; !found && (len(missing) == 0 || missing[len(missing)-1] != p) {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return ranges
	}
	cut := make([]R, 0, len(ranges)+len(missing))
	for i := range ranges {
		cut = append(cut, ranges[i])
		for len(missing) > 0 && (i+1 == len(ranges) || missing[0] < *first(&ranges[i+1])) {
			part := ranges[i]
			*first(&part) = missing[0]
			cut, missing = append(cut, part), missing[1:]
		}
	}
	return cut
}
