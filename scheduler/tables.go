package scheduler

import (
	"maps"
	"slices"

	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// HeldRange is a part of the hash space with the hosts that share it.
type HeldRange struct {
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
	Remove                      // no host serves the type any more
)

// Order changes a part of a type's table at one host.
type Order struct {
	To        placement.HostID
	App, Type string
	Version   uint64
	Kind      OrderKind
	Policy    string
	Ranges    []HeldRange
	// WithSticky: the sticky actors of the type are handed over as well.
	WithSticky bool
}

// What bounds the ranges of a type that move at once and are held, so that few actors
// pause at a time, and each for the hand-over of few others.
const (
	// maxTogether is how many ranges one LOCK names. They are handed over together: the
	// slowest turn of their actors is what all of them wait for.
	maxTogether = 8
	// maxMoving is how many move, of those that have not taken long.
	maxMoving = 2 * maxTogether
	// maxSlow is how many move with those that have: turns that take seconds would hold up
	// all others.
	maxSlow = 64
)

// Tables is what the leader of one term knows of the tables of all types: who holds
// what, and what moves. It stands beside the term's [Leader], which knows the sessions:
// every message is one of a host's newest session. It is pure state, for one goroutine
// at a time.
type Tables struct {
	hosts    map[placement.HostID]*tableHost
	types    map[typeName]*rangeTable
	granting bool
	dirty    map[typeName]struct{} // may have something to do
	orders   []Order
	even     int                         // ranges of a new table
	rings    map[string]*placement.Table // tables of even ranges, by their hosts
}

// tableHost is what is known of a host beside its ranges.
type tableHost struct {
	name      string
	connected bool // its claims are complete
	draining  bool
	leadsOnly bool              // it is to run nothing
	types     map[typeName]Type // that it can run, or would
	claims    map[typeName][]HeldRange
}

// NewTables returns the tables of a term that begins: nothing is known. The table of a
// new type has so many ranges.
func NewTables(ranges int) *Tables {
	return &Tables{
		hosts: map[placement.HostID]*tableHost{}, types: map[typeName]*rangeTable{},
		dirty: map[typeName]struct{}{}, rings: map[string]*placement.Table{}, even: ranges,
	}
}

// Begin opens a session of a host, which people call name: [Tables.Claim] tells what it holds, and
// [Tables.Claimed] that this was all.
func (t *Tables) Begin(id placement.HostID, name string, draining bool) {
	h := t.hosts[id]
	if h == nil {
		h = &tableHost{}
		t.hosts[id] = h
	}
	h.name, h.connected, h.claims = name, false, map[typeName][]HeldRange{}
	h.draining = h.draining || draining
}

// LeadsOnly tells of a host whose session has begun that it is to run nothing. What it
// reports of types says which deployments there are.
func (t *Tables) LeadsOnly(id placement.HostID) {
	if h := t.hosts[id]; h != nil {
		h.leadsOnly = true
	}
}

// Disconnected tells that a session is over and no other has begun.
func (t *Tables) Disconnected(id placement.HostID) {
	if h := t.hosts[id]; h != nil {
		h.connected = false
	}
}

// Reported tells all types that a host can run.
func (t *Tables) Reported(id placement.HostID, types []Type) {
	h := t.hosts[id]
	if h == nil {
		return
	}
	for name := range h.types {
		t.dirty[name] = struct{}{}
	}
	h.types = make(map[typeName]Type, len(types))
	for _, typ := range types {
		name := typeName{typ.App, typ.Name}
		h.types[name] = typ
		t.dirty[name] = struct{}{}
		if t.types[name] == nil {
			t.types[name] = newRangeTable()
		}
	}
}

// typesOf returns what a host has reported last; read-only.
func (t *Tables) typesOf(id placement.HostID) map[typeName]Type {
	if h := t.hosts[id]; h != nil {
		return h.types
	}
	return nil
}

// Claim tells ranges of a type that a host holds as its session begins, under the policy
// by which it does. Without ranges it tells that the host owns sticky actors of the type,
// or competes for partitions of it.
func (t *Tables) Claim(id placement.HostID, app, typ, policy string, ranges []HeldRange) {
	h, name := t.hosts[id], typeName{app, typ}
	if h == nil || h.connected {
		return
	}
	table := t.types[name]
	if table == nil {
		table = newRangeTable()
		t.types[name] = table
	}
	if table.policy == "" {
		table.policy = policy
	}
	h.claims[name] = append(h.claims[name], ranges...)
	t.dirty[name] = struct{}{}
}

// Claimed tells that a host has claimed all that it holds. What it was known to hold
// and has not claimed, it does not hold.
func (t *Tables) Claimed(id placement.HostID) {
	h := t.hosts[id]
	if h == nil || h.connected {
		return
	}
	h.connected = true
	for name, table := range t.types {
		if !t.granting { // later this leader knows better
			table.adoptMoved(id, h.claims[name])
		}
		table.adopt(id, h.claims[name])
		t.dirty[name] = struct{}{}
		if t.granting {
			t.sync(name, table, id)
		}
	}
	h.claims = nil
}

// Released tells that nothing of what a LOCK named is left at a host.
func (t *Tables) Released(id placement.HostID, app, typ string, version uint64, ranges []HeldRange) {
	table := t.types[typeName{app, typ}]
	if table == nil {
		return
	}
	if table.switching && version == table.version {
		table.waits = without(table.waits, id)
		t.dirty[typeName{app, typ}] = struct{}{}
	}
	for i := range table.ranges {
		r := &table.ranges[i]
		if r.phase != releasing || r.version != version || !slices.Contains(r.waits, id) {
			continue
		}
		j := slices.IndexFunc(ranges, func(c HeldRange) bool { return c.First <= r.first && r.first <= c.Last })
		t.dirty[typeName{app, typ}] = struct{}{}
		r.ripe = r.ripe && j >= 0 && ranges[j].Clean
		r.holds, r.waits = without(r.holds, id), without(r.waits, id)
	}
}

// Updated tells that a host has taken over what an UPDATE gave it.
func (t *Tables) Updated(id placement.HostID, app, typ string, version uint64) {
	table := t.types[typeName{app, typ}]
	if table == nil {
		return
	}
	for i := range table.ranges {
		if r := &table.ranges[i]; r.phase == updating && r.version == version {
			t.dirty[typeName{app, typ}] = struct{}{}
			r.waits = without(r.waits, id)
		}
	}
}

// Cleared tells that a host's row is gone: it holds nothing.
func (t *Tables) Cleared(id placement.HostID) {
	if t.hosts[id] == nil {
		return
	}
	delete(t.hosts, id)
	for name, table := range t.types {
		t.dirty[name] = struct{}{}
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

// Drain tells that a host is to hand over what it holds, and to get nothing new.
func (t *Tables) Drain(id placement.HostID) {
	if h := t.hosts[id]; h != nil && !h.draining {
		h.draining = true
		for name := range t.types {
			t.dirty[name] = struct{}{}
		}
	}
}

// Draining reports whether a host is draining.
func (t *Tables) Draining(id placement.HostID) bool { h := t.hosts[id]; return h != nil && h.draining }

// Slow tells that what moves now has been moving for a while: others need not wait for it.
func (t *Tables) Slow() {
	for name, table := range t.types {
		for i := range table.ranges {
			if r := &table.ranges[i]; r.phase != settled && !r.slow {
				r.slow = true
				t.dirty[name] = struct{}{}
			}
		}
	}
}

// Move says which parts of a ring type are elsewhere than by the ring: in order, without
// overlaps.
func (t *Tables) Move(app, typ string, moved []placement.Moved) {
	if table := t.types[typeName{app, typ}]; table != nil {
		table.setMoved(moved)
		t.dirty[typeName{app, typ}] = struct{}{}
	}
}

// Policy returns the policy of a type that is in force, and whether it is about to
// change, or to come into force; empty if there is no such type.
func (t *Tables) Policy(app, typ string) (policy string, switching bool) {
	table := t.types[typeName{app, typ}]
	if table == nil {
		return "", false
	}
	return table.policy, table.switching || table.policy == ""
}

// Plan returns the orders that follow from what happened since the last time. granting
// is [Leader.Granting]; before that there are none.
func (t *Tables) Plan(granting bool) []Order {
	if !granting {
		return nil
	}
	if !t.granting {
		t.granting = true
		for name, table := range t.types {
			t.dirty[name] = struct{}{}
			for id, h := range t.hosts {
				if h.connected {
					t.sync(name, table, id)
				}
			}
		}
	}
	for name := range t.dirty {
		t.plan(name, t.types[name])
	}
	clear(t.dirty)
	orders := t.orders
	t.orders = nil
	return orders
}

// sync tells a host whose session has begun where everything is. What it was asked for
// in an earlier session it is asked again.
func (t *Tables) sync(name typeName, table *rangeTable, id placement.HostID) {
	locks := map[uint64][]HeldRange{}
	for i := range table.ranges {
		r := &table.ranges[i]
		if r.phase == releasing && slices.Contains(r.waits, id) {
			locks[r.version] = append(locks[r.version], table.at(i, nil))
		}
	}
	t.order(Order{To: id, Kind: Unlock, Ranges: table.routes()}, name, table)
	if table.switching && !slices.Contains(table.waits, id) {
		t.orders[len(t.orders)-1].Policy = "" // what it has given up it does not begin again
	}
	if table.switching && slices.Contains(table.waits, id) && locks[table.version] == nil {
		locks[table.version] = []HeldRange{}
	}
	for version, ranges := range locks {
		t.orders = append(t.orders, Order{
			To: id, App: name.app, Type: name.typ, Version: version, Kind: Lock, Policy: table.policy,
			Ranges: ranges, WithSticky: table.switching,
		})
	}
}

// order adds an order about a type, at its present version.
func (t *Tables) order(o Order, name typeName, table *rangeTable) {
	o.App, o.Type, o.Version, o.Policy = name.app, name.typ, table.version, table.policy
	t.orders = append(t.orders, o)
}

// broadcast adds an order for every host.
func (t *Tables) broadcast(o Order, name typeName, table *rangeTable) {
	for _, id := range slices.Sorted(maps.Keys(t.hosts)) {
		if t.hosts[id].connected {
			o.To = id
			t.order(o, name, table)
		}
	}
}

// plan brings one type nearer to where it should be.
func (t *Tables) plan(name typeName, table *rangeTable) {
	if table == nil {
		return
	}
	serving, policy := t.serving(name)
	if (table.switching || table.policy != policy) && !t.switchPolicy(name, table, policy) {
		return
	}
	switch {
	case policy == "": // nobody knows it any more
		delete(t.types, name)
		t.broadcast(Order{Kind: Remove}, name, table)
	case !tabled(policy):
		t.spreadAll(name, table, serving)
	default:
		t.move(name, table, serving)
	}
}

// serving returns the hosts that a type's table is computed from, in order, and the
// policy by which they run it: where they differ, that of the newest deployment. The
// policy is empty if no host knows the type.
func (t *Tables) serving(name typeName) (hosts []placement.HostID, policy string) {
	var newest Type
	for id, h := range t.hosts {
		typ, runs := h.types[name]
		if !runs {
			continue
		}
		if policy == "" || typ.Generation > newest.Generation || typ.Generation == newest.Generation && typ.Placement > policy {
			newest, policy = typ, typ.Placement
		}
		if !h.draining && !h.leadsOnly {
			hosts = append(hosts, id)
		}
	}
	slices.Sort(hosts)
	return hosts, policy
}

// switchPolicy has everything handed over, and reports whether the new policy is in
// force.
func (t *Tables) switchPolicy(name typeName, table *rangeTable, policy string) bool {
	switch {
	case !table.switching && (table.policy == "" || !held(table.policy)) && !t.stops(name, table, policy):
		// Nobody holds anything, and nobody has to stop.
	case !table.switching && byRanges(table.policy) && byRanges(policy):
		table.policy = policy
		table.setMoved(nil)
		table.version++
		t.broadcast(Order{Kind: Unlock, Ranges: table.routes()}, name, table)
		return true
	case !table.switching:
		t.settle(name, table)
		if slices.ContainsFunc(table.ranges, func(r tableRange) bool { return len(r.waits) > 0 }) {
			return false // what moves arrives first
		}
		table.version++
		table.switching, table.waits = true, slices.Sorted(maps.Keys(t.hosts))
		var moving []HeldRange
		for i := range table.ranges {
			r := &table.ranges[i]
			r.clean = r.clean || r.phase == releasing && r.ripe
			table.lock(i)
			moving = append(moving, table.at(i, nil))
		}
		t.broadcast(Order{Kind: Lock, Ranges: moving, WithSticky: true}, name, table)
		return false
	case len(table.waits) > 0 || slices.ContainsFunc(table.ranges, func(r tableRange) bool { return len(r.waits) > 0 }):
		return false
	}
	if !tabled(table.policy) || !tabled(policy) {
		table.ranges, table.cutFor = []tableRange{{}}, [2]*placement.Table{}
	}
	table.switching, table.policy = false, policy
	table.setMoved(nil)
	for i := range table.ranges {
		r := &table.ranges[i]
		r.phase, r.clean = settled, r.clean || r.ripe
	}
	if tabled(policy) && policy != "" {
		// What nobody will be given is to be known as well.
		table.version++
		t.broadcast(Order{Kind: Unlock, Ranges: table.routes()}, name, table)
	}
	return true
}

// stops reports whether hosts that hold nothing of a type have to stop running it before a
// policy is in force: they may run it anywhere by the policy that is, or by a deployment
// of which this leader does not know, but not of a type's first one.
func (t *Tables) stops(name typeName, table *rangeTable, policy string) bool {
	if policy == "" || !held(policy) || table.policy != "" {
		return policy != "" && held(policy)
	}
	newest := uint64(0)
	for _, h := range t.hosts {
		newest = max(newest, h.types[name].Generation)
	}
	for _, h := range t.hosts {
		if h.types[name].Generation < newest && newest > 1 {
			return true
		}
	}
	return false
}

// spreadAll tells where a type is run of which the leader gives nothing: wherever there is
// a host, or where one checks it out.
func (t *Tables) spreadAll(name typeName, table *rangeTable, serving []placement.HostID) {
	r := tableRange{hosts: serving}
	if len(table.ranges) == 1 && sameSet(table.ranges[0].hosts, serving) {
		return
	}
	table.ranges, table.cutFor = []tableRange{r}, [2]*placement.Table{}
	table.version++
	t.broadcast(Order{Kind: Unlock, Ranges: []HeldRange{table.at(0, serving)}}, name, table)
}

// settle ends the moves that have been confirmed.
func (t *Tables) settle(name typeName, table *rangeTable) {
	var unlocked []HeldRange
	for i := range table.ranges {
		r := &table.ranges[i]
		if r.phase != updating || len(r.waits) > 0 {
			continue
		}
		r.phase = settled
		if len(r.holds) == len(r.hosts) {
			unlocked = append(unlocked, table.at(i, r.hosts))
		}
	}
	if len(unlocked) > 0 {
		table.version++
		t.broadcast(Order{Kind: Unlock, Ranges: unlocked}, name, table)
	}
}

// move locks what should be elsewhere, and gives what is free.
func (t *Tables) move(name typeName, table *rangeTable, serving []placement.HostID) {
	table.readable = t.readable(name, table.policy)
	t.settle(name, table)
	all, connected := t.target(table, serving)
	for i, target := range [...]*placement.Table{all, connected} {
		if target != nil && target != table.cutFor[i] {
			table.cutFor[i] = target
			points := make([]placement.Point, len(target.Ranges()))
			for i, r := range target.Ranges() {
				points[i] = r.First
			}
			table.cut(points)
		}
	}
	moving, slow := 0, 0
	for i := range table.ranges {
		r := &table.ranges[i]
		// What goes to nobody has arrived, and nothing will be heard of it.
		nowhere := r.phase == releasing && len(r.waits) == 0 && len(t.takers(all, connected, r.first)) == 0
		switch {
		case r.phase == settled || nowhere:
		case r.slow:
			slow++
		default:
			moving++
		}
	}
	room := min(maxMoving-moving, maxSlow-moving-slow) / maxTogether * maxTogether
	table.version++
	var (
		urgent  []int // to be locked, from hosts that leave
		others  []int
		nobodys []HeldRange
	)
	grants := map[placement.HostID][]HeldRange{}
	for i := range table.ranges {
		r := &table.ranges[i]
		want := wanted(all, r.first)
		switch {
		case r.phase == updating, r.phase == releasing && len(r.waits) > 0:
			continue
		case r.phase == settled && sameSet(r.hosts, want) && len(r.holds) == len(r.hosts):
			continue
		case r.phase == settled && len(r.holds) == len(r.hosts) && len(r.hosts) > 0 && !t.reachable(want) && sameSet(r.hosts, wanted(connected, r.first)):
			continue // whom it is meant for is not there to take it
		case r.phase == settled && len(r.holds) > 0:
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
		want = t.takers(all, connected, r.first)
		if r.phase == releasing {
			r.clean = r.clean || r.ripe
			if len(want) == 0 {
				r.readers = nil
				nobodys = append(nobodys, table.at(i, nil))
			}
		}
		r.moved = isMoved(all, r.first, want) || isMoved(connected, r.first, want)
		r.hosts, r.holds, r.waits, r.phase = want, want, want, updating
		r.readers = table.readers(nil, r.first, want, all, connected)
		r.version = table.version
		if len(want) == 0 {
			r.phase = settled
		}
		for _, id := range want {
			g := table.at(i, want)
			g.Clean = r.clean
			grants[id] = append(grants[id], g)
		}
	}
	read := table.reread(all, connected)
	if len(read) > 0 {
		t.broadcast(Order{Kind: Unlock, Ranges: read}, name, table)
	}
	for _, id := range slices.Sorted(maps.Keys(grants)) {
		t.order(Order{To: id, Kind: Update, Ranges: grants[id]}, name, table)
	}
	if len(nobodys) > 0 { // who had it may wait for news
		t.broadcast(Order{Kind: Unlock, Ranges: nobodys}, name, table)
	}
	if len(nobodys)+len(grants)+len(read) == 0 {
		table.version-- // nobody was told of it
	}
	locks := slices.Concat(urgent, others)
	for together := range slices.Chunk(locks[:max(0, min(room, len(locks)))], maxTogether) {
		table.version++
		locked := make([]HeldRange, 0, maxTogether)
		slices.Sort(together) // as orders have ranges
		for _, i := range together {
			table.lock(i)
			locked = append(locked, table.at(i, nil))
		}
		t.broadcast(Order{Kind: Lock, Ranges: locked}, name, table)
	}
	table.merge(all, connected)
}

// TypeTable is what a leader knows of the table of a type.
type TypeTable struct {
	App, Type, Policy string
	Version           uint64
	Ranges            []TableRange
}

// TableRange is a range of a [TypeTable].
type TableRange struct {
	HeldRange
	// Moving: it is between its holders, or not taken over yet.
	Moving bool
}

// Table returns the table of a type; false if there is none.
func (t *Tables) Table(app, typ string) (TypeTable, bool) {
	table := t.types[typeName{app, typ}]
	if table == nil {
		return TypeTable{}, false
	}
	out := TypeTable{App: app, Type: typ, Policy: table.policy, Version: table.version}
	for i := range table.ranges {
		r := &table.ranges[i]
		at := table.at(i, r.holds)
		if !tabled(table.policy) {
			out.Ranges = append(out.Ranges, TableRange{HeldRange: table.at(i, r.hosts)})
			continue
		}
		at.Clean = r.clean
		out.Ranges = append(out.Ranges, TableRange{HeldRange: at, Moving: r.phase != settled || len(r.holds) < len(r.hosts) || len(r.hosts) == 0})
	}
	return out, true
}

// Shares returns how many ranges of held types each host holds.
func (t *Tables) Shares() map[placement.HostID]int {
	shares := map[placement.HostID]int{}
	for _, table := range t.types {
		if !tabled(table.policy) {
			continue
		}
		for i := range table.ranges {
			for _, id := range table.ranges[i].holds {
				shares[id]++
			}
		}
	}
	return shares
}
