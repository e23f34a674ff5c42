package assignment

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// CleanAfter is how long after an unclean take-over nothing of an earlier holder is
// expected any more: as long as tombstones are kept, far above every timeout of a
// statement.
const CleanAfter = time.Hour

// Holdings is what one host holds of the tables, and where it believes the rest to be.
// It stands beside the host's [ownership.Member], which knows its lease and session: every order
// is one of the newest session. It is pure state, for one goroutine at a time.
type Holdings struct {
	self  placement.HostID
	types map[protocol.TypeName]*heldTable
	// tables has each table once; a table's slot is its place here.
	tables []*heldTable
	// groups are those of the session's leader: tables that the same orders are for. They
	// mostly have one each.
	groups map[uint64][]*heldTable
	// remapped: since the last views, types have come, gone, or got another table.
	remapped bool
	// unplaced are the types that the host has begun a session with and whose places no leader has
	// sent yet; nil before the first session.
	unplaced map[protocol.TypeName]struct{}
}

// heldTable is the table of some types as a host knows it.
type heldTable struct {
	types  *typeSet // whose table it is
	slot   int
	group  uint64 // of the session's leader; 0: none
	policy string
	// handing: the policy changes, and the sticky actors of the types are handed over.
	handing bool
	// competes: they are checkout types, and this host may lease their partitions, or they are
	// placed with a group, and this host may run them where it has that group's actors.
	// resumes: it did before everything was to be handed over, which is not done yet.
	competes, resumes bool
	// settled is from when on nothing of holders that the types had before they were placed
	// with their group is under way; clean: it has come.
	settled clock.Instant
	clean   bool
	heldRanges
	view *View // nil: it has changed since
}

// typeSet is some types. It never changes.
type typeSet struct {
	names []protocol.TypeName
	is    map[protocol.TypeName]struct{}
}

func newTypeSet(names []protocol.TypeName) *typeSet {
	s := &typeSet{names: names, is: make(map[protocol.TypeName]struct{}, len(names))}
	for _, name := range names {
		s.is[name] = struct{}{}
	}
	return s
}

// NewHoldings returns the state of a host that has just registered.
func NewHoldings(self placement.HostID) *Holdings {
	return &Holdings{self: self, types: map[protocol.TypeName]*heldTable{}, groups: map[uint64][]*heldTable{}, remapped: true}
}

// Moving is what a host hands over because of a LOCK.
type Moving struct {
	Order protocol.Order // that asked for it
	// Ranges are what is handed over, for the answer.
	Ranges []protocol.Range
	// Since is when the order came.
	Since clock.Instant
	// Arrived is how many ranges that were handed over before have arrived, by an UNLOCK,
	// and Paused how long after their LOCK, of the one that took longest.
	Arrived int
	Paused  time.Duration
	parts   []movingPart
}

// movingPart is what moves of one table.
type movingPart struct {
	types  *typeSet
	ranges []protocol.Range
}

// Types returns the types that the order is about.
func (m Moving) Types() (types []protocol.TypeName) {
	for _, part := range m.parts {
		types = append(types, part.types.names...)
	}
	return types
}

// Concerns reports whether an actor is of a type that the order is about.
func (m Moving) Concerns(key actor.Key) bool {
	return slices.ContainsFunc(m.parts, func(p movingPart) bool { return p.concerns(key) })
}

func (p movingPart) concerns(key actor.Key) bool {
	_, is := p.types.is[protocol.TypeOf(key)]
	return is
}

// Contains reports whether an actor moves by its point.
func (m Moving) Contains(self placement.HostID, key actor.Key) bool {
	for _, part := range m.parts {
		if len(part.ranges) == 0 || !part.concerns(key) {
			continue
		}
		p := placement.PointOf(key)
		i, found := slices.BinarySearchFunc(part.ranges, p, func(r protocol.Range, p placement.Point) int { return cmp.Compare(r.First, p) })
		if !found {
			i--
		}
		return i >= 0 && p <= part.ranges[i].Last && placement.OwnerAmong(p, part.ranges[i].Hosts) == self
	}
	return false
}

// Connect begins a session in which the host reports types. Its leader names other groups.
func (h *Holdings) Connect(types []protocol.Type) {
	clear(h.groups)
	for _, t := range h.tables {
		t.group = 0
	}
	if h.Informed() {
		return
	}
	h.unplaced = make(map[protocol.TypeName]struct{}, len(types))
	for _, t := range types {
		h.unplaced[t.TypeName()] = struct{}{}
	}
}

// Reports notes that the host reports types in the place of others: of those that it does not
// run any more a leader may tell nothing.
func (h *Holdings) Reports(types map[protocol.TypeName]protocol.Type) {
	for name := range h.unplaced {
		if _, still := types[name]; !still {
			delete(h.unplaced, name)
		}
	}
}

// Informed reports whether a leader has sent where everything is. From then on no type without
// a table is held by anybody; before, any may be, whatever this host knows of it.
func (h *Holdings) Informed() bool { return h.unplaced != nil && len(h.unplaced) == 0 }

// Order takes an order of the newest session. What a LOCK makes the host hand over is
// returned: it is not held from now on, and still claimed until [Holdings.HandedOver].
// Ranges without holdings are among it, for the answer. Of an UNLOCK it is returned what
// has arrived.
func (h *Holdings) Order(o protocol.Order, now clock.Instant) (moving Moving) {
	if o.Kind == protocol.Form {
		h.form(o.Group, o.Types, now)
		return Moving{Order: o}
	}
	tables := h.groups[o.Group]
	if o.Group == 0 {
		tables = h.separate(o.Types[:1])
	}
	moving = Moving{Order: o, Since: now}
	for _, t := range slices.Clone(tables) {
		if len(h.unplaced) > 0 {
			for _, name := range t.types.names {
				delete(h.unplaced, name)
			}
		}
		if o.Kind == protocol.Remove && !t.any(isHolding) {
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
	case protocol.Remove:
		h.disband(o.Group)
	case protocol.Unlock:
		h.unite(o.Group, now)
	}
	return moving
}

// orderTable performs an order at one of the tables that it is for.
func (h *Holdings) orderTable(t *heldTable, o protocol.Order, moving *Moving, now clock.Instant) {
	if o.Kind == protocol.Remove {
		o.Ranges = []protocol.Range{{Last: placement.LastPoint}} // what is held stays claimed
		o.Kind = protocol.Unlock
	}
	t.view = nil
	t.policy, t.handing = o.Policy, o.Kind == protocol.Lock && o.WithSticky
	t.resumes = t.handing && (t.competes || t.resumes)
	competed := t.competes || t.resumes
	t.competes = o.Kind == protocol.Unlock && (placement.IsCheckout(o.Policy) || placement.IsTogether(o.Policy))
	if t.competes && !competed {
		t.settled, t.clean = now+CleanAfter, false
	}
	t.heldRanges = t.change(o.Ranges, now, func(r *HeldRange, by protocol.Range) {
		if o.Kind == protocol.Unlock && r.underWay && len(by.Hosts) > 0 {
			moving.Arrived++
			moving.Paused = max(moving.Paused, now-r.locked)
		}
		r.order(o.Kind, by, now)
	})
	if o.Kind != protocol.Lock {
		return
	}
	part := movingPart{types: t.types}
	for _, by := range o.Ranges {
		for r, last := range t.from(by.First) {
			if r.First > by.Last {
				break
			}
			if len(r.among) > 0 {
				part.ranges = append(part.ranges, r.claimed(last, now))
			}
		}
	}
	moving.parts = append(moving.parts, part)
}

// inAll returns the ranges where at least one part holds something. A range is clean if every
// part holds all of it as clean.
func inAll(ranges []protocol.Range, parts []movingPart) (out []protocol.Range) {
	for _, r := range ranges {
		some, clean := false, true
		for _, part := range parts {
			some = some || slices.ContainsFunc(part.ranges, func(c protocol.Range) bool { return c.First <= r.Last && r.First <= c.Last })
			clean = clean && cleanThroughout(part.ranges, r)
		}
		if some {
			r.Clean = clean
			out = append(out, r)
		}
	}
	return out
}

// HandedOver notes that nothing of what moved is left here, and returns what to answer.
func (h *Holdings) HandedOver(m Moving, now clock.Instant) Moving {
	for _, part := range m.parts {
		for _, t := range h.of(part.types) {
			t.view = nil
			t.resumes = t.resumes && !m.Order.WithSticky
			if m.Order.WithSticky && t.handing && !placement.Exclusive(t.policy) {
				t.policy = "" // nothing of it is run here before the leader allows it
			}
			t.heldRanges = t.change(part.ranges, now, func(r *HeldRange, _ protocol.Range) {
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
	h.changeAll(0, func(r *HeldRange) { r.among, r.leaving, r.underWay = nil, false, false })
}

// Resume notes that the session in which ranges were locked is over, and that they are
// not handed over yet: they are held again, and claimed, since nobody else can have
// been given them.
func (h *Holdings) Resume(now clock.Instant) {
	for _, t := range h.tables {
		if t.handing || t.any(isLeaving) {
			t.view, t.handing = nil, false
			t.competes, t.resumes = t.competes || t.resumes, false
			t.heldRanges = t.change(everywhere, now, func(r *HeldRange, _ protocol.Range) { r.leaving = false })
		}
	}
}

// everywhere is all of the hash space.
var everywhere = []protocol.Range{{Last: placement.LastPoint}}

// changeAll changes all ranges of all tables.
func (h *Holdings) changeAll(now clock.Instant, change func(*HeldRange)) {
	for _, t := range h.tables {
		t.view = nil
		t.heldRanges = t.change(everywhere, now, func(r *HeldRange, _ protocol.Range) { change(r) })
	}
}

// Competing returns the checkout types whose partitions this host may lease, with their
// policies.
func (h *Holdings) Competing() map[protocol.TypeName]string {
	var competing map[protocol.TypeName]string
	for _, t := range h.tables {
		if !t.competes || !placement.IsCheckout(t.policy) {
			continue
		}
		if competing == nil {
			competing = map[protocol.TypeName]string{}
		}
		for _, name := range t.types.names {
			competing[name] = t.policy
		}
	}
	return competing
}

// Claims returns all that the host holds, by table. Those of types in which it competes are
// among them, whether it holds partitions or not: it may be about to. So are those of types
// that are placed with a group: a new leader has to know where this host runs them.
func (h *Holdings) Claims(now clock.Instant) []protocol.Order {
	var claims []protocol.Order
	for _, t := range h.tables {
		c := protocol.Order{Types: t.types.names, Policy: t.policy}
		for r, last := range t.All() {
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
func (h *Holdings) Held(app, typ string, p placement.Point, now clock.Instant) actor.Hold {
	t := h.types[protocol.TypeName{App: app, Type: typ}]
	if t == nil {
		return actor.NotHeld
	}
	r := t.Find(p)
	if len(r.among) == 0 || placement.OwnerAmong(p, r.among) != h.self {
		return actor.NotHeld
	}
	return r.hold(now)
}

// CleanAt returns when the first of what is held becomes clean; 0 if all is.
func (h *Holdings) CleanAt(now clock.Instant) clock.Instant {
	first := clock.Instant(0)
	for _, t := range h.tables {
		if cleanAt := t.nextClean(now); cleanAt != 0 && (first == 0 || cleanAt < first) {
			first = cleanAt
		}
		if t.competes && !t.clean && (first == 0 || t.settled < first) {
			first = t.settled
		}
	}
	return first
}

// RefreshClean makes the views show what has become clean.
func (h *Holdings) RefreshClean(now clock.Instant) {
	for _, t := range h.tables {
		t.clean = t.clean || t.competes && t.settled <= now
	}
	h.changeAll(now, func(*HeldRange) {})
}

// Slots returns the place of each type's table among those of views, and whether that has
// changed since the last call.
func (h *Holdings) Slots() (slots iter.Seq2[protocol.TypeName, int], changed bool) {
	changed, h.remapped = h.remapped, false
	return func(yield func(protocol.TypeName, int) bool) {
		for name, t := range h.types {
			if !yield(name, t.slot) {
				return
			}
		}
	}, changed
}

// Views returns the tables by their slots, for those who ask with each call; those that
// have not changed are the same as before.
func (h *Holdings) Views() []*View {
	views := make([]*View, len(h.tables))
	for i, t := range h.tables {
		if t.view == nil {
			t.view = &View{Policy: t.policy, HandingOver: t.handing, Competes: t.competes, Clean: t.clean, Static: placement.StaticHosts(t.policy), heldRanges: t.heldRanges, Shared: t.any(isShared)}
			if g, grouped := placement.ParseTogether(t.policy); grouped {
				t.view.Group = &g
			}
		}
		views[i] = t.view
	}
	return views
}

// add takes a table in, for types that have none.
func (h *Holdings) add(t *heldTable, names []protocol.TypeName) *heldTable {
	t.types, t.slot, t.view = newTypeSet(names), len(h.tables), nil
	h.tables = append(h.tables, t)
	for _, name := range names {
		h.types[name] = t
	}
	h.remapped = true
	return t
}
