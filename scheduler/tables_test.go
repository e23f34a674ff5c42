package scheduler

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// A cluster of the pure parts: [Leader] and [Tables] at schedulers, [Member] and
// [Holdings] at hosts, over a database, a clock and streams of the test's.
type tablesWorld struct {
	now    Instant
	leader struct { // the lease row
		epoch uint64
		until Instant
	}
	rows    map[placement.HostID]Instant // until when each is leased
	parts   [2]placement.HostID          // who has leased each partition
	hosts   []*tablesHost
	leaders []*tablesLeader // of all terms
	next    int             // numbers hosts
	policy  string
	// deploy is the generation of policy.
	deploy uint64
	// unsettled says of each point until when a commit of an earlier holder may land.
	unsettled map[placement.Point]Instant
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
)

const tablesLease Instant = 100

// tablesActor is the actor for which sticky policies are tried; tablesPoints are where
// the invariants are looked at.
var (
	tablesActor  = actor.Key{App: "a", Type: "T", ID: "x"}
	tablesPoints = func() []placement.Point {
		points := []placement.Point{placement.PointOf(tablesActor), 0, ^placement.Point(0)}
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
	member   *Member
	holdings *Holdings
	stream   *tablesStream // of its session; nil: none
	old      []*tablesStream
	handing  []Moving
	draining bool
	policy   string  // by which it would run the type; empty: it cannot
	parts    [2]bool // partitions that it holds
	asked    int     // the partition of a lease that it was given and does not know of yet, plus 1
	deploy   uint64
	frozen   bool
}

type tablesStream struct {
	session Session
	host    *tablesHost
	leader  *tablesLeader
	up      []func(l *tablesLeader)
	down    []func(h *tablesHost)
}

type tablesLeader struct {
	leader  *Leader
	tables  *Tables
	streams map[placement.HostID]*tablesStream
	frozen  bool
}

func newTablesWorld() *tablesWorld {
	w := &tablesWorld{
		rows: map[placement.HostID]Instant{}, policy: abi.PlacementRing, deploy: 1,
		unsettled: map[placement.Point]Instant{}, stats: map[string]int{},
	}
	for _, p := range tablesPoints {
		w.unsettled[p] = ripeAfter
	}
	return w
}

func (w *tablesWorld) register(h *tablesHost) {
	w.next++
	h.id = placement.HostID(fmt.Sprintf("h%d", w.next))
	h.member, h.holdings = NewMember(h.id), NewHoldings(h.id)
	h.stream, h.handing = nil, nil
	h.parts, h.asked = [2]bool{}, 0
	w.rows[h.id] = w.now + tablesLease
	h.member.Renewed(w.now, tablesLease)
}

// anywhere says whether the host may begin turns of actors that it does not hold.
func (h *tablesHost) anywhere(w *tablesWorld) bool {
	t := h.holdings.types[typeName{"a", "T"}]
	switch {
	case !h.member.Current(w.now), h.policy == "", held(h.policy):
		return false
	case t == nil:
		return h.holdings.Told() || w.broken == toldFirst
	default:
		return !held(t.policy)
	}
}

// runs says whether the host may have turns under way at a point: it holds it, or hands
// it over. A host whose count is over runs none; one that is frozen does when it wakes.
func (h *tablesHost) runs(p placement.Point, now Instant) bool {
	if !h.member.Current(now) {
		return false
	}
	t := h.holdings.types[typeName{"a", "T"}]
	owns := p == tablesPoints[0] && len(h.member.owned) > 0 || h.parts[placement.PartitionOf(p, 2)]
	if t == nil || t.policy == abi.PlacementSticky {
		return owns
	}
	r := t.find(p)
	return owns || len(r.among) > 0 && placement.OwnerAmong(p, r.among) == h.id
}

// ended notes that a host holds nothing any more, without having handed it over.
func (w *tablesWorld) ended(h *tablesHost) {
	for _, p := range tablesPoints {
		if t := h.holdings.types[typeName{"a", "T"}]; t != nil {
			if r := t.find(p); len(r.among) > 0 && placement.OwnerAmong(p, r.among) == h.id {
				w.unsettled[p] = w.now + ripeAfter
			}
		}
	}
}

func (w *tablesWorld) renew(h *tablesHost) {
	if _, there := w.rows[h.id]; !there {
		h.member.End()
		h.breakStream()
		w.register(h)
		w.stats["host ended"]++
		return
	}
	w.rows[h.id] = w.now + tablesLease
	h.member.Renewed(w.now, tablesLease)
}

func (h *tablesHost) breakStream() {
	if h.stream == nil {
		return
	}
	h.member.Disconnect(h.stream.session)
	h.old = append(h.old, h.stream)
	h.stream, h.handing = nil, nil
	h.holdings.Resume()
}

func (w *tablesWorld) elect() {
	w.leader.epoch++
	w.leader.until = w.now + tablesLease
	l := &tablesLeader{leader: NewLeader(w.leader.epoch, w.now, tablesLease), tables: NewTables(8), streams: map[placement.HostID]*tablesStream{}}
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
		name := typeName{"a", "T"}
		_, policy := l.tables.serving(name)
		if table := l.tables.types[name]; table != nil && !held(table.policy) && policy != "" && held(policy) {
			table.policy, table.ranges = policy, []tableRange{{}}
		}
	}
	for _, o := range l.tables.Plan(l.leader.Granting(w.now) || w.broken == waitsForClaims) {
		w.stats[fmt.Sprint("order ", o.Kind)]++
		if o.WithSticky {
			w.stats["policy switched"]++
		}
		if s := l.streams[o.To]; s != nil {
			s.down = append(s.down, func(h *tablesHost) { w.take(h, s, o) })
		}
	}
}

// take has a host take an order that came in a session.
func (w *tablesWorld) take(h *tablesHost, s *tablesStream, o Order) {
	m := h.holdings.Order(o, w.now)
	switch o.Kind {
	case Lock:
		h.handing = append(h.handing, m)
		if w.broken == answersAfterward {
			s.up = append(s.up, func(l *tablesLeader) { l.tables.Released(h.id, m.App, m.Type, m.Version, m.Ranges) })
		}
	case Update:
		s.up = append(s.up, func(l *tablesLeader) { l.tables.Updated(h.id, o.App, o.Type, o.Version) })
	}
}

func (w *tablesWorld) connect(h *tablesHost, l *tablesLeader) {
	h.breakStream()
	session, keys, ok := h.member.Connect(l.leader.Epoch())
	if !ok {
		return
	}
	s := &tablesStream{session: session, host: h, leader: l}
	claims, id, name, draining := h.holdings.Claims(w.now), h.id, h.name, h.draining
	types := h.types()
	h.holdings.Connect(types)
	s.up = append(s.up, func(l *tablesLeader) {
		if _, there := w.rows[id]; !there || !l.leader.Begin(session) {
			return // a leader serves those alone that have a row
		}
		l.streams[id] = s
		l.tables.Begin(id, name, draining)
		l.tables.Reported(id, types)
		for _, c := range claims {
			l.tables.Claim(id, c.App, c.Type, c.Policy, c.Ranges)
		}
		if len(keys) > 0 {
			l.tables.Claim(id, "a", "T", abi.PlacementSticky, nil)
		}
		if refused, _ := l.leader.Claimed(session, keys); len(refused) > 0 {
			w.stats["two hosts claim the actor"]++
		}
		l.tables.Claimed(id)
	})
	h.stream = s
}

func (h *tablesHost) types() []Type {
	if h.policy == "" {
		return nil
	}
	return []Type{{App: "a", Name: "T", Placement: h.policy, Generation: h.deploy, Readers: true}}
}

// handedOver ends the first hand-over of a host.
func (w *tablesWorld) handedOver(h *tablesHost) {
	m := h.holdings.HandedOver(h.handing[0])
	h.handing = h.handing[1:]
	s := h.stream
	if m.WithSticky {
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
	s.up = append(s.up, func(l *tablesLeader) { l.tables.Released(h.id, m.App, m.Type, m.Version, m.Ranges) })
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
	if len(h.holdings.competing()) == 0 && w.broken != competesAlways || h.asked != 0 {
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
	case len(h.holdings.competing()) > 0 || w.broken == competesAlways:
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
		answer, ok := Answer{}, true
		if policy, switching := l.tables.Policy("a", "T"); policy == stickyPolicy && !switching {
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
	for i, p := range tablesPoints {
		var at []placement.HostID
		for _, h := range w.hosts {
			if h.runs(p, w.now) {
				at = append(at, h.id)
			}
			if h.member.Current(w.now) && h.holdings.Held("a", "T", p, w.now) == actor.HeldClean && w.now < w.unsettled[p] {
				return fmt.Sprintf("%s holds point %d as clean, and an earlier holder's commit may land", h.id, i)
			}
		}
		if len(at) > 1 {
			return fmt.Sprintf("point %d is at %v", i, at)
		}
		for _, h := range w.hosts {
			if len(at) > 0 && at[0] != h.id && h.anywhere(w) {
				return fmt.Sprintf("point %d is at %s, and %s runs it anywhere", i, at[0], h.id)
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
			h.policy, h.deploy = w.policy, w.deploy
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
	serving := slices.DeleteFunc(slices.Clone(w.hosts), func(h *tablesHost) bool { return h.draining })
	for _, p := range tablesPoints {
		for _, h := range w.hosts {
			table := h.holdings.types[typeName{"a", "T"}]
			switch {
			case len(serving) == 0:
				continue
			case table == nil:
				return fmt.Sprintf("%s has no table", h.id)
			}
			r := table.find(p)
			if names := staticHosts(w.policy); len(names) > 0 {
				name := names[placement.Static(p, len(names))]
				i := slices.IndexFunc(serving, func(h *tablesHost) bool { return h.name == name })
				if i < 0 && len(r.hosts) == 0 {
					w.stats["static host away"]++
					continue
				}
				if i < 0 || len(r.hosts) == 0 || r.hosts[0] != serving[i].id {
					return fmt.Sprintf("%s sends point %#x to %v, which is %s's", h.id, uint64(p), r.hosts, name)
				}
				w.stats["static host there"]++
			}
			if len(r.hosts) == 0 {
				return fmt.Sprintf("%s knows nobody for point %#x", h.id, uint64(p))
			}
			owner := placement.OwnerAmong(p, r.hosts)
			i := slices.IndexFunc(w.hosts, func(h *tablesHost) bool { return h.id == owner })
			switch {
			case i < 0 || w.hosts[i].draining:
				return fmt.Sprintf("%s sends point %#x to %s", h.id, uint64(p), owner)
			case isCheckout(w.policy) && len(w.hosts[i].holdings.competing()) == 0:
				return fmt.Sprintf("%s does not compete for partitions", owner)
			case tabled(w.policy) && w.hosts[i].holdings.Held("a", "T", p, w.now) == actor.NotHeld:
				return fmt.Sprintf("%s does not hold point %#x, which calls are sent for to it", owner, uint64(p))
			case isRing(w.policy):
				others := slices.DeleteFunc(slices.Clone(serving), func(h *tablesHost) bool { return h.id == owner || !slices.Contains(r.readers, h.id) })
				if n := len(r.readers); n != len(others) || n == 0 && w.policy == "ring:2" && len(serving) > 1 || n > 0 && w.policy == abi.PlacementRing {
					return fmt.Sprintf("%s knows the readers %v for point %#x of %s", h.id, r.readers, uint64(p), owner)
				} else if n > 0 {
					w.stats["read elsewhere"]++
				}
				if to := w.movedTo(p); to != "" && to != owner && slices.ContainsFunc(serving, func(h *tablesHost) bool { return h.id == to }) {
					return fmt.Sprintf("point %#x was moved to %s, and is at %s", uint64(p), to, owner)
				} else if to == owner {
					w.stats["held where it was moved"]++
				}
			}
		}
	}
	return ""
}

// movedTo returns the host that a point was moved to because of its heat, as the newest
// leader knows; empty: none.
func (w *tablesWorld) movedTo(p placement.Point) placement.HostID {
	for _, m := range w.leaders[len(w.leaders)-1].tables.types[typeName{"a", "T"}].moved {
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

// chance makes the choices of a history.
type chance struct {
	*rand.Rand
	w *tablesWorld
}

// host picks one of the hosts that fit; nil without any.
func (c chance) host(fit func(*tablesHost) bool) *tablesHost {
	return pick(c, slices.DeleteFunc(slices.Clone(c.w.hosts), func(h *tablesHost) bool { return !fit(h) }))
}

// stream picks a stream on which something may arrive.
func (c chance) stream() *tablesStream {
	var fits []*tablesStream
	for _, h := range c.w.hosts {
		for _, s := range append(slices.Clone(h.old), h.stream) {
			if s != nil && (len(s.up) > 0 && !s.leader.frozen || len(s.down) > 0 && !h.frozen) {
				fits = append(fits, s)
			}
		}
	}
	return pick(c, fits)
}

// leader is the newest one, nil without any.
func (c chance) leader() *tablesLeader {
	if n := len(c.w.leaders); n > 0 {
		return c.w.leaders[n-1]
	}
	return nil
}

func pick[E any](c chance, from []*E) *E {
	if len(from) == 0 {
		return nil
	}
	return from[c.IntN(len(from))]
}

func (c chance) rarely() bool { return c.IntN(6) == 0 }

func awake(h *tablesHost) bool     { return !h.frozen }
func connected(h *tablesHost) bool { return !h.frozen && h.stream != nil }

type tablesStep struct {
	weight int
	name   string
	do     func(c chance)
}

// tablesSteps are what may happen, with how often.
var tablesSteps = []tablesStep{
	{2, "a host registers", func(c chance) {
		if len(c.w.hosts) < 4 {
			h := &tablesHost{name: fmt.Sprint("n", len(c.w.hosts)), policy: c.w.policy, deploy: c.w.deploy}
			c.w.register(h)
			c.w.hosts = append(c.w.hosts, h)
		}
	}},
	{4, "a leader is elected", func(c chance) {
		if c.w.now >= c.w.leader.until {
			c.w.elect()
		}
	}},
	{8, "a host connects", func(c chance) {
		if h := c.host(awake); h != nil && len(c.w.leaders) > 0 && (h.stream == nil || h.stream.leader != c.leader() || c.rarely()) {
			back := 1
			if len(c.w.leaders) > 1 && c.rarely() {
				back = 2
			}
			c.w.connect(h, c.w.leaders[len(c.w.leaders)-back])
		}
	}},
	{40, "a message arrives", func(c chance) {
		for range 1 + c.IntN(5) {
			s := c.stream()
			switch {
			case s == nil:
			case len(s.up) > 0 && !s.leader.frozen && (len(s.down) == 0 || s.host.frozen || c.IntN(2) == 0):
				c.w.up(s)
			default:
				c.w.down(s)
			}
		}
	}},
	{10, "a host has handed over", func(c chance) {
		if h := c.host(func(h *tablesHost) bool { return len(h.handing) > 0 && awake(h) }); h != nil {
			c.w.handedOver(h)
		}
	}},
	{12, "leases are renewed", func(c chance) {
		for _, h := range c.w.hosts {
			if awake(h) {
				c.w.renew(h)
			}
		}
		if l := c.leader(); l != nil && !l.frozen {
			c.w.leader.until = c.w.now + tablesLease
			l.leader.Renewed(c.w.now, tablesLease)
			c.w.plan(l)
		}
	}},
	{3, "a stream breaks", func(c chance) {
		if h := c.host(connected); h != nil {
			h.breakStream()
		}
	}},
	{12, "time passes", func(c chance) { c.w.now += Instant(10 + 25*c.IntN(3)) }},
	{1, "an hour passes", func(c chance) { c.w.now += ripeAfter }},
	{3, "a host freezes or wakes", func(c chance) {
		if h := c.host(func(*tablesHost) bool { return true }); h != nil {
			h.frozen = !h.frozen
		}
	}},
	{1, "the leader freezes or wakes", func(c chance) {
		if l := c.leader(); l != nil {
			l.frozen = !l.frozen
		}
	}},
	{5, "rows are cleared", func(c chance) {
		if l := c.leader(); l != nil && !l.frozen && l.leader.Leading(c.w.now) {
			c.w.clear(l)
		}
	}},
	{1, "a host drains", func(c chance) {
		if h := c.host(connected); h != nil && !h.draining {
			h.draining = true
			h.stream.up = append(h.stream.up, func(l *tablesLeader) { l.tables.Drain(h.id) })
		}
	}},
	{1, "a deployment", func(c chance) {
		c.w.policy = tablesPolicies[c.IntN(len(tablesPolicies))]
		c.w.deploy++
	}},
	{3, "a host reports types", func(c chance) {
		if h := c.host(connected); h != nil {
			h.policy, h.deploy = c.w.policy, c.w.deploy
			types := h.types()
			h.stream.up = append(h.stream.up, func(l *tablesLeader) { l.tables.Reported(h.id, types) })
		}
	}},
	{5, "a host asks for the sticky actor", func(c chance) {
		if h := c.host(connected); h != nil {
			c.w.acquire(h)
		}
	}},
	{8, "a host leases a partition", func(c chance) {
		if h := c.host(awake); h != nil && h.member.Current(c.w.now) {
			c.w.compete(h, c.IntN(2))
		}
	}},
	{6, "a host hears of its partition", func(c chance) {
		if h := c.host(func(h *tablesHost) bool { return awake(h) && h.asked > 0 }); h != nil {
			c.w.answered(h)
		}
	}},
	{2, "ranges are moved by heat", func(c chance) {
		l, h := c.leader(), c.host(awake)
		if l == nil || h == nil {
			return
		}
		table := l.tables.types[typeName{"a", "T"}]
		if table == nil || !isRing(table.policy) {
			return
		}
		var moved []placement.Moved // and otherwise all goes back
		if !c.rarely() {
			first, last := placement.Cell(c.IntN(placement.Cells)), placement.Cell(c.IntN(placement.Cells))
			if p := placement.CellOf(tablesPoints[c.IntN(len(tablesPoints))]); c.IntN(2) == 0 {
				first, last = p, p
			}
			moved = placement.AddMoved(table.moved, placement.Moved{First: min(first, last).First(), Last: max(first, last).Last(), Host: h.id})
		}
		l.tables.Move("a", "T", moved)
		c.w.stats["moved by heat"]++
		c.w.plan(l)
	}},
}

// TestTablesOneHolder: in no history are turns at one point under way at two hosts that
// may run them, nor is anything held as clean that is not; and when the faults end,
// every point has a holder that everybody knows.
func TestTablesOneHolder(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(*tablesSeeds) {
		if fault, history := tablesHistory(seed, noRule, seen); fault != "" {
			t.Fatalf("seed %d: %s, after\n%s", seed, fault, strings.Join(history, "\n"))
		}
	}
	for _, what := range []string{"order 1", "order 2", "order 3", "host ended", "host cleared", "sticky granted", "policy switched", "static host away", "static host there", "partition leased", "partition given back", "moved by heat", "held where it was moved", "read elsewhere"} {
		if seen[what] == 0 {
			t.Errorf("in no history: %s", what)
		}
	}
	t.Log(seen)
}

var tablesSeeds = flag.Int("tables.seeds", 300, "how many histories TestTablesOneHolder tries")

// TestTablesFindFaults: each rule is needed: histories that break it come to a fault.
func TestTablesFindFaults(t *testing.T) {
	for rule, name := range map[tablesRule]string{
		waitsForClaims:   "a new leader waits for claims",
		newestSession:    "orders of old sessions are ignored",
		answersAfterward: "a LOCK is answered after the hand-over",
		clearsWhenOver:   "a row is cleared when its lease is over",
		countsUnclean:    "what a cleared host held is not clean",
		competesAlways:   "partitions are leased under their policy alone",
		toldFirst:        "nothing is run anywhere before a leader has told what is held",
		stopsFirst:       "what is run anywhere is handed over before it is held",
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5000) {
				if fault, _ := tablesHistory(seed, rule, map[string]int{}); fault != "" {
					t.Logf("seed %d: %s", seed, fault)
					return
				}
			}
			t.Fatal("no history comes to a fault")
		})
	}
}

// tablesHistory runs the history of a seed, and returns the fault that it comes to.
func tablesHistory(seed uint64, broken tablesRule, seen map[string]int) (fault string, history []string) {
	c := chance{rand.New(rand.NewPCG(seed, 0)), newTablesWorld()}
	c.w.broken = broken
	sum := 0
	for _, s := range tablesSteps {
		sum += s.weight
	}
	for range 20 + c.IntN(400) {
		n := c.IntN(sum)
		i := slices.IndexFunc(tablesSteps, func(s tablesStep) bool { n -= s.weight; return n < 0 })
		history = append(history, fmt.Sprintf("%5d %s", c.w.now, tablesSteps[i].name))
		tablesSteps[i].do(c)
		if fault = c.w.check(); fault != "" {
			return fault, history
		}
	}
	if broken != noRule {
		return "", nil
	}
	if fault = c.w.settle(); fault != "" {
		return fault, history
	}
	for what, n := range c.w.stats {
		seen[what] += n
	}
	return "", nil
}
