package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/protocol"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// Hosts count what they are asked for, by type and cell of the hash space, and report the
// cells that stand out. The leader has ranges of ring types split and moved by it
// ([placement.Cooling]).

const (
	// heatSample: one call in so many is counted.
	heatSample = 16
	// heatFloor: a cell with less than this part of the calls of its type is not reported.
	heatFloor = 1.0 / 1024
	// heatReports is how many reports of a host there have to be before anything is
	// decided, and how many it may be behind with.
	heatReports = 3
	// heatRests: after so many reports without a call the counts of a type are freed.
	heatRests = 12
	// heatPause is how many reports a step waits for what the one before it did.
	heatPause = 2
)

// callCounts counts the calls of one type. It takes memory once there are any.
type callCounts struct {
	cells  atomic.Pointer[[placement.Cells]atomic.Uint32] // of ring types that are called
	others atomic.Uint32                                  // while there are no cells
	rests  int                                            // reports without a call; of the one that reports
}

// count notes a call, if it is among those that are counted. It never blocks and does not
// allocate.
func (c *callCounts) count(key actor.Key) {
	if rand.Uint32()%heatSample != 0 { //nolint:gosec // statistics
		return
	}
	if cells := c.cells.Load(); cells != nil {
		cells[placement.CellOf(placement.PointOf(key))].Add(1)
	} else {
		c.others.Add(1)
	}
}

// take returns the calls since it was called last, which is so long ago: the rate of all,
// and, of a ring type, those of the cells that stand out. It is for one goroutine at a time.
func (c *callCounts) take(since clock.Instant, ring bool) (total float64, cells map[placement.Cell]float64) {
	others := c.others.Swap(0)
	counts := c.cells.Load()
	if counts == nil {
		if others > 0 && ring {
			c.rests = 0
			c.cells.Store(new([placement.Cells]atomic.Uint32))
		}
		return float64(others) * heatSample / since.Seconds(), nil
	}
	cells = map[placement.Cell]float64{}
	for i := range counts {
		if counts[i].Load() == 0 {
			continue
		}
		rate := float64(counts[i].Swap(0)) * heatSample / since.Seconds()
		total += rate
		cells[placement.Cell(i)] = rate //nolint:gosec // an index of it
	}
	maps.DeleteFunc(cells, func(_ placement.Cell, rate float64) bool { return rate < total*heatFloor })
	if c.rests++; total > 0 {
		c.rests = 0
	} else if c.rests >= heatRests {
		c.cells.Store(nil)
	}
	return total, cells
}

// reportHeat tells the leader what this host is asked for.
func (s *Service) reportHeat(ctx context.Context, ss *session) {
	last := s.now()
	for first := true; clock.Pause(ctx, s.cfg.HeatEvery); first = false {
		s.mu.Lock()
		counts := maps.Clone(s.counts)
		s.mu.Unlock()
		now, view := s.now(), s.view.Load()
		report := &greenroomv1.HeatReport{}
		for name, c := range counts {
			t, _ := view.of(name.App, name.Type)
			if total, cells := c.take(now-last, t != nil && placement.IsRing(t.policy)); total > 0 {
				report.Types = append(report.Types, protocol.ToHeat(name, "", total, cells))
			}
		}
		last = now
		if !first { // that may have calls of the time between sessions
			ss.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Heat{Heat: report}})
		}
	}
}

// countsOf returns what counts the calls of a type. The caller has the lock.
func (s *Service) countsOf(name protocol.TypeName) *callCounts {
	c := s.counts[name]
	if c == nil {
		c = &callCounts{}
		s.counts[name] = c
	}
	return c
}

// Heat is what a leader knows of what hosts are asked for. It is pure state, for one
// goroutine at a time.
type Heat struct {
	every clock.Instant // between two reports of a host
	hosts map[placement.HostID]*hostHeat
	next  clock.Instant // no step before
}

type hostHeat struct {
	at      clock.Instant // of the newest report
	reports int
	types   map[protocol.TypeName]*typeHeat
}

// typeHeat has calls per second, each report counting as much as all before it.
type typeHeat struct {
	total float64
	cells map[placement.Cell]float64
}

// NewHeat returns the state of a term that begins. Hosts report that often.
func NewHeat(every clock.Instant) *Heat {
	return &Heat{every: every, hosts: map[placement.HostID]*hostHeat{}}
}

// Reported takes a report of a host.
func (h *Heat) Reported(id placement.HostID, report *greenroomv1.HeatReport, now clock.Instant) {
	host := h.hosts[id]
	if host == nil {
		host = &hostHeat{types: map[protocol.TypeName]*typeHeat{}}
		h.hosts[id] = host
	}
	host.at = now
	host.reports++
	for _, t := range host.types {
		t.scale(0.5)
	}
	for _, reported := range report.GetTypes() {
		name := protocol.TypeName{App: reported.GetApp(), Type: reported.GetType()}
		t := host.types[name]
		if t == nil {
			t = &typeHeat{cells: map[placement.Cell]float64{}}
			host.types[name] = t
		}
		t.total += reported.GetCallsPerSecond() / 2
		rates := reported.GetCellCallsPerSecond()
		for i, cell := range reported.GetCells() {
			if i < len(rates) && cell < placement.Cells {
				t.cells[placement.Cell(cell)] += float64(rates[i]) / 2
			}
		}
	}
	maps.DeleteFunc(host.types, func(_ protocol.TypeName, t *typeHeat) bool { return t.total < 1 })
}

// scale multiplies the rates, and forgets the cells that are cold then.
func (t *typeHeat) scale(by float64) {
	t.total *= by
	for cell, rate := range t.cells {
		if rate *= by; rate < 1 {
			delete(t.cells, cell)
		} else {
			t.cells[cell] = rate
		}
	}
}

// Gone forgets a host.
func (h *Heat) Gone(id placement.HostID) { delete(h.hosts, id) }

// moved takes over that a part of a type is elsewhere from now on, so that the next
// decision need not wait for what the hosts measure.
func (h *Heat) moved(name protocol.TypeName, step placement.Step) {
	from, to := h.hosts[step.From], h.hosts[step.To]
	if from == nil || to == nil || from.types[name] == nil || step.From == step.To {
		return
	}
	source, target := from.types[name], to.types[name]
	if target == nil {
		target = &typeHeat{cells: map[placement.Cell]float64{}}
		to.types[name] = target
	}
	for cell, rate := range source.cells {
		if step.First <= cell.First() && cell.First() <= step.Last {
			delete(source.cells, cell)
			target.cells[cell] += rate
			source.total, target.total = max(source.total-rate, 0), target.total+rate
		}
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
		if table.switching || slices.ContainsFunc(table.ranges, func(r tableRange) bool { return r.phase != settled }) {
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

// loads returns what each host that may be given ranges is asked for; false if that is not
// known of all.
func (t *Tables) loads(h *Heat, now clock.Instant) (loads []placement.Load, known bool) {
	for _, id := range slices.Sorted(maps.Keys(t.hosts)) {
		if host := t.hosts[id]; host.draining || host.leadsOnly || len(host.report.types) == 0 {
			continue
		}
		heat := h.hosts[id]
		if heat == nil || heat.reports < heatReports || now-heat.at > heatReports*h.every {
			return nil, false
		}
		l := placement.Load{Host: id, Weight: t.weights()[id], Cells: map[string]map[placement.Cell]float64{}}
		for name, t := range heat.types {
			l.Total += t.total
			l.Cells[name.String()] = t.cells
		}
		loads = append(loads, l)
	}
	return loads, true
}

// kindOf names a step for people.
func kindOf(step placement.Step) string {
	switch {
	case step.Back:
		return HeatBack
	case step.Split:
		return HeatSplit
	default:
		return HeatWhole
	}
}

// cool moves what is hot, and tells of it. The caller has the lock.
func (t *term) cool() {
	step, app, typ, changed := t.tables.Cool(t.s.cfg.Cooling, t.heat, t.s.now())
	if !changed {
		return
	}
	kind := kindOf(step)
	t.s.cfg.Logger.Info("a range moves because of its heat", "app", app, "type", typ, "kind", kind,
		"first", fmt.Sprintf("%#x", uint64(step.First)), "last", fmt.Sprintf("%#x", uint64(step.Last)), "from", step.From, "to", step.To, "moved", len(step.Moved))
	if t.s.cfg.Events.HeatMoved != nil {
		t.s.cfg.Events.HeatMoved(kind)
	}
}

// HostHeat is what a host is asked for of one type, in calls per second: sampled, and
// smoothed over some reports.
type HostHeat struct {
	Host  actor.HostID
	Total float64
	// Cells are those that stand out.
	Cells map[placement.Cell]float64
}

// Heat returns how hot a type is at the hosts that are asked for it. The leader is asked,
// for as long as a lease.
func (s *Service) Heat(ctx context.Context, app, typ string) ([]HostHeat, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Lease)
	defer cancel()
	a, err := s.query(ctx, &greenroomv1.LeaderQuery{App: app, Type: typ, Heat: true})
	if err != nil {
		return nil, err
	}
	list := make([]HostHeat, len(a.GetHeat()))
	for i, t := range a.GetHeat() {
		h := HostHeat{Host: actor.HostID(t.GetHostId()), Total: t.GetCallsPerSecond(), Cells: map[placement.Cell]float64{}}
		for j, rate := range t.GetCellCallsPerSecond() {
			if j < len(t.GetCells()) {
				h.Cells[placement.Cell(t.GetCells()[j])] = float64(rate) //nolint:gosec // of a leader of this cluster
			}
		}
		list[i] = h
	}
	return list, nil
}

// answer is what is known of a type.
func (h *Heat) answer(name protocol.TypeName) (list []*greenroomv1.TypeHeat) {
	for _, id := range slices.Sorted(maps.Keys(h.hosts)) {
		if t := h.hosts[id].types[name]; t != nil {
			list = append(list, protocol.ToHeat(name, id, t.total, t.cells))
		}
	}
	return list
}
