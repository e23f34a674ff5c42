package assignment

import (
	"cmp"
	"maps"
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// What bounds the ranges of a table that move at once and are held, so that few actors
// pause at a time, and each for the hand-over of few others.
const (
	// maxTogether is how many ranges one LOCK names. They are handed over together: the
	// slowest turn of their actors is what all of them wait for.
	maxTogether = 8
	// MaxMoving is how many move, of those that have not taken long.
	MaxMoving = 2 * maxTogether
	// maxSlow is how many move with those that have: turns that take seconds would hold up
	// all others.
	maxSlow = 64
)

// Tables is what the leader of one term knows about the tables of all types: which host holds
// what, and what moves. It stands beside the term's [ownership.Leader], which knows the sessions: every
// message is one of a host's newest session. It is pure state, for one goroutine at a time.
type Tables struct {
	fleet
	catalog
	outgoing
	rings
	granting bool
	divides  bool // the reports have changed, so that types of one table may have to be told apart
}

// NewTables returns the tables of a term that begins: nothing is known. The table of a
// new type has so many ranges.
func NewTables(ranges int) *Tables {
	t := &Tables{
		fleet:    fleet{hosts: map[placement.HostID]*tableHost{}},
		catalog:  catalog{types: map[protocol.TypeName]*rangeTable{}, tables: map[uint64]*rangeTable{}, dirty: map[*rangeTable]struct{}{}},
		outgoing: outgoing{awaited: map[uint64]*awaited{}},
		rings:    rings{ranges: ranges, known: map[string]*placement.Table{}},
	}
	t.hostsChanged()
	return t
}

// Begin opens a session of a host, which people call name: [Tables.Claim] tells what it holds, and
// [Tables.Claimed] that this was all.
func (t *Tables) Begin(id placement.HostID, name string, draining bool) {
	h := t.hosts[id]
	if h == nil {
		h = &tableHost{}
		t.hosts[id] = h
		t.reports, t.divides = h.reports(t.reports, nil), true
	}
	h.name, h.connected, h.claims = name, false, map[protocol.TypeName]*claim{}
	// What is not sent yet follows from an earlier session: its claims no longer count.
	t.orders = slices.DeleteFunc(t.orders, func(o protocol.Order) bool { return o.To == id })
	h.draining = h.draining || draining
	t.hostsChanged()
}

// Reported tells all types that a host can run.
func (t *Tables) Reported(id placement.HostID, types []protocol.Type) {
	h := t.hosts[id]
	if h == nil || h.report.says(types) {
		return
	}
	t.reports = h.reports(t.reports, types)
	t.divides = true
	t.hostsChanged()
	t.touchAll()
	var unknown []protocol.TypeName
	for _, typ := range types {
		if name := typ.TypeName(); t.types[name] == nil {
			unknown = append(unknown, name)
		}
	}
	t.add(newRangeTable(), unknown)
}

// Claim records the ranges of types that a host holds as its session begins, and under which
// policy. A claim without ranges means that the host owns sticky actors of the types, or
// competes for their partitions.
func (t *Tables) Claim(id placement.HostID, types []protocol.TypeName, policy string, ranges []protocol.Range) {
	h := t.hosts[id]
	if h == nil || h.connected {
		return
	}
	c := &claim{policy, ranges}
	for _, name := range types {
		if was := h.claims[name]; was == nil {
			h.claims[name] = c
		} else if len(ranges) > 0 {
			h.claims[name] = &claim{was.policy, slices.Concat(was.ranges, ranges)}
		}
	}
}

// Claimed notes that a host has claimed all that it holds. The host does not hold what it was
// known to hold and has not claimed.
func (t *Tables) Claimed(id placement.HostID) {
	h := t.hosts[id]
	if h == nil || h.connected {
		return
	}
	h.connected = true
	t.hostsChanged()
	var unknown []protocol.TypeName
	for name := range h.claims {
		if t.types[name] == nil {
			unknown = append(unknown, name)
		}
	}
	slices.SortFunc(unknown, protocol.CompareTypes)
	t.divides = t.divides || len(unknown) > 0
	t.add(newRangeTable(), unknown)
	alike := alikeClaims(h.claims)
	for _, table := range t.sorted() {
		for c, part := range divide(t, table, func(name protocol.TypeName) *claim { return alike[h.claims[name]] }) {
			if c == nil {
				c = &claim{}
			}
			if part.policy == "" {
				part.policy = c.policy
			}
			if !t.granting { // later this leader knows better
				part.adoptMoved(id, c.ranges)
			}
			part.adopt(id, c.ranges)
			t.touch(part)
			if t.granting {
				t.sync(part, id)
			}
		}
	}
	h.claims = nil
}

// Released records that a host has handed over everything that a LOCK named. If several
// answers belong to one LOCK, for types of one table, a range is clean if all say so.
func (t *Tables) Released(id placement.HostID, version uint64, answers ...[]protocol.Range) {
	t.answered(version, func(table *rangeTable, version uint64) bool {
		if !table.switching || version != table.version {
			return false
		}
		table.waits = without(table.waits, id)
		t.dirty[table] = struct{}{}
		return len(table.waits) > 0
	}, func(table *rangeTable, i int, version uint64) bool {
		r := &table.ranges[i]
		if r.phase != releasing || r.version != version {
			return false
		}
		if slices.Contains(r.waits, id) {
			t.dirty[table] = struct{}{}
			for _, ranges := range answers {
				r.nowClean = r.nowClean && cleanThroughout(ranges, table.at(i, nil))
			}
			r.holds, r.waits = without(r.holds, id), without(r.waits, id)
		}
		return len(r.waits) > 0
	})
}

// Updated notes that a host has taken over what an UPDATE gave it.
func (t *Tables) Updated(id placement.HostID, version uint64) {
	t.answered(version, func(*rangeTable, uint64) bool { return false }, func(table *rangeTable, i int, version uint64) bool {
		r := &table.ranges[i]
		if r.phase != updating || r.version != version {
			return false
		}
		if slices.Contains(r.waits, id) {
			t.dirty[table] = struct{}{}
			r.waits = without(r.waits, id)
		}
		return len(r.waits) > 0
	})
}

// Cleared notes that a host's row is gone: the host holds nothing.
func (t *Tables) Cleared(id placement.HostID) {
	h := t.hosts[id]
	if h == nil {
		return
	}
	delete(t.hosts, id)
	t.reports = h.report.without(t.reports)
	t.divides = true
	t.hostsChanged()
	t.touchAll()
	for _, table := range t.tables {
		table.waits = without(table.waits, id)
		if there := slices.DeleteFunc(slices.Clone(table.moved), func(m placement.Moved) bool { return m.Host == id }); len(there) < len(table.moved) {
			table.setMoved(there)
		}
		for i := range table.ranges {
			r := &table.ranges[i]
			r.waits = without(r.waits, id)
			if slices.Contains(r.holds, id) {
				r.holds, r.clean, r.nowClean = without(r.holds, id), false, false
			}
		}
	}
}

// Drain notes that a host is to hand over what it holds, and to get nothing new.
func (t *Tables) Drain(id placement.HostID) {
	if h := t.hosts[id]; h != nil && !h.draining {
		h.draining = true
		t.hostsChanged()
		t.touchAll()
	}
}

// Move says which parts of a ring type are elsewhere than by the ring: in order, without
// overlaps.
func (t *Tables) Move(app, typ string, moved []placement.Moved) {
	name := protocol.TypeName{App: app, Type: typ}
	if table := t.types[name]; table != nil {
		if len(table.types) > 1 {
			table = t.split(table, []protocol.TypeName{name})
		}
		table.setMoved(moved)
		t.touch(table)
	}
}

// Plan returns the orders that follow from what happened since the last time. granting is the
// result of [ownership.Leader.Granting]; while it is false there are no orders.
func (t *Tables) Plan(granting bool) []protocol.Order {
	if !granting {
		return nil
	}
	if t.divides {
		t.divideAll()
	}
	if !t.granting {
		t.granting = true
		t.touchAll()
		for _, table := range t.sorted() {
			for _, id := range t.connected() {
				t.sync(table, id)
			}
		}
	}
	for _, table := range slices.SortedFunc(maps.Keys(t.dirty), compareTables) {
		if t.tables[table.group] == table {
			t.plan(table)
			t.unite(table)
		}
	}
	clear(t.dirty)
	if !slices.ContainsFunc(slices.Collect(maps.Values(t.tables)), func(table *rangeTable) bool { return !table.isStable() }) {
		clear(t.awaited) // hosts that have ended do not answer
	}
	orders := t.orders
	t.orders = nil
	return orders
}

// sync tells a host whose session has begun where everything is. What it was asked for
// in an earlier session it is asked again.
func (t *Tables) sync(table *rangeTable, id placement.HostID) {
	locks := map[uint64][]protocol.Range{}
	for i := range table.ranges {
		r := &table.ranges[i]
		if r.phase == releasing && slices.Contains(r.waits, id) {
			locks[r.version] = append(locks[r.version], table.at(i, nil))
		}
	}
	t.order(protocol.Order{To: id, Kind: protocol.Form}, table)
	t.order(protocol.Order{To: id, Kind: protocol.Unlock, Ranges: table.routes()}, table)
	if table.switching && !slices.Contains(table.waits, id) {
		t.orders[len(t.orders)-1].Policy = "" // what it has given up it does not begin again
	}
	if table.switching && slices.Contains(table.waits, id) && locks[table.version] == nil {
		locks[table.version] = []protocol.Range{}
	}
	for _, version := range slices.Sorted(maps.Keys(locks)) {
		t.order(protocol.Order{To: id, Kind: protocol.Lock, Ranges: locks[version], WithSticky: table.switching}, table)
		t.version++
		t.orders[len(t.orders)-1].Version = t.version
		t.awaited[t.version] = &awaited{version, []*rangeTable{table}, locks[version]}
	}
}

// broadcast adds an order for every host.
func (t *Tables) broadcast(o protocol.Order, table *rangeTable) {
	for _, id := range t.connected() {
		o.To = id
		t.order(o, table)
	}
}

// plan brings one table nearer to where it should be.
func (t *Tables) plan(table *rangeTable) {
	policy := table.role.policy
	if (table.switching || table.policy != policy) && !t.switchPolicy(table, policy) {
		return
	}
	switch {
	case policy == "": // nobody knows it any more
		t.remove(table)
		t.broadcast(protocol.Order{Kind: protocol.Remove}, table)
	case !placement.Assigned(policy):
		t.spreadAll(table)
	default:
		t.move(table)
	}
}

// switchPolicy has everything handed over, and reports whether the new policy is in
// force.
func (t *Tables) switchPolicy(table *rangeTable, policy string) bool {
	table.full = true
	switch {
	case !table.switching && (table.policy == "" || !placement.Exclusive(table.policy)) && !t.stops(table, policy):
		// Nobody holds anything, and nobody has to stop.
	case !table.switching && placement.RangesOnly(table.policy) && placement.RangesOnly(policy):
		table.policy = policy
		table.setMoved(nil)
		t.renumber(table)
		t.broadcast(protocol.Order{Kind: protocol.Unlock, Ranges: table.routes()}, table)
		return true
	case !table.switching:
		t.finishMoves(table)
		if slices.ContainsFunc(table.ranges, func(r tableRange) bool { return len(r.waits) > 0 }) {
			return false // what moves arrives first
		}
		t.renumber(table)
		table.switching, table.waits = true, slices.Sorted(maps.Keys(t.hosts))
		var moving []protocol.Range
		for i := range table.ranges {
			r := &table.ranges[i]
			r.clean = r.clean || r.phase == releasing && r.nowClean
			table.lock(i)
			moving = append(moving, table.at(i, nil))
		}
		t.await(table, moving)
		t.broadcast(protocol.Order{Kind: protocol.Lock, Ranges: moving, WithSticky: true}, table)
		return false
	case len(table.waits) > 0 || slices.ContainsFunc(table.ranges, func(r tableRange) bool { return len(r.waits) > 0 }):
		return false
	}
	if !placement.Assigned(table.policy) || !placement.Assigned(policy) {
		table.ranges, table.cutFor = []tableRange{{}}, [2]*placement.Table{}
	}
	table.switching, table.policy, table.role.behind = false, policy, false
	table.setMoved(nil)
	for i := range table.ranges {
		r := &table.ranges[i]
		r.phase, r.clean = stable, r.clean || r.nowClean
	}
	if placement.Assigned(policy) && policy != "" {
		// What nobody will be given is to be known as well.
		t.renumber(table)
		t.broadcast(protocol.Order{Kind: protocol.Unlock, Ranges: table.routes()}, table)
	}
	return true
}

// stops reports whether hosts that hold nothing of a type have to stop running it before a
// policy is in force: they may run it anywhere by the policy that is, or by a deployment
// that this leader does not know, but not of a type's first one.
func (t *Tables) stops(table *rangeTable, policy string) bool {
	if policy == "" || !placement.Exclusive(policy) {
		return false
	}
	return table.policy != "" || table.role.behind
}

// spreadAll sets where types run whose ranges the leader does not assign: on every host, or
// on the hosts that check them out.
func (t *Tables) spreadAll(table *rangeTable) {
	serving := t.set(table.role.reports).serving
	table.full, table.open = false, nil
	if len(table.ranges) == 1 && sameSet(table.ranges[0].hosts, serving) {
		return
	}
	table.ranges, table.cutFor = []tableRange{{hosts: serving}}, [2]*placement.Table{}
	t.renumber(table)
	t.broadcast(protocol.Order{Kind: protocol.Unlock, Ranges: []protocol.Range{table.at(0, serving)}}, table)
}

// finishMoves ends the moves that have been confirmed.
func (t *Tables) finishMoves(table *rangeTable) {
	var unlocked []protocol.Range
	for _, i := range table.candidates() {
		r := &table.ranges[i]
		if r.phase != updating || len(r.waits) > 0 {
			continue
		}
		r.phase = stable
		if len(r.holds) == len(r.hosts) {
			unlocked = append(unlocked, table.at(i, r.hosts))
		}
	}
	if len(unlocked) > 0 {
		t.renumber(table)
		t.broadcast(protocol.Order{Kind: protocol.Unlock, Ranges: unlocked}, table)
	}
}

// move locks what should be elsewhere, and gives what is free. It looks at what is on the
// move, or to be moved, alone, unless something else has changed than that.
func (t *Tables) move(table *rangeTable) {
	table.readable = table.role.readable
	t.finishMoves(table)
	all, connected := t.target(table)
	for i, target := range [...]*placement.Table{all, connected} {
		if target == table.cutFor[i] {
			continue
		}
		table.cutFor[i], table.full = target, true
		if target != nil {
			points := make([]placement.Point, len(target.Ranges()))
			for i, r := range target.Ranges() {
				points[i] = r.First
			}
			table.cut(points)
		}
	}
	if table.full {
		table.merge(all, connected)
	}
	candidates := table.candidates()
	moving, slow := 0, 0
	for _, i := range candidates {
		r := &table.ranges[i]
		// What goes to nobody has arrived, and nothing will be heard of it.
		nowhere := r.phase == releasing && len(r.waits) == 0 && len(t.receivers(all, connected, r.first)) == 0
		switch {
		case r.phase == stable || nowhere:
		case r.slow:
			slow++
		default:
			moving++
		}
	}
	room := min(MaxMoving-moving, maxSlow-moving-slow) / maxTogether * maxTogether
	var (
		open       []int // not where they should be
		urgent     []int // to be locked, from hosts that leave
		others     []int
		given      []protocol.Range
		unassigned []protocol.Range
	)
	grants := map[placement.HostID][]protocol.Range{}
	for _, i := range candidates {
		r := &table.ranges[i]
		want := wanted(all, r.first)
		if r.phase == stable && sameSet(r.hosts, want) && len(r.holds) == len(r.hosts) {
			continue
		}
		open = append(open, i)
		switch {
		case r.phase == updating, r.phase == releasing && len(r.waits) > 0:
			continue
		case r.phase == stable && len(r.holds) == len(r.hosts) && len(r.hosts) > 0 && !t.reachable(want) && sameSet(r.hosts, wanted(connected, r.first)):
			continue // whom it is meant for is not there to take it
		case r.phase == stable && len(r.holds) > 0:
			if !t.reachable(r.holds) {
				continue // who cannot be asked keeps it; its claims, or its end, bring it here again
			}
			if slices.ContainsFunc(r.holds, t.Draining) {
				urgent = append(urgent, i)
			} else {
				others = append(others, i)
			}
			continue
		}
		// Nobody holds it.
		want = t.receivers(all, connected, r.first)
		if r.phase == releasing {
			r.clean = r.clean || r.nowClean
		}
		if len(want) == 0 && (r.phase == releasing || len(r.hosts) > 0) {
			r.readers = nil
			unassigned = append(unassigned, table.at(i, nil))
		}
		r.moved = isMoved(all, r.first, want) || isMoved(connected, r.first, want)
		r.hosts, r.holds, r.waits, r.phase = want, want, want, updating
		r.readers = table.readers(nil, r.first, want, all, connected)
		r.version = t.version + 1
		if len(want) == 0 {
			r.phase = stable
		} else {
			given = append(given, table.at(i, nil))
		}
		for _, id := range want {
			g := table.at(i, want)
			g.Clean = r.clean
			grants[id] = append(grants[id], g)
		}
	}
	read := table.reread(candidates, all, connected)
	if len(unassigned)+len(grants)+len(read) > 0 {
		t.renumber(table)
	}
	if len(read) > 0 {
		t.broadcast(protocol.Order{Kind: protocol.Unlock, Ranges: read}, table)
	}
	if len(given) > 0 {
		t.await(table, given)
	}
	for _, id := range slices.Sorted(maps.Keys(grants)) {
		t.order(protocol.Order{To: id, Kind: protocol.Update, Ranges: grants[id]}, table)
	}
	if len(unassigned) > 0 { // who had it may wait for news, and others know it at a host that was cleared
		t.broadcast(protocol.Order{Kind: protocol.Unlock, Ranges: unassigned}, table)
	}
	locks := slices.Concat(urgent, others)
	for together := range slices.Chunk(locks[:max(0, min(room, len(locks)))], maxTogether) {
		t.renumber(table)
		locked := make([]protocol.Range, 0, maxTogether)
		slices.Sort(together) // as orders have ranges
		for _, i := range together {
			table.lock(i)
			locked = append(locked, table.at(i, nil))
		}
		t.await(table, locked)
		t.broadcast(protocol.Order{Kind: protocol.Lock, Ranges: locked}, table)
	}
	table.open, table.full = open, false
	if len(open) == 0 {
		table.merge(all, connected)
	}
}

// Cool changes what was moved of one type by its heat, if that helps: at most every other
// report, and only while nothing moves and all hosts have reported lately.
func (t *Tables) Cool(c placement.Cooling, h *Heat, now clock.Instant) (step placement.Step, app, typ string, changed bool) {
	if !t.granting || now < h.next {
		return step, "", "", false
	}
	loads, ok := t.loads(h, now)
	if !ok {
		return step, "", "", false
	}
	asked := map[protocol.TypeName]bool{} // for
	for _, host := range h.hosts {
		for name := range host.types {
			asked[name] = true
		}
	}
	var states []placement.RingState
	names := map[string]protocol.TypeName{}
	for _, table := range t.tables {
		policy := table.role.policy
		if len(t.set(table.role.reports).serving) != len(loads) || !placement.IsRing(policy) || table.policy != policy || table.targets[0].ring == nil {
			continue
		}
		if table.switching || slices.ContainsFunc(table.ranges, func(r tableRange) bool { return r.phase != stable }) {
			return step, "", "", false // when it has settled
		}
		target := table.targets[0]
		for _, name := range table.types {
			if len(table.moved) > 0 || asked[name] {
				names[name.String()] = name
				states = append(states, placement.RingState{Type: name.String(), Base: target.ring, Table: target.moved, Moved: table.moved})
			}
		}
	}
	h.next = now + h.every
	slices.SortFunc(states, func(a, b placement.RingState) int { return cmp.Compare(a.Type, b.Type) })
	if step, changed = c.Next(loads, states, now); !changed {
		return step, "", "", false
	}
	h.next = now + heatPause*h.every
	name := names[step.Type]
	h.moved(name, step)
	t.Move(name.App, name.Type, step.Moved)
	return step, name.App, name.Type, true
}

// target returns the table of all hosts that serve a table's types, and the table of those
// hosts that are connected; nil where there are no such hosts.
func (t *Tables) target(table *rangeTable) (all, connected *placement.Table) {
	set := t.set(table.role.reports)
	if names := placement.StaticHosts(table.policy); len(names) > 0 {
		return t.static(table, names, set.serving), t.static(table, names, set.there)
	}
	each := placement.RingHosts(table.policy)
	var weights map[placement.HostID]placement.Weight
	if table.policy == abi.PlacementSticky {
		weights = t.Weights()
	}
	for i, hosts := range [...][]placement.HostID{set.serving, set.there} {
		if ring := t.ring(hosts, each, weights); ring == nil {
			table.targets[i] = target{}
		} else if ring != table.targets[i].ring {
			table.targets[i] = target{ring, ring.WithMoved(table.moved, hosts)}
		}
	}
	return table.targets[0].moved, table.targets[1].moved
}
