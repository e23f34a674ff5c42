package assignment

import (
	"maps"
	"slices"

	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/protocol"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

const (
	// heatReports is how many reports of a host there have to be before anything is
	// decided, and how many it may be behind with.
	heatReports = 3
	// heatPause is how many reports a step waits for what the one before it did.
	heatPause = 2
)

// What happens to a range that is moved because of heat.
const (
	HeatSplit = "split" // it is cut, and a side of it moves
	HeatWhole = "whole" // it moves
	HeatBack  = "back"  // it is cold, and goes back to where the ring has it
)

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

// HeatKind names a step for people.
func HeatKind(step placement.Step) string {
	switch {
	case step.Back:
		return HeatBack
	case step.Split:
		return HeatSplit
	default:
		return HeatWhole
	}
}

// Answer is what is known of a type.
func (h *Heat) Answer(name protocol.TypeName) (list []*greenroomv1.TypeHeat) {
	for _, id := range slices.Sorted(maps.Keys(h.hosts)) {
		if t := h.hosts[id].types[name]; t != nil {
			list = append(list, protocol.ToHeat(name, id, t.total, t.cells))
		}
	}
	return list
}
