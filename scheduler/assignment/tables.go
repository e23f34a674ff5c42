package assignment

import (
	"cmp"
	"maps"
	"slices"

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
	hosts    map[placement.HostID]*tableHost
	types    map[protocol.TypeName]*rangeTable
	tables   map[uint64]*rangeTable // each once, by its group
	granting bool
	dirty    map[*rangeTable]struct{} // may have something to do
	orders   []protocol.Order
	version  uint64 // of the newest order
	groups   uint64 // of the newest group
	// awaited has the orders that hosts have not all answered, by version.
	awaited map[uint64]*awaited
	// reports are the different ones of all hosts; they are few. divides: they have changed,
	// so that types of one table may have to be told apart.
	reports []*report
	divides bool
	sets    map[string]*hostSet // by the reports that they have; of the hosts as they are
	all     []placement.HostID  // that are connected, in order; nil: they have changed
	even    int                 // ranges of a new table
	rings   map[string]*placement.Table
	// weighed has the weights of the hosts; nil: they have changed.
	weighed map[placement.HostID]placement.Weight
}

// tableHost is what is known of a host beside its ranges.
type tableHost struct {
	name      string
	connected bool // its claims are complete
	draining  bool
	leadsOnly bool    // it is to run nothing
	report    *report // of the types that it can run, or would
	claims    map[protocol.TypeName]*claim
	// resources are what the host has announced that it has for actors.
	resources placement.Resources
}

// claim is what a host holds of some types as its session begins.
type claim struct {
	policy string
	ranges []protocol.Range
}

// awaited is an order that hosts answer.
type awaited struct {
	// version is that of the order. One that is repeated in another session has a version of
	// its own, since its types may have been divided: an answer is about no more than the
	// order that it answers.
	version uint64
	tables  []*rangeTable // of the types that it was about
	ranges  []protocol.Range
}

// NewTables returns the tables of a term that begins: nothing is known. The table of a
// new type has so many ranges.
func NewTables(ranges int) *Tables {
	t := &Tables{
		hosts: map[placement.HostID]*tableHost{}, types: map[protocol.TypeName]*rangeTable{}, tables: map[uint64]*rangeTable{},
		dirty: map[*rangeTable]struct{}{}, awaited: map[uint64]*awaited{}, rings: map[string]*placement.Table{}, even: ranges,
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
	h.draining = h.draining || draining
	t.hostsChanged()
}

// LeadsOnly tells of a host whose session has begun that it is to run nothing. What it
// reports of types says which deployments there are.
func (t *Tables) LeadsOnly(id placement.HostID) {
	if h := t.hosts[id]; h != nil {
		h.leadsOnly = true
		t.hostsChanged()
	}
}

// Offers records what a host whose session has begun has for actors; without it, a host is
// taken for a mean one.
func (t *Tables) Offers(id placement.HostID, r placement.Resources) {
	if h := t.hosts[id]; h != nil {
		h.resources = r
		t.hostsChanged()
	}
}

// Disconnected notes that a host's session is over and no other has begun.
func (t *Tables) Disconnected(id placement.HostID) {
	if h := t.hosts[id]; h != nil {
		h.connected = false
		t.hostsChanged()
	}
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

// KnownHosts returns the hosts that have begun a session and were not cleared.
func (t *Tables) KnownHosts() []placement.HostID { return slices.Collect(maps.Keys(t.hosts)) }

// TypesOf returns what a host has reported last; read-only.
func (t *Tables) TypesOf(id placement.HostID) map[protocol.TypeName]protocol.Type {
	if h := t.hosts[id]; h != nil {
		return h.report.types
	}
	return nil
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
	}, func(table *rangeTable, r *tableRange, version uint64) bool {
		if r.phase != releasing || r.version != version {
			return false
		}
		if slices.Contains(r.waits, id) {
			t.dirty[table] = struct{}{}
			for _, ranges := range answers {
				i, found := slices.BinarySearchFunc(ranges, r.first, func(c protocol.Range, p placement.Point) int { return cmp.Compare(c.First, p) })
				if !found {
					i--
				}
				r.ripe = r.ripe && i >= 0 && r.first <= ranges[i].Last && ranges[i].Clean
			}
			r.holds, r.waits = without(r.holds, id), without(r.waits, id)
		}
		return len(r.waits) > 0
	})
}

// Updated notes that a host has taken over what an UPDATE gave it.
func (t *Tables) Updated(id placement.HostID, version uint64) {
	t.answered(version, func(*rangeTable, uint64) bool { return false }, func(table *rangeTable, r *tableRange, version uint64) bool {
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

// answered has an answer taken by the tables and ranges that the order was about, each of
// which says whether it waits for another one. They get the version that they know.
func (t *Tables) answered(version uint64, tableWaits func(*rangeTable, uint64) bool, rangeWaits func(*rangeTable, *tableRange, uint64) bool) {
	order := t.awaited[version]
	if order == nil {
		return
	}
	waits := false
	for _, table := range order.tables {
		waits = tableWaits(table, order.version) || waits
		for _, ordered := range order.ranges {
			for i := table.index(ordered.First); i < len(table.ranges) && table.ranges[i].first <= ordered.Last; i++ {
				waits = rangeWaits(table, &table.ranges[i], order.version) || waits
			}
		}
	}
	if !waits {
		delete(t.awaited, version)
	}
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
				r.holds, r.clean, r.ripe = without(r.holds, id), false, false
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

// Draining reports whether a host is draining.
func (t *Tables) Draining(id placement.HostID) bool { h := t.hosts[id]; return h != nil && h.draining }

// Slow notes that what moves now has been moving for a while: others need not wait for it.
func (t *Tables) Slow() {
	for _, table := range t.tables {
		for i := range table.ranges {
			if r := &table.ranges[i]; r.phase != stable && !r.slow {
				r.slow = true
				t.dirty[table] = struct{}{}
			}
		}
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

// Policy returns the policy of a type that is in force, and whether it is about to
// change, or to come into force; empty if there is no such type.
func (t *Tables) Policy(app, typ string) (policy string, switching bool) {
	table := t.types[protocol.TypeName{App: app, Type: typ}]
	if table == nil {
		return "", false
	}
	return table.policy, table.switching || table.policy == ""
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
	if !slices.ContainsFunc(slices.Collect(maps.Values(t.tables)), func(table *rangeTable) bool { return !table.rests() }) {
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

// order adds an order about a table, at its present version.
func (t *Tables) order(o protocol.Order, table *rangeTable) {
	o.Group, o.Types, o.Version, o.Policy = table.group, table.types, table.version, table.policy
	t.orders = append(t.orders, o)
}

// broadcast adds an order for every host.
func (t *Tables) broadcast(o protocol.Order, table *rangeTable) {
	for _, id := range t.connected() {
		o.To = id
		t.order(o, table)
	}
}

// renumber gives a table's orders from now on a version of their own.
func (t *Tables) renumber(table *rangeTable) {
	t.version++
	table.version = t.version
}

// await notes that hosts answer the table's newest order.
func (t *Tables) await(table *rangeTable, ranges []protocol.Range) {
	t.awaited[table.version] = &awaited{table.version, []*rangeTable{table}, ranges}
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
			r.clean = r.clean || r.phase == releasing && r.ripe
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
		r.phase, r.clean = stable, r.clean || r.ripe
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
			r.clean = r.clean || r.ripe
			if len(want) == 0 {
				r.readers = nil
				unassigned = append(unassigned, table.at(i, nil))
			}
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
	if len(unassigned) > 0 { // who had it may wait for news
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

// TypeTable is what a leader knows of the table of a type.
type TypeTable struct {
	App, Type, Policy string
	Version           uint64
	Ranges            []TableRange
}

// TableRange is a range of a [TypeTable].
type TableRange struct {
	protocol.Range
	// Moving: it is between its holders, or not taken over yet.
	Moving bool
}

// Table returns the table of a type; false if the type has no table.
func (t *Tables) Table(app, typ string) (TypeTable, bool) {
	table := t.types[protocol.TypeName{App: app, Type: typ}]
	if table == nil {
		return TypeTable{}, false
	}
	out := TypeTable{App: app, Type: typ, Policy: table.policy, Version: table.version}
	for i := range table.ranges {
		r := &table.ranges[i]
		at := table.at(i, r.holds)
		if !placement.Assigned(table.policy) {
			out.Ranges = append(out.Ranges, TableRange{Range: table.at(i, r.hosts)})
			continue
		}
		at.Clean = r.clean
		out.Ranges = append(out.Ranges, TableRange{Range: at, Moving: r.phase != stable || len(r.holds) < len(r.hosts) || len(r.hosts) == 0})
	}
	return out, true
}

// Shares returns how many ranges of held types each host holds.
func (t *Tables) Shares() map[placement.HostID]int {
	shares := map[placement.HostID]int{}
	for _, table := range t.tables {
		if !placement.Assigned(table.policy) {
			continue
		}
		for i := range table.ranges {
			for _, id := range table.ranges[i].holds {
				shares[id] += len(table.types)
			}
		}
	}
	return shares
}
