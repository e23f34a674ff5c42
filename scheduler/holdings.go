package scheduler

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// ripeAfter is how long after an unclean take-over nothing of an earlier holder is
// expected any more: as long as tombstones are kept, far above every timeout of a
// statement.
const ripeAfter = time.Hour

// Holdings is what one host holds of the tables, and where it believes the rest to be.
// It stands beside the host's [Member], which knows its lease and session: every order
// is one of the newest session. It is pure state, for one goroutine at a time.
type Holdings struct {
	self  placement.HostID
	types map[typeName]*heldTable
	// viewed has the types whose newest view is up to date.
	viewed map[typeName]bool
	// untold are the types of which no leader has told where they are, of those with which
	// the host has begun a session: nil before the first.
	untold map[typeName]struct{}
}

// heldTable is the table of one type as a host knows it.
type heldTable struct {
	policy string
	// handing: the policy changes, and the sticky actors of the type are handed over.
	handing bool
	// competes: the type is a checkout type, and this host may lease its partitions.
	// resumes: it did before everything was to be handed over, which is not done yet.
	competes, resumes bool
	ranges            []heldRange // in order; they cover the hash space
}

type heldRange struct {
	first placement.Point
	hosts []placement.HostID // where calls go; empty: nowhere now
	// readers may answer read-only methods, also while calls go nowhere.
	readers []placement.HostID
	// among are the hosts that share what this one holds; empty: it holds nothing.
	among []placement.HostID
	// leaving: it was locked, and is handed over. Nothing of it may begin any more, but
	// what has begun is still here.
	leaving bool
	// underWay: it was handed over, and the leader has not said yet who has it now.
	underWay bool
	locked   Instant // of what is leaving or under way: when the LOCK came
	ripe     Instant // from when on what it holds is clean
	moved    bool    // it is where it is because of its heat
}

// NewHoldings returns the state of a host that has just registered.
func NewHoldings(self placement.HostID) *Holdings {
	return &Holdings{self: self, types: map[typeName]*heldTable{}, viewed: map[typeName]bool{}}
}

// Moving is what a host hands over because of a LOCK.
type Moving struct {
	App, Type string
	Version   uint64 // of the order
	Ranges    []HeldRange
	// WithSticky: sticky actors of the type as well.
	WithSticky bool
	// Since is when the order came.
	Since Instant
	// Arrived is how many ranges that were handed over before have arrived, by an UNLOCK,
	// and Paused how long after their LOCK, of the one that took longest.
	Arrived int
	Paused  time.Duration
}

// Contains reports whether an actor moves by its point.
func (m Moving) Contains(self placement.HostID, key actor.Key) bool {
	if key.App != m.App || key.Type != m.Type {
		return false
	}
	p := placement.PointOf(key)
	i, found := slices.BinarySearchFunc(m.Ranges, p, func(r HeldRange, p placement.Point) int { return cmp.Compare(r.First, p) })
	if !found {
		i--
	}
	return i >= 0 && p <= m.Ranges[i].Last && placement.OwnerAmong(p, m.Ranges[i].Hosts) == self
}

// Connect begins a session in which the host reports types.
func (h *Holdings) Connect(types []Type) {
	if h.Told() {
		return
	}
	h.untold = make(map[typeName]struct{}, len(types))
	for _, t := range types {
		h.untold[typeName{t.App, t.Name}] = struct{}{}
	}
}

// Reports notes that the host reports types in the place of others: of those that it does not
// run any more a leader may tell nothing.
func (h *Holdings) Reports(types map[typeName]Type) {
	for name := range h.untold {
		if _, still := types[name]; !still {
			delete(h.untold, name)
		}
	}
}

// Told reports whether a leader has told where everything is. From then on no type without
// a table is held by anybody; before, any may be, whatever this host knows of it.
func (h *Holdings) Told() bool { return h.untold != nil && len(h.untold) == 0 }

// Order takes an order of the newest session. What a LOCK makes the host hand over is
// returned: it is not held from now on, and still claimed until [Holdings.HandedOver].
// Ranges without holdings are among it, for the answer. Of an UNLOCK it is returned what
// has arrived.
func (h *Holdings) Order(o Order, now Instant) (moving Moving) {
	name := typeName{o.App, o.Type}
	delete(h.untold, name)
	if o.Kind == Remove {
		if t := h.types[name]; t != nil && !slices.ContainsFunc(t.ranges, func(r heldRange) bool { return len(r.among) > 0 }) {
			delete(h.types, name)
			return Moving{}
		}
		o.Ranges = []HeldRange{{Last: ^placement.Point(0)}} // what is held stays claimed
		o.Kind = Unlock
	}
	t := h.change(name)
	t.policy, t.handing = o.Policy, o.Kind == Lock && o.WithSticky
	t.resumes = t.handing && (t.competes || t.resumes)
	t.competes = o.Kind == Unlock && isCheckout(o.Policy)
	moving = Moving{App: o.App, Type: o.Type, Version: o.Version, WithSticky: o.WithSticky, Since: now}
	t.cut(bounds(o.Ranges))
	for _, r := range o.Ranges {
		i, _ := slices.BinarySearchFunc(t.ranges, r.First, func(r heldRange, p placement.Point) int { return cmp.Compare(r.first, p) })
		for ; i < len(t.ranges) && t.ranges[i].first <= r.Last; i++ {
			if o.Kind == Unlock && t.ranges[i].underWay && len(r.Hosts) > 0 {
				moving.Arrived++
				moving.Paused = max(moving.Paused, now-t.ranges[i].locked)
			}
			h.apply(o.Kind, &t.ranges[i], r, now)
			if o.Kind == Lock && len(t.ranges[i].among) > 0 {
				moving.Ranges = append(moving.Ranges, t.at(i, now))
			}
		}
	}
	t.merge(now)
	return moving
}

// merge makes one of neighbours that are alike.
func (t *heldTable) merge(now Instant) {
	kept := t.ranges[:1]
	for _, r := range t.ranges[1:] {
		last := &kept[len(kept)-1]
		// What leaves is kept apart by the orders that it leaves for.
		if !last.leaving && !r.leaving && !last.underWay && !r.underWay && last.moved == r.moved && slices.Equal(last.hosts, r.hosts) && slices.Equal(last.readers, r.readers) && slices.Equal(last.among, r.among) &&
			(last.ripe == r.ripe || last.ripe <= now && r.ripe <= now) {
			continue
		}
		kept = append(kept, r)
	}
	t.ranges = kept
}

func (h *Holdings) apply(kind OrderKind, r *heldRange, o HeldRange, now Instant) {
	switch kind {
	case Lock:
		r.hosts, r.leaving = nil, len(r.among) > 0
		if r.leaving {
			r.locked = now
		}
	case Update:
		r.hosts, r.among, r.leaving, r.underWay, r.ripe, r.moved = o.Hosts, o.Hosts, false, false, now, o.Moved
		if !o.Clean {
			r.ripe = now + ripeAfter
		}
	case Unlock, Remove:
		r.hosts, r.readers, r.underWay = o.Hosts, o.Readers, false
		if len(r.among) == 0 {
			r.moved = o.Moved
		}
	}
}

// HandedOver notes that nothing of what moved is left here, and returns what to answer.
func (h *Holdings) HandedOver(m Moving) Moving {
	name := typeName{m.App, m.Type}
	if h.types[name] == nil {
		return m
	}
	t := h.change(name)
	t.resumes = t.resumes && !m.WithSticky
	if m.WithSticky && t.handing && !held(t.policy) {
		t.policy = "" // nothing of it is run here before the leader says so
	}
	for i := range t.ranges {
		r := &t.ranges[i]
		if r.leaving && slices.ContainsFunc(m.Ranges, func(c HeldRange) bool { return c.First <= r.first && r.first <= c.Last }) {
			r.among, r.leaving, r.underWay = nil, false, true
		}
	}
	return m
}

// UnderWay reports whether anything that was handed over is nobody's yet, as far as the
// leader has said.
func (h *Holdings) UnderWay() bool {
	for _, t := range h.types {
		if slices.ContainsFunc(t.ranges, func(r heldRange) bool { return r.underWay }) {
			return true
		}
	}
	return false
}

// Leave notes that the host has left: it holds nothing any more, and goes on knowing
// where the rest is.
func (h *Holdings) Leave() {
	for name := range h.types {
		t := h.change(name)
		for i := range t.ranges {
			t.ranges[i].among, t.ranges[i].leaving, t.ranges[i].underWay = nil, false, false
		}
	}
}

// Resume notes that the session in which ranges were locked is over, and that they are
// not handed over yet: they are held again, and claimed, since nobody else can have
// been given them.
func (h *Holdings) Resume() {
	for name, t := range h.types {
		if t.handing || slices.ContainsFunc(t.ranges, func(r heldRange) bool { return r.leaving }) {
			t = h.change(name)
			t.handing = false
			t.competes, t.resumes = t.competes || t.resumes, false
			for i := range t.ranges {
				t.ranges[i].leaving = false
			}
		}
	}
}

// competing returns the checkout types whose partitions this host may lease, with their
// policies.
func (h *Holdings) competing() map[typeName]string {
	competing := map[typeName]string{}
	for name, t := range h.types {
		if t.competes {
			competing[name] = t.policy
		}
	}
	return competing
}

// Claims returns all that the host holds, by type. A type in which it competes is among
// them, whether it holds partitions or not: it may be about to.
func (h *Holdings) Claims(now Instant) []Order {
	var claims []Order
	for name, t := range h.types {
		c := Order{App: name.app, Type: name.typ, Policy: t.policy}
		for i := range t.ranges {
			if len(t.ranges[i].among) > 0 {
				c.Ranges = append(c.Ranges, t.at(i, now))
			}
		}
		if len(c.Ranges) > 0 || t.competes {
			claims = append(claims, c)
		}
	}
	return claims
}

// Holding reports whether the host holds anything, what it hands over included.
func (h *Holdings) Holding() bool {
	for _, t := range h.types {
		if slices.ContainsFunc(t.ranges, func(r heldRange) bool { return len(r.among) > 0 }) {
			return true
		}
	}
	return false
}

// Held says what the host holds at a point.
func (h *Holdings) Held(app, typ string, p placement.Point, now Instant) actor.Hold {
	t := h.types[typeName{app, typ}]
	if t == nil {
		return actor.NotHeld
	}
	r := t.find(p)
	if r.leaving || len(r.among) == 0 || placement.OwnerAmong(p, r.among) != h.self {
		return actor.NotHeld
	}
	return r.hold(now)
}

func (r *heldRange) hold(now Instant) actor.Hold {
	if now < r.ripe {
		return actor.Held
	}
	return actor.HeldClean
}

// Ripens returns when the first of what is held becomes clean; 0 if all is.
func (h *Holdings) Ripens(now Instant) Instant {
	first := Instant(0)
	for _, t := range h.types {
		for i := range t.ranges {
			if r := &t.ranges[i]; len(r.among) > 0 && now < r.ripe && (first == 0 || r.ripe < first) {
				first = r.ripe
			}
		}
	}
	return first
}

// views returns the tables for those who ask with each call. Tables that have not
// changed since are those of old.
func (h *Holdings) views(old map[typeName]*typeView, now Instant, all bool) map[typeName]*typeView {
	views := make(map[typeName]*typeView, len(h.types))
	for name, t := range h.types {
		if v := old[name]; v != nil && h.viewed[name] && !all {
			views[name] = v
			continue
		}
		h.viewed[name] = true
		views[name] = t.view(h.self, now)
	}
	return views
}

// view returns the table with neighbours that are alike as one range.
func (t *heldTable) view(self placement.HostID, now Instant) *typeView {
	v := &typeView{policy: t.policy, handing: t.handing, static: staticHosts(t.policy)}
	for i := range t.ranges {
		r := &t.ranges[i]
		next := rangeView{first: r.first, hosts: r.hosts, readers: r.readers, reads: slices.Contains(r.readers, self), moved: r.moved}
		v.shared = v.shared || len(r.readers) > 0
		if len(r.among) > 0 && !r.leaving {
			next.held, next.formula = r.hold(now), r.among
		}
		if n := len(v.ranges); n > 0 {
			if last := &v.ranges[n-1]; last.held == next.held && last.moved == next.moved && slices.Equal(last.hosts, next.hosts) && slices.Equal(last.readers, next.readers) && slices.Equal(last.formula, next.formula) {
				continue
			}
		}
		v.ranges = append(v.ranges, next)
	}
	return v
}

// change returns the table of a type, to be changed.
func (h *Holdings) change(name typeName) *heldTable {
	t := h.types[name]
	if t == nil {
		t = &heldTable{ranges: []heldRange{{}}}
		h.types[name] = t
	}
	delete(h.viewed, name)
	return t
}

// cut makes ranges begin at points, which are in order. The parts of a range are what
// the whole was.
func (t *heldTable) cut(points []placement.Point) {
	t.ranges = cutAt(t.ranges, points, func(r *heldRange) *placement.Point { return &r.first })
}

func (t *heldTable) find(p placement.Point) *heldRange {
	i, found := slices.BinarySearchFunc(t.ranges, p, func(r heldRange, p placement.Point) int { return cmp.Compare(r.first, p) })
	if !found {
		i--
	}
	return &t.ranges[i]
}

// at returns the i-th range as the host holds it.
func (t *heldTable) at(i int, now Instant) HeldRange {
	last := ^placement.Point(0)
	if i+1 < len(t.ranges) {
		last = t.ranges[i+1].first - 1
	}
	r := &t.ranges[i]
	return HeldRange{First: r.first, Last: last, Hosts: r.among, Clean: now >= r.ripe, Moved: r.moved}
}

// bounds returns where ranges begin, and what comes after them begins, in order.
func bounds(ranges []HeldRange) []placement.Point {
	points := make([]placement.Point, 0, 2*len(ranges))
	for _, r := range ranges {
		points = append(points, r.First)
		if r.Last != ^placement.Point(0) {
			points = append(points, r.Last+1)
		}
	}
	slices.Sort(points)
	return points
}

// cutAt returns ranges in order in which some begin at points, which are in order as
// well. The first range begins at 0. The parts of a range are copies of it.
func cutAt[R any](ranges []R, points []placement.Point, first func(*R) *placement.Point) []R {
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
