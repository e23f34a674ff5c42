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
	// tables has each table once; a table's slot is its place here.
	tables []*heldTable
	// groups are those of the session's leader: tables that the same orders are for. They
	// mostly have one each.
	groups map[uint64][]*heldTable
	// remapped: since the last views, types have come, gone, or got another table.
	remapped bool
	// untold are the types that the host has begun a session with and whose places no leader has
	// sent yet; nil before the first session.
	untold map[typeName]struct{}
}

// heldTable is the table of some types as a host knows it.
type heldTable struct {
	types  *typeSet // whose table it is
	slot   int
	group  uint64 // of the session's leader; 0: none
	policy string
	// handing: the policy changes, and the sticky actors of the types are handed over.
	handing bool
	// competes: they are checkout types, and this host may lease their partitions.
	// resumes: it did before everything was to be handed over, which is not done yet.
	competes, resumes bool
	heldRanges
	view *typeView // nil: it has changed since
}

// typeSet is some types. It never changes.
type typeSet struct {
	names []typeName
	is    map[typeName]struct{}
}

func newTypeSet(names []typeName) *typeSet {
	s := &typeSet{names: names, is: make(map[typeName]struct{}, len(names))}
	for _, name := range names {
		s.is[name] = struct{}{}
	}
	return s
}

// NewHoldings returns the state of a host that has just registered.
func NewHoldings(self placement.HostID) *Holdings {
	return &Holdings{self: self, types: map[typeName]*heldTable{}, groups: map[uint64][]*heldTable{}, remapped: true}
}

// Moving is what a host hands over because of a LOCK.
type Moving struct {
	Order Order // that asked for it
	// Ranges are what is handed over, for the answer.
	Ranges []HeldRange
	// Since is when the order came.
	Since Instant
	// Arrived is how many ranges that were handed over before have arrived, by an UNLOCK,
	// and Paused how long after their LOCK, of the one that took longest.
	Arrived int
	Paused  time.Duration
	parts   []movingPart
}

// movingPart is what moves of one table.
type movingPart struct {
	types  *typeSet
	ranges []HeldRange
}

// Concerns reports whether an actor is of a type that the order is about.
func (m Moving) Concerns(key actor.Key) bool {
	return slices.ContainsFunc(m.parts, func(p movingPart) bool { return p.concerns(key) })
}

func (p movingPart) concerns(key actor.Key) bool {
	_, is := p.types.is[typeName{key.App, key.Type}]
	return is
}

// Contains reports whether an actor moves by its point.
func (m Moving) Contains(self placement.HostID, key actor.Key) bool {
	for _, part := range m.parts {
		if len(part.ranges) == 0 || !part.concerns(key) {
			continue
		}
		p := placement.PointOf(key)
		i, found := slices.BinarySearchFunc(part.ranges, p, func(r HeldRange, p placement.Point) int { return cmp.Compare(r.First, p) })
		if !found {
			i--
		}
		return i >= 0 && p <= part.ranges[i].Last && placement.OwnerAmong(p, part.ranges[i].Hosts) == self
	}
	return false
}

// Connect begins a session in which the host reports types. Its leader names other groups.
func (h *Holdings) Connect(types []Type) {
	clear(h.groups)
	for _, t := range h.tables {
		t.group = 0
	}
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
	if o.Kind == Form {
		h.form(o.Group, o.Types, now)
		return Moving{Order: o}
	}
	tables := h.groups[o.Group]
	if o.Group == 0 {
		tables = []*heldTable{h.alone(o.Types)}
	}
	moving = Moving{Order: o, Since: now}
	for _, t := range slices.Clone(tables) {
		if len(h.untold) > 0 {
			for _, name := range t.types.names {
				delete(h.untold, name)
			}
		}
		if o.Kind == Remove && !t.any(isHolding) {
			h.remove(t)
			continue
		}
		h.orderTable(t, o, &moving, now)
	}
	if len(moving.parts) == 1 {
		moving.Ranges = moving.parts[0].ranges
	} else if len(moving.parts) > 1 {
		moving.Ranges = inAll(o.Ranges, moving.parts)
	}
	switch o.Kind {
	case Remove:
		h.disband(o.Group)
	case Unlock:
		h.unite(o.Group, now)
	}
	return moving
}

// orderTable performs an order at one of the tables that it is for.
func (h *Holdings) orderTable(t *heldTable, o Order, moving *Moving, now Instant) {
	if o.Kind == Remove {
		o.Ranges = []HeldRange{{Last: ^placement.Point(0)}} // what is held stays claimed
		o.Kind = Unlock
	}
	t.view = nil
	t.policy, t.handing = o.Policy, o.Kind == Lock && o.WithSticky
	t.resumes = t.handing && (t.competes || t.resumes)
	t.competes = o.Kind == Unlock && isCheckout(o.Policy)
	t.heldRanges = t.change(o.Ranges, now, func(r *heldRange, by HeldRange) {
		if o.Kind == Unlock && r.underWay && len(by.Hosts) > 0 {
			moving.Arrived++
			moving.Paused = max(moving.Paused, now-r.locked)
		}
		r.order(o.Kind, by, now)
	})
	if o.Kind != Lock {
		return
	}
	part := movingPart{types: t.types}
	for _, by := range o.Ranges {
		for r, last := range t.from(by.First) {
			if r.first > by.Last {
				break
			}
			if len(r.among) > 0 {
				part.ranges = append(part.ranges, r.claimed(last, now))
			}
		}
	}
	moving.parts = append(moving.parts, part)
}

// order changes a range by what an order says of it.
func (r *heldRange) order(kind OrderKind, o HeldRange, now Instant) {
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
	case Unlock, Remove, Form:
		r.hosts, r.readers, r.underWay = o.Hosts, o.Readers, false
		if len(r.among) == 0 {
			r.moved = o.Moved
		}
	}
}

// claimed returns a range as the host holds it.
func (r *heldRange) claimed(last placement.Point, now Instant) HeldRange {
	return HeldRange{First: r.first, Last: last, Hosts: r.among, Clean: now >= r.ripe, Moved: r.moved}
}

// inAll returns the ranges that at least one part holds. A range is clean if every part
// that holds it holds it clean.
func inAll(ranges []HeldRange, parts []movingPart) (out []HeldRange) {
	for _, r := range ranges {
		some, clean := false, true
		for _, part := range parts {
			at := r.First
			for _, c := range part.ranges {
				if c.Last < r.First || r.Last < c.First {
					continue
				}
				some, clean = true, clean && c.Clean && c.First <= at
				at = c.Last + 1
			}
			clean = clean && (at > r.Last || at == 0)
		}
		if some {
			r.Clean = clean
			out = append(out, r)
		}
	}
	return out
}

// HandedOver notes that nothing of what moved is left here, and returns what to answer.
func (h *Holdings) HandedOver(m Moving, now Instant) Moving {
	for _, part := range m.parts {
		for _, t := range h.of(part.types) {
			t.view = nil
			t.resumes = t.resumes && !m.Order.WithSticky
			if m.Order.WithSticky && t.handing && !held(t.policy) {
				t.policy = "" // nothing of it is run here before the leader allows it
			}
			t.heldRanges = t.change(part.ranges, now, func(r *heldRange, _ HeldRange) {
				if r.leaving {
					r.among, r.leaving, r.underWay = nil, false, true
				}
			})
		}
	}
	return m
}

// UnderWay reports whether the leader has yet to name the new holder of anything that was
// handed over.
func (h *Holdings) UnderWay() bool {
	return slices.ContainsFunc(h.tables, func(t *heldTable) bool { return t.any(isUnderWay) })
}

// Leave notes that the host has left: it holds nothing any more, and goes on knowing
// where the rest is.
func (h *Holdings) Leave() {
	h.changeAll(0, func(r *heldRange) { r.among, r.leaving, r.underWay = nil, false, false })
}

// Resume notes that the session in which ranges were locked is over, and that they are
// not handed over yet: they are held again, and claimed, since nobody else can have
// been given them.
func (h *Holdings) Resume(now Instant) {
	for _, t := range h.tables {
		if t.handing || t.any(isLeaving) {
			t.view, t.handing = nil, false
			t.competes, t.resumes = t.competes || t.resumes, false
			t.heldRanges = t.change(everywhere, now, func(r *heldRange, _ HeldRange) { r.leaving = false })
		}
	}
}

// everywhere is all of the hash space.
var everywhere = []HeldRange{{Last: ^placement.Point(0)}}

// changeAll changes all ranges of all tables.
func (h *Holdings) changeAll(now Instant, change func(*heldRange)) {
	for _, t := range h.tables {
		t.view = nil
		t.heldRanges = t.change(everywhere, now, func(r *heldRange, _ HeldRange) { change(r) })
	}
}

// competing returns the checkout types whose partitions this host may lease, with their
// policies.
func (h *Holdings) competing() map[typeName]string {
	var competing map[typeName]string
	for _, t := range h.tables {
		if !t.competes {
			continue
		}
		if competing == nil {
			competing = map[typeName]string{}
		}
		for _, name := range t.types.names {
			competing[name] = t.policy
		}
	}
	return competing
}

// Claims returns all that the host holds, by table. Those of types in which it competes are
// among them, whether it holds partitions or not: it may be about to.
func (h *Holdings) Claims(now Instant) []Order {
	var claims []Order
	for _, t := range h.tables {
		c := Order{Types: t.types.names, Policy: t.policy}
		for r, last := range t.all() {
			if len(r.among) > 0 {
				c.Ranges = append(c.Ranges, r.claimed(last, now))
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
	return slices.ContainsFunc(h.tables, func(t *heldTable) bool { return t.any(isHolding) })
}

// Held says what the host holds at a point.
func (h *Holdings) Held(app, typ string, p placement.Point, now Instant) actor.Hold {
	t := h.types[typeName{app, typ}]
	if t == nil {
		return actor.NotHeld
	}
	r := t.find(p)
	if len(r.among) == 0 || placement.OwnerAmong(p, r.among) != h.self {
		return actor.NotHeld
	}
	return r.hold(now)
}

// Ripens returns when the first of what is held becomes clean; 0 if all is.
func (h *Holdings) Ripens(now Instant) Instant {
	first := Instant(0)
	for _, t := range h.tables {
		if ripe := t.ripens(now); ripe != 0 && (first == 0 || ripe < first) {
			first = ripe
		}
	}
	return first
}

// ripen has views say of what has become clean that it is.
func (h *Holdings) ripen(now Instant) { h.changeAll(now, func(*heldRange) {}) }

// views returns the tables by their slots, for those who ask with each call; those that
// have not changed are the same as before.
func (h *Holdings) views() []*typeView {
	views := make([]*typeView, len(h.tables))
	for i, t := range h.tables {
		if t.view == nil {
			t.view = &typeView{policy: t.policy, handing: t.handing, competes: t.competes, static: staticHosts(t.policy), heldRanges: t.heldRanges, shared: t.any(isShared)}
		}
		views[i] = t.view
	}
	return views
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
