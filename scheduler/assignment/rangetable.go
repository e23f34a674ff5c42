package assignment

import (
	"cmp"
	"slices"

	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// rangeTable is the table of types that are alike.
type rangeTable struct {
	group   uint64              // its number in orders
	types   []protocol.TypeName // read-only
	role    role                // of all of them
	policy  string              // in force; empty: nobody has been given anything
	version uint64              // of the newest order
	moved   []placement.Moved   // by heat, of a ring type
	ranges  []tableRange        // in order; they cover the hash space
	targets [2]target           // those that were computed last
	cutFor  [2]*placement.Table // the targets whose ranges these have
	// readable: ranges may have readers. shared: some may have one.
	readable, shared bool
	// switching: everything is handed over, because the policy changes; waits has the
	// hosts that have not answered.
	switching bool
	waits     []placement.HostID
	// open are the ranges that are on the move or should be, by their places in ranges; full:
	// any may be.
	open []int
	full bool
}

// candidates returns the places of the ranges that something may have to be done about.
func (t *rangeTable) candidates() []int {
	if !t.full {
		return t.open
	}
	all := make([]int, len(t.ranges))
	for i := range all {
		all[i] = i
	}
	return all
}

// target is the table of a ring type with what was moved, and the one without.
type target struct{ ring, moved *placement.Table }

// phase is how far the move of a range is.
type phase uint8

const (
	stable    phase = iota
	releasing       // LOCK was sent, not all have released
	updating        // UPDATE was sent, not all have said so
)

type tableRange struct {
	first placement.Point
	// hosts share the range, each its part of the points; holds are those of them that
	// may hold theirs. Both are read-only.
	hosts, holds []placement.HostID
	readers      []placement.HostID // read-only as well
	moved        bool               // by heat, to where it is
	clean        bool               // what its holders were told
	nowClean     bool               // in releasing: all that released it say that it is clean by now
	phase        phase
	slow         bool               // it has been on the move for long
	version      uint64             // of the newest LOCK or UPDATE
	waits        []placement.HostID // in releasing and updating: the hosts that have not answered
}

func newRangeTable() *rangeTable {
	return &rangeTable{ranges: []tableRange{{}}, full: true}
}

// adoptMoved takes over what an earlier leader has moved to a host because of its heat.
func (t *rangeTable) adoptMoved(id placement.HostID, claims []protocol.Range) {
	for _, c := range claims {
		if c.Moved && placement.IsRing(t.policy) {
			t.setMoved(placement.AddMoved(t.moved, placement.Moved{First: c.First, Last: c.Last, Host: id}))
		}
	}
}

// adopt brings the table to what a host says that it holds.
func (t *rangeTable) adopt(id placement.HostID, claims []protocol.Range) {
	t.cut(protocol.Bounds(claims))
	next := 0
	for i := range t.ranges {
		r := &t.ranges[i]
		for next < len(claims) && claims[next].Last < r.first { // both are in order
			next++
		}
		claimed := -1
		if next < len(claims) && claims[next].First <= r.first {
			claimed = next
		}
		holds := slices.Contains(r.holds, id)
		switch {
		case claimed < 0 && holds:
			r.holds, r.waits, r.nowClean = without(r.holds, id), without(r.waits, id), false
		case claimed < 0:
			r.waits = without(r.waits, id)
		case holds && r.phase == updating:
			r.waits = without(r.waits, id)
		case holds:
		case r.phase == stable && (len(r.holds) == 0 || sameSet(r.hosts, claims[claimed].Hosts)):
			r.clean = claims[claimed].Clean && (r.clean || len(r.holds) == 0)
			r.hosts, r.holds, r.moved = claims[claimed].Hosts, with(r.holds, id), claims[claimed].Moved
		}
	}
}

// setMoved says what is elsewhere than by the ring.
func (t *rangeTable) setMoved(moved []placement.Moved) {
	t.moved, t.targets = moved, [2]target{}
}

// routes returns where everything is, as the leader sends it to hosts; ranges that move are
// nowhere.
func (t *rangeTable) routes() []protocol.Range {
	routes := make([]protocol.Range, len(t.ranges))
	for i := range t.ranges {
		r := &t.ranges[i]
		if t.switching || placement.Assigned(t.policy) && (r.phase != stable || len(r.holds) < len(r.hosts)) {
			routes[i] = t.at(i, nil)
		} else {
			routes[i] = t.at(i, r.hosts)
		}
	}
	return routes
}

// reread brings the readers of what is stable, of those at some places, to what targets
// say, and returns the ranges where that changes something.
func (t *rangeTable) reread(places []int, targets ...*placement.Table) (changed []protocol.Range) {
	if !t.readable && !t.shared {
		return nil
	}
	t.shared = t.shared && !t.full
	for _, i := range places {
		r := &t.ranges[i]
		if r.phase == stable && len(r.holds) == len(r.hosts) {
			if by := t.readers(r.readers, r.first, r.hosts, targets...); !slices.Equal(r.readers, by) {
				r.readers = by
				changed = append(changed, t.at(i, r.hosts))
			}
		}
		t.shared = t.shared || len(r.readers) > 0
	}
	return changed
}

// lock begins the move of the i-th range, which is stable.
func (t *rangeTable) lock(i int) {
	r := &t.ranges[i]
	whole := len(r.holds) == len(r.hosts) // otherwise nobody answers for a share of it
	r.phase, r.slow, r.waits, r.version = releasing, false, r.holds, t.version
	r.clean, r.nowClean = r.clean && whole, len(r.holds) > 0 && whole
}

// index returns the place of the range of a point.
func (t *rangeTable) index(p placement.Point) int {
	i, found := slices.BinarySearchFunc(t.ranges, p, func(r tableRange, p placement.Point) int { return cmp.Compare(r.first, p) })
	if !found {
		i--
	}
	return i
}

// at returns the i-th range, with the hosts that an order names.
func (t *rangeTable) at(i int, hosts []placement.HostID) protocol.Range {
	last := placement.LastPoint
	if i+1 < len(t.ranges) {
		last = t.ranges[i+1].first - 1
	}
	return protocol.Range{First: t.ranges[i].first, Last: last, Hosts: hosts, Readers: t.ranges[i].readers, Moved: t.ranges[i].moved}
}

// merge makes one of neighbours that are alike and stable, where no target cuts them.
func (t *rangeTable) merge(targets ...*placement.Table) {
	bounds := 0
	for _, target := range targets {
		if target != nil {
			bounds = max(bounds, len(target.Ranges()))
		}
	}
	if len(t.ranges) <= bounds {
		return
	}
	cuts := func(p placement.Point) bool {
		return slices.ContainsFunc(targets, func(t *placement.Table) bool { return t != nil && t.Find(p).First == p })
	}
	kept := t.ranges[:1]
	for _, r := range t.ranges[1:] {
		last := &kept[len(kept)-1]
		if last.phase == stable && r.phase == stable && last.clean == r.clean && last.moved == r.moved &&
			slices.Equal(last.hosts, r.hosts) && slices.Equal(last.holds, r.holds) && slices.Equal(last.readers, r.readers) && !cuts(r.first) {
			continue
		}
		kept = append(kept, r)
	}
	t.ranges = kept
}

// cut makes ranges begin at points, which are in order. Both parts of a range have the state
// of the whole.
func (t *rangeTable) cut(points []placement.Point) {
	t.ranges = protocol.CutAt(t.ranges, points, func(r *tableRange) *placement.Point { return &r.first })
}

func without(ids []placement.HostID, id placement.HostID) []placement.HostID {
	i := slices.Index(ids, id)
	if i < 0 {
		return ids
	}
	return slices.Concat(ids[:i], ids[i+1:])
}

func with(ids []placement.HostID, id placement.HostID) []placement.HostID {
	return slices.Sorted(slices.Values(append(slices.Clone(ids), id)))
}

func sameSet(a, b []placement.HostID) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(id placement.HostID) bool { return !slices.Contains(b, id) })
}

// isStable reports whether nothing of a table moves or should, and nothing of it was moved
// because of its heat.
func (t *rangeTable) isStable() bool {
	return !t.full && len(t.open) == 0 && !t.switching && t.policy == t.role.policy && len(t.moved) == 0
}

// same reports whether two tables that rest differ by what is clean alone.
func (t *rangeTable) same(o *rangeTable) bool {
	return slices.EqualFunc(t.ranges, o.ranges, func(a, b tableRange) bool {
		return a.first == b.first && a.moved == b.moved && slices.Equal(a.hosts, b.hosts) && slices.Equal(a.holds, b.holds) && slices.Equal(a.readers, b.readers)
	})
}

// readers returns the readers of a point that is at hosts: those of the target that has
// it there, and the ones that were if none does.
func (t *rangeTable) readers(was []placement.HostID, p placement.Point, hosts []placement.HostID, targets ...*placement.Table) []placement.HostID {
	if !t.readable {
		return nil
	}
	for _, target := range targets {
		if target == nil {
			continue
		}
		if r := target.Find(p); sameSet(r.Hosts, hosts) {
			return r.Readers
		}
	}
	return was
}
