package assignment

import (
	"fmt"
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/ownership"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// A cluster of the pure parts: [ownership.Leader] and [Tables] at schedulers, [ownership.Member] and
// [Holdings] at hosts, over a database, a clock and streams of the test's.
type tablesWorld struct {
	now    clock.Instant
	leader struct { // the lease row
		epoch uint64
		until clock.Instant
	}
	rows    map[placement.HostID]clock.Instant // until when each is leased
	parts   [2]placement.HostID                // who has leased each partition
	hosts   []*tablesHost
	leaders []*tablesLeader // of all terms
	next    int             // numbers hosts
	deploys tablesDeploys
	// unsettled says of each actor of a type until when a commit of an earlier holder may land.
	unsettled map[tablesPoint]clock.Instant
	stats     map[string]int
	broken    tablesRule
}

// tablesRule is a rule that a history breaks on purpose.
type tablesRule int

const (
	noRule           tablesRule = iota
	waitsForClaims              // a new leader gives nothing before all have claimed
	newestSession               // a host takes orders of its newest session alone
	answersAfterward            // a host answers a LOCK when the hand-over is done
	clearsWhenOver              // a row is cleared when its lease is over
	countsUnclean               // what a cleared host held is not clean
	competesAlways              // a host leases partitions while the policy in force is checkout alone
	toldFirst                   // a host runs nothing anywhere before a leader has told what is held
	stopsFirst                  // what is run anywhere is handed over before it is held
	groupsStopFirst             // a type is handed over before it comes to or leaves a group
	claimsGroups                // a host claims the types that it runs at the places of a group
)

const tablesLease clock.Instant = 100

// tablesTypes are the types of a history. Sticky policies and partitions are tried with the
// first alone. The last is a group, with which those before it may be placed.
var tablesTypes = [...]protocol.TypeName{{App: "a", Type: "T"}, {App: "a", Type: "U"}, {App: "a", Type: "V"}, {App: "a", Type: "@g"}}

// tablesGroup is the group's place among the types.
const tablesGroup = len(tablesTypes) - 1

// tablesDeploys are the deployments of the types.
type tablesDeploys [len(tablesTypes)]struct {
	policy string
	n      uint64
}

// tablesTogether is the policy of types that are placed with the group.
var tablesTogether = placement.Together{Type: "@g"}.Policy()

// groupPoint is where an actor is that is placed with the group.
func groupPoint(i int) placement.Point { return tablesPoints[(i+5)%len(tablesPoints)] }

// tablesPoint is the actor of one of the types at one of the points, by their places.
type tablesPoint struct{ typ, at int }

// tablesActor is the actor for which sticky policies are tried; tablesPoints are where
// the invariants are looked at.
var (
	tablesActor  = actor.Key{App: "a", Type: "T", ID: "x"}
	tablesPoints = func() []placement.Point {
		points := []placement.Point{placement.PointOf(tablesActor), 0, placement.LastPoint}
		for i := range 13 {
			points = append(points, placement.Point(uint64(i)*0x13b1_3b13_b13b_13b1))
		}
		return points
	}()
)

// tablesPolicies are those that are deployed. The fourth host of a history has no part of
// static types.
var tablesPolicies = []string{abi.PlacementRing, "ring:2", abi.PlacementSticky, abi.PlacementAny, "static:n0,n1", "static:n2,n0,n1", "checkout:2"}

type tablesHost struct {
	name     string // stays when it registers anew
	id       placement.HostID
	member   *ownership.Member
	holdings *Holdings
	stream   *tablesStream // of its session; nil: none
	old      []*tablesStream
	handing  []Moving
	draining bool
	deploys  tablesDeploys // by which it would run the types
	parts    [2]bool       // partitions that it holds
	asked    int           // the partition of a lease that it was given and does not know of yet, plus 1
	early    bool          // it is of a version that knows no groups
	frozen   bool
}

type tablesStream struct {
	session   protocol.Session
	ungrouped *protocol.Ungrouped // of two that do not both know groups
	host      *tablesHost
	leader    *tablesLeader
	up        []func(l *tablesLeader)
	down      []func(h *tablesHost)
}

type tablesLeader struct {
	leader  *ownership.Leader
	tables  *Tables
	streams map[placement.HostID]*tablesStream
	frozen  bool
	early   bool
}

func newTablesWorld() *tablesWorld {
	w := &tablesWorld{
		rows:      map[placement.HostID]clock.Instant{},
		unsettled: map[tablesPoint]clock.Instant{}, stats: map[string]int{},
	}
	for k := range tablesTypes {
		w.deploys[k].policy, w.deploys[k].n = abi.PlacementRing, 1
		for i := range tablesPoints {
			w.unsettled[tablesPoint{k, i}] = CleanAfter
		}
	}
	return w
}

func (w *tablesWorld) register(h *tablesHost) {
	w.next++
	h.id = placement.HostID(fmt.Sprintf("h%d", w.next))
	h.member, h.holdings = ownership.NewMember(h.id), NewHoldings(h.id)
	h.stream, h.handing = nil, nil
	h.parts, h.asked = [2]bool{}, 0
	w.rows[h.id] = w.now + tablesLease
	h.member.Renewed(w.now, tablesLease)
}

// anywhere says whether the host may begin turns of actors of a type that it does not hold.
func (h *tablesHost) anywhere(w *tablesWorld, k int) bool {
	t, policy := h.holdings.types[tablesTypes[k]], h.deploys[k].policy
	switch {
	case !h.member.Current(w.now), policy == "", placement.Exclusive(policy):
		return false
	case t == nil:
		return h.holdings.Informed() || w.broken == toldFirst
	default:
		return !placement.Exclusive(t.policy)
	}
}

// runs says whether the host may have turns of the i-th actor of a type under way: it holds
// it, or hands it over. A host whose count is over runs none; one that is frozen does when it
// wakes.
func (h *tablesHost) runs(k, i int, now clock.Instant) bool {
	p := tablesPoints[i]
	if !h.member.Current(now) {
		return false
	}
	t := h.holdings.types[tablesTypes[k]]
	owns := k == 0 && (p == tablesPoints[0] && len(h.member.Owned()) > 0 || h.parts[placement.PartitionOf(p, 2)])
	return owns || t != nil && t.policy != abi.PlacementSticky && h.has(k, i)
}

// has says whether the i-th actor of a type is at this host by the tables.
func (h *tablesHost) has(k, i int) bool {
	t, p := h.holdings.types[tablesTypes[k]], tablesPoints[i]
	if t != nil && placement.IsTogether(t.policy) {
		if !t.competes && !t.resumes {
			return false
		}
		t, p = h.holdings.types[tablesTypes[tablesGroup]], groupPoint(i)
	}
	if t == nil {
		return false
	}
	r := t.Find(p)
	return len(r.among) > 0 && placement.OwnerAmong(p, r.among) == h.id
}

// holdsClean says whether the host answers from memory alone for the i-th actor of a type.
func (h *tablesHost) holdsClean(k, i int, now clock.Instant) bool {
	name, p := tablesTypes[k], tablesPoints[i]
	if t := h.holdings.types[name]; t != nil && placement.IsTogether(t.policy) {
		if !t.competes || now < t.settled {
			return false
		}
		name, p = tablesTypes[tablesGroup], groupPoint(i)
	}
	return h.member.Current(now) && h.holdings.Held(name.App, name.Type, p, now) == actor.HeldClean
}

// ended notes that a host holds nothing any more, without having handed it over.
func (w *tablesWorld) ended(h *tablesHost) {
	for k := range tablesTypes {
		for i := range tablesPoints {
			if h.has(k, i) {
				w.unsettled[tablesPoint{k, i}] = w.now + CleanAfter
			}
		}
	}
}

func (w *tablesWorld) renew(h *tablesHost) {
	if _, there := w.rows[h.id]; !there {
		h.member.End()
		h.breakStream(w.now)
		w.register(h)
		w.stats["host ended"]++
		return
	}
	w.rows[h.id] = w.now + tablesLease
	h.member.Renewed(w.now, tablesLease)
}

func (h *tablesHost) breakStream(now clock.Instant) {
	if h.stream == nil {
		return
	}
	h.member.Disconnect(h.stream.session)
	h.old = append(h.old, h.stream)
	h.stream, h.handing = nil, nil
	h.holdings.Resume(now)
}

func (w *tablesWorld) elect() {
	w.leader.epoch++
	w.leader.until = w.now + tablesLease
	l := &tablesLeader{leader: ownership.NewLeader(w.leader.epoch, w.now, tablesLease), tables: NewTables(8), streams: map[placement.HostID]*tablesStream{}}
	var there []placement.HostID
	for id := range w.rows {
		there = append(there, id)
	}
	l.leader.Registered(there)
	w.leaders = append(w.leaders, l)
}

// plan has a leader send what follows.
func (w *tablesWorld) plan(l *tablesLeader) {
	if !l.leader.Leading(w.now) {
		return
	}
	if w.broken == stopsFirst {
		for _, name := range tablesTypes {
			_, policy := l.tables.serving(name)
			if table := l.tables.types[name]; table != nil && !placement.Exclusive(table.policy) && policy != "" && placement.Exclusive(policy) {
				table.policy, table.ranges = policy, []tableRange{{}}
			}
		}
	}
	if w.broken == groupsStopFirst {
		for _, name := range tablesTypes {
			_, policy := l.tables.serving(name)
			if table := l.tables.types[name]; table != nil && table.policy != policy && policy != "" && (placement.IsTogether(table.policy) || placement.IsTogether(policy)) {
				table.policy, table.ranges = policy, []tableRange{{}}
			}
		}
	}
	for _, o := range l.tables.Plan(l.leader.Granting(w.now) || w.broken == waitsForClaims) {
		w.stats[fmt.Sprint("order ", o.Kind)]++
		if o.WithSticky {
			w.stats["policy switched"]++
		}
		s := l.streams[o.To]
		switch {
		case s == nil:
		case s.ungrouped == nil:
			s.down = append(s.down, func(h *tablesHost) { w.take(h, s, o) })
		default:
			for _, one := range s.ungrouped.Orders(o) {
				s.down = append(s.down, func(h *tablesHost) { w.take(h, s, one) })
			}
		}
	}
	switch n := len(l.tables.tables); {
	case n == len(tablesTypes):
		w.stats["no types share a table"]++
	case n == 1 && len(l.tables.types) == len(tablesTypes):
		w.stats["all types share a table"]++
	}
}

// released answers a LOCK.
func (s *tablesStream) released(h *tablesHost, m Moving) {
	id := h.id
	s.up = append(s.up, func(l *tablesLeader) {
		answers, all := [][]protocol.Range{m.Ranges}, true
		if s.ungrouped != nil {
			answers, all = s.ungrouped.Answered(m.Order.Types[0], m.Order.Version, m.Ranges)
		}
		if all {
			l.tables.Released(id, m.Order.Version, answers...)
		}
	})
}

// updated answers an UPDATE.
func (s *tablesStream) updated(h *tablesHost, o protocol.Order) {
	id := h.id
	s.up = append(s.up, func(l *tablesLeader) {
		all := true
		if s.ungrouped != nil {
			_, all = s.ungrouped.Answered(o.Types[0], o.Version, nil)
		}
		if all {
			l.tables.Updated(id, o.Version)
		}
	})
}

// take has a host take an order that came in a session.
func (w *tablesWorld) take(h *tablesHost, s *tablesStream, o protocol.Order) {
	m := h.holdings.Order(o, w.now)
	switch o.Kind {
	case protocol.Lock:
		h.handing = append(h.handing, m)
		if w.broken == answersAfterward {
			s.released(h, m)
		}
	case protocol.Update:
		s.updated(h, o)
	}
	if n := len(h.holdings.types); n == len(tablesTypes) && len(h.holdings.tables) == 1 {
		w.stats["all types share a table of a host"]++
	}
}

func (w *tablesWorld) connect(h *tablesHost, l *tablesLeader) {
	h.breakStream(w.now)
	session, keys, ok := h.member.Connect(l.leader.Epoch())
	if !ok {
		return
	}
	s := &tablesStream{session: session, host: h, leader: l}
	claims, id, name, draining := h.holdings.Claims(w.now), h.id, h.name, h.draining
	if w.broken == claimsGroups {
		claims = slices.DeleteFunc(claims, func(o protocol.Order) bool { return placement.IsTogether(o.Policy) })
	}
	if h.early || l.early {
		s.ungrouped = protocol.NewUngrouped()
	}
	types := h.types()
	h.holdings.Connect(types)
	s.up = append(s.up, func(l *tablesLeader) {
		if _, there := w.rows[id]; !there || !l.leader.Begin(session) {
			return // a leader serves those alone that have a row
		}
		l.streams[id] = s
		l.tables.Begin(id, name, draining)
		if !h.early && !l.early { // the first host announces nothing either
			l.tables.Offers(id, placement.Resources{Weight: float64(name[1] - '0')})
		}
		l.tables.Reported(id, types)
		for _, c := range claims {
			if s.ungrouped == nil {
				l.tables.Claim(id, c.Types, c.Policy, c.Ranges)
				continue
			}
			for _, name := range c.Types {
				l.tables.Claim(id, []protocol.TypeName{name}, c.Policy, slices.Clone(c.Ranges))
			}
		}
		if len(keys) > 0 {
			l.tables.Claim(id, []protocol.TypeName{{App: "a", Type: "T"}}, abi.PlacementSticky, nil)
		}
		if refused, _ := l.leader.Claimed(session, keys); len(refused) > 0 {
			w.stats["two hosts claim the actor"]++
		}
		l.tables.Claimed(id)
	})
	h.stream = s
}

func (h *tablesHost) types() (types []protocol.Type) {
	for k, d := range h.deploys {
		if d.policy != "" {
			types = append(types, protocol.Type{App: tablesTypes[k].App, Name: tablesTypes[k].Type, Placement: d.policy, Generation: d.n, Readers: true})
		}
	}
	return types
}

// handedOver ends the first hand-over of a host.
func (w *tablesWorld) handedOver(h *tablesHost) {
	m := h.holdings.HandedOver(h.handing[0], w.now)
	h.handing = h.handing[1:]
	s := h.stream
	if m.Order.WithSticky && m.Concerns(tablesActor) {
		w.answered(h) // it has waited for that
		h.parts = [2]bool{}
		for i := range w.parts {
			if w.parts[i] == h.id {
				w.parts[i] = ""
			}
		}
		for _, key := range h.member.Owned() {
			if session, ok := h.member.Release(key); ok {
				s.up = append(s.up, func(l *tablesLeader) { l.leader.Release(session, key) })
			}
		}
	}
	s.released(h, m)
}

func (w *tablesWorld) up(s *tablesStream) {
	m := s.up[0]
	s.up = s.up[1:]
	// The first message opens the session; the others count while it is the newest.
	if cur := s.leader.streams[s.session.Host]; cur == s || cur == nil || cur.session.Number < s.session.Number {
		m(s.leader)
		w.plan(s.leader)
	}
}

func (w *tablesWorld) down(s *tablesStream) {
	m := s.down[0]
	s.down = s.down[1:]
	if s.host.stream == s || w.broken == newestSession && s.host.id == s.session.Host && s.host.stream != nil {
		m(s.host)
	}
}

// compete has a host lease a partition if it may; it does not know yet that it has.
func (w *tablesWorld) compete(h *tablesHost, part int) {
	if len(h.holdings.Competing()) == 0 && w.broken != competesAlways || h.asked != 0 {
		return
	}
	if _, there := w.rows[w.parts[part]]; !there { // who had it has ended
		w.parts[part], h.asked = h.id, part+1
	}
}

// answered tells a host of a partition that it leased, which it gives back if it may not
// have it any more.
func (w *tablesWorld) answered(h *tablesHost) {
	switch {
	case h.asked == 0:
		return
	case len(h.holdings.Competing()) > 0 || w.broken == competesAlways:
		h.parts[h.asked-1] = true
		w.stats["partition leased"]++
	default:
		w.parts[h.asked-1] = ""
		w.stats["partition given back"]++
	}
	h.asked = 0
}

// acquire has a host ask for the sticky actor.
func (w *tablesWorld) acquire(h *tablesHost) {
	session, ok := h.member.Ask(tablesActor)
	if !ok {
		return
	}
	s := h.stream
	s.up = append(s.up, func(l *tablesLeader) {
		answer, ok := ownership.Answer{}, true
		if policy, switching := l.tables.Policy("a", "T"); policy == abi.PlacementSticky && !switching {
			answer, ok = l.leader.Acquire(w.now, session, tablesActor)
		}
		if ok {
			s.down = append(s.down, func(h *tablesHost) {
				if answer.Granted && h.member.Granted(session, tablesActor, w.now) {
					w.stats["sticky granted"]++
				} else {
					h.member.Refused(session, tablesActor)
				}
			})
		}
	})
}

// check returns what is wrong now; nothing: empty.
func (w *tablesWorld) check() (fault string) {
	if w.stats["two hosts claim the actor"] > 0 {
		return "two hosts claim the actor"
	}
	for k, name := range tablesTypes {
		for i := range tablesPoints {
			var at []placement.HostID
			for _, h := range w.hosts {
				if h.runs(k, i, w.now) {
					at = append(at, h.id)
				}
				if h.holdsClean(k, i, w.now) && w.now < w.unsettled[tablesPoint{k, i}] {
					return fmt.Sprintf("%s holds point %d of %s as clean, and an earlier holder's commit may land", h.id, i, name.Type)
				}
			}
			if len(at) > 1 {
				return fmt.Sprintf("point %d of %s is at %v", i, name.Type, at)
			}
			for _, h := range w.hosts {
				if len(at) > 0 && at[0] != h.id && h.anywhere(w, k) {
					return fmt.Sprintf("point %d of %s is at %s, and %s runs it anywhere", i, name.Type, at[0], h.id)
				}
			}
		}
	}
	return ""
}

// settle lets everything arrive, with no faults any more, and checks that each point is
// held, and everybody knows by whom.
func (w *tablesWorld) settle() (fault string) {
	for _, h := range w.hosts {
		h.frozen = false
	}
	for range 40 {
		var l *tablesLeader
		if n := len(w.leaders); n > 0 && w.leaders[n-1].leader.Leading(w.now) {
			l = w.leaders[n-1]
		} else {
			w.now = max(w.now, w.leader.until)
			w.elect()
			continue
		}
		w.now++
		w.leader.until = w.now + tablesLease
		l.leader.Renewed(w.now, tablesLease)
		for _, h := range w.hosts {
			w.renew(h)
			h.deploys = w.deploys
			if h.stream == nil || h.stream.leader != l {
				w.connect(h, l)
			}
		}
		w.clear(l)
		for _, h := range w.hosts {
			types := h.types()
			h.stream.up = append(h.stream.up, func(l *tablesLeader) { l.tables.Reported(h.id, types) })
			for len(h.stream.up) > 0 {
				w.up(h.stream)
			}
			for len(h.stream.down) > 0 {
				w.down(h.stream)
			}
			for len(h.handing) > 0 {
				w.handedOver(h)
			}
			if fault := w.check(); fault != "" {
				return fault
			}
		}
	}
	for k := range tablesTypes {
		if fault := w.settled(k); fault != "" {
			return fault
		}
	}
	return ""
}

// settled checks that each point of a type is held, and that everybody knows by whom.
func (w *tablesWorld) settled(k int) (fault string) {
	serving := slices.DeleteFunc(slices.Clone(w.hosts), func(h *tablesHost) bool { return h.draining })
	typ, policy := tablesTypes[k], w.deploys[k].policy
	for _, p := range tablesPoints {
		for _, h := range w.hosts {
			table := h.holdings.types[typ]
			switch {
			case len(serving) == 0:
				continue
			case table == nil:
				return fmt.Sprintf("%s has no table", h.id)
			}
			r := table.Find(p)
			if names := placement.StaticHosts(policy); len(names) > 0 {
				name := names[placement.Static(p, len(names))]
				i := slices.IndexFunc(serving, func(h *tablesHost) bool { return h.name == name })
				if i < 0 && len(r.Hosts) == 0 {
					w.stats["static host away"]++
					continue
				}
				if i < 0 || len(r.Hosts) == 0 || r.Hosts[0] != serving[i].id {
					return fmt.Sprintf("%s sends point %#x to %v, which is %s's", h.id, uint64(p), r.Hosts, name)
				}
				w.stats["static host there"]++
			}
			if len(r.Hosts) == 0 {
				return fmt.Sprintf("%s knows nobody for point %#x", h.id, uint64(p))
			}
			owner := placement.OwnerAmong(p, r.Hosts)
			i := slices.IndexFunc(w.hosts, func(h *tablesHost) bool { return h.id == owner })
			switch {
			case i < 0 || w.hosts[i].draining:
				return fmt.Sprintf("%s sends point %#x to %s", h.id, uint64(p), owner)
			case placement.IsTogether(policy) && !h.holdings.types[typ].competes:
				return fmt.Sprintf("%s does not run %s at the places of its group", h.id, typ.Type)
			case placement.IsCheckout(policy) && len(w.hosts[i].holdings.Competing()) == 0:
				return fmt.Sprintf("%s does not compete for partitions", owner)
			case placement.Assigned(policy) && w.hosts[i].holdings.Held(typ.App, typ.Type, p, w.now) == actor.NotHeld:
				return fmt.Sprintf("%s does not hold point %#x, which calls are sent for to it", owner, uint64(p))
			case placement.IsRing(policy):
				others := slices.DeleteFunc(slices.Clone(serving), func(h *tablesHost) bool { return h.id == owner || !slices.Contains(r.Readers, h.id) })
				if n := len(r.Readers); n != len(others) || n == 0 && policy == "ring:2" && len(serving) > 1 || n > 0 && policy == abi.PlacementRing {
					return fmt.Sprintf("%s knows the readers %v for point %#x of %s", h.id, r.Readers, uint64(p), owner)
				} else if n > 0 {
					w.stats["read elsewhere"]++
				}
				if to := w.movedTo(k, p); to != "" && to != owner && slices.ContainsFunc(serving, func(h *tablesHost) bool { return h.id == to }) {
					return fmt.Sprintf("point %#x was moved to %s, and is at %s", uint64(p), to, owner)
				} else if to == owner {
					w.stats["held where it was moved"]++
				}
			}
		}
	}
	return ""
}

// movedTo returns the host that a point of a type was moved to because of its heat, as the newest
// leader knows; empty: none.
func (w *tablesWorld) movedTo(k int, p placement.Point) placement.HostID {
	for _, m := range w.leaders[len(w.leaders)-1].tables.types[tablesTypes[k]].moved {
		if m.First <= p && p <= m.Last {
			return m.Host
		}
	}
	return ""
}

// clear removes the rows that are over, in the name of a leader.
func (w *tablesWorld) clear(l *tablesLeader) {
	for id, until := range w.rows {
		if w.now < until && w.broken != clearsWhenOver {
			continue
		}
		delete(w.rows, id)
		for _, h := range w.hosts {
			if h.id == id {
				w.ended(h)
			}
		}
		l.leader.Cleared(id)
		if w.broken == countsUnclean {
			for _, table := range l.tables.types {
				for i := range table.ranges {
					table.ranges[i].holds = without(table.ranges[i].holds, id)
				}
			}
		}
		l.tables.Cleared(id)
		delete(l.streams, id)
		w.stats["host cleared"]++
	}
	// An earlier leader cleared these, and what they had sent before came later.
	for id := range l.tables.hosts {
		if _, there := w.rows[id]; !there {
			l.leader.Cleared(id)
			l.tables.Cleared(id)
			delete(l.streams, id)
		}
	}
	w.plan(l)
}
