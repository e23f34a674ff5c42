package assignment

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// fleet is the hosts that have a session, or had one and were not cleared.
type fleet struct {
	hosts   map[placement.HostID]*tableHost
	reports []*report                             // the different ones of all hosts; they are few
	sets    map[string]*hostSet                   // by the reports that they have; of the hosts as they are
	all     []placement.HostID                    // that are connected, in order; nil: they have changed
	weighed map[placement.HostID]placement.Weight // nil: the hosts have changed
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

// set returns the hosts that have one of some reports.
func (f *fleet) set(reports string) *hostSet {
	if set := f.sets[reports]; set != nil {
		return set
	}
	has := map[uint64]bool{}
	for rest := []byte(reports); len(rest) > 0; {
		id, n := binary.Uvarint(rest)
		has[id], rest = true, rest[n:]
	}
	set := &hostSet{}
	for id, h := range f.hosts {
		if has[h.report.id] && !h.draining && !h.leadsOnly {
			set.serving = append(set.serving, id)
		}
	}
	slices.Sort(set.serving)
	set.there = slices.DeleteFunc(slices.Clone(set.serving), func(id placement.HostID) bool { return !f.hosts[id].connected })
	f.sets[reports] = set
	return set
}

// hostsChanged notes that a host has come, gone, or is another one than before.
func (f *fleet) hostsChanged() { f.sets, f.all, f.weighed = map[string]*hostSet{}, nil, nil }

// Weights returns the weights of the hosts that may be given actors.
func (f *fleet) Weights() map[placement.HostID]placement.Weight {
	if f.weighed == nil {
		offers := map[placement.HostID]placement.Resources{}
		for id, h := range f.hosts {
			if !h.draining && !h.leadsOnly {
				offers[id] = h.resources
			}
		}
		f.weighed = placement.Weights(offers)
	}
	return f.weighed
}

// connected returns the hosts that get orders, in order.
func (f *fleet) connected() []placement.HostID {
	if f.all == nil {
		f.all = []placement.HostID{}
		for id, h := range f.hosts {
			if h.connected {
				f.all = append(f.all, id)
			}
		}
		slices.Sort(f.all)
	}
	return f.all
}

// loads returns what each host that may be given ranges is asked for; false if that is not
// known of all.
func (f *fleet) loads(h *Heat, now clock.Instant) (loads []placement.Load, known bool) {
	for _, id := range slices.Sorted(maps.Keys(f.hosts)) {
		if host := f.hosts[id]; host.draining || host.leadsOnly || len(host.report.types) == 0 {
			continue
		}
		heat := h.hosts[id]
		if heat == nil || heat.reports < heatReports || now-heat.at > heatReports*h.every {
			return nil, false
		}
		l := placement.Load{Host: id, Weight: f.Weights()[id], Cells: map[string]map[placement.Cell]float64{}}
		for name, of := range heat.types {
			l.Total += of.total
			l.Cells[name.String()] = of.cells
		}
		loads = append(loads, l)
	}
	return loads, true
}

// LeadsOnly tells of a host whose session has begun that it is to run nothing. What it
// reports of types says which deployments there are.
func (f *fleet) LeadsOnly(id placement.HostID) {
	if h := f.hosts[id]; h != nil {
		h.leadsOnly = true
		f.hostsChanged()
	}
}

// Offers records what a host whose session has begun has for actors; without it, a host is
// taken for a mean one.
func (f *fleet) Offers(id placement.HostID, r placement.Resources) {
	if h := f.hosts[id]; h != nil {
		h.resources = r
		f.hostsChanged()
	}
}

// Disconnected notes that a host's session is over and no other has begun.
func (f *fleet) Disconnected(id placement.HostID) {
	if h := f.hosts[id]; h != nil {
		h.connected = false
		f.hostsChanged()
	}
}

// KnownHosts returns the hosts that have begun a session and were not cleared.
func (f *fleet) KnownHosts() []placement.HostID { return slices.Collect(maps.Keys(f.hosts)) }

// TypesOf returns what a host has reported last; read-only.
func (f *fleet) TypesOf(id placement.HostID) map[protocol.TypeName]protocol.Type {
	if h := f.hosts[id]; h != nil {
		return h.report.types
	}
	return nil
}

// Draining reports whether a host is draining.
func (f *fleet) Draining(id placement.HostID) bool { h := f.hosts[id]; return h != nil && h.draining }

// static computes the table of a static type. Of several hosts of one name that which
// holds the part goes first, so that nothing moves by itself.
func (f *fleet) static(table *rangeTable, names []string, hosts []placement.HostID) *placement.Table {
	parts := make([]placement.HostID, len(names))
	bounds := placement.StaticTable(parts).Ranges()
	for i, name := range names {
		holds := table.ranges[table.index(bounds[i].First)].holds
		for _, id := range hosts { // in order
			if f.hosts[id].name == name && (parts[i] == "" || slices.Contains(holds, id)) {
				parts[i] = id
			}
		}
	}
	return placement.StaticTable(parts)
}

// receivers returns the hosts that a point goes to now: those that are to have it, or else
// those that would if only connected hosts were there.
func (f *fleet) receivers(all, connected *placement.Table, p placement.Point) []placement.HostID {
	if want := wanted(all, p); f.reachable(want) {
		return want
	}
	return wanted(connected, p)
}

// reachable reports whether hosts can be told now.
func (f *fleet) reachable(hosts []placement.HostID) bool {
	return !slices.ContainsFunc(hosts, func(id placement.HostID) bool { return !f.hosts[id].connected })
}

// reports notes that the host can run these types, in the place of what it reported before,
// and returns the reports that there are then, in the order of their IDs.
func (h *tableHost) reports(reports []*report, types []protocol.Type) []*report {
	if h.report != nil {
		reports = h.report.without(reports)
	}
	i := slices.IndexFunc(reports, func(r *report) bool { return r.says(types) })
	if i < 0 {
		r := &report{id: 1, types: make(map[protocol.TypeName]protocol.Type, len(types))}
		for _, typ := range types {
			r.types[typ.TypeName()] = typ
		}
		if n := len(reports); n > 0 {
			r.id = reports[n-1].id + 1
		}
		i, reports = len(reports), append(reports, r)
	}
	h.report = reports[i]
	h.report.hosts++
	return reports
}

// report is what some hosts can run.
type report struct {
	id    uint64 // reports that are there together have different ones
	hosts int    // that have it
	types map[protocol.TypeName]protocol.Type
}

// says reports whether a host that has the report can run these types.
func (r *report) says(types []protocol.Type) bool {
	if len(types) != len(r.types) {
		return false
	}
	return !slices.ContainsFunc(types, func(t protocol.Type) bool { return r.types[t.TypeName()] != t })
}

// without removes one host from the report, and the report from reports with its last host.
func (r *report) without(reports []*report) []*report {
	if r.hosts--; r.hosts > 0 {
		return reports
	}
	return slices.DeleteFunc(reports, func(o *report) bool { return o == r })
}

// hostSet is the hosts that a table is computed from.
type hostSet struct {
	serving []placement.HostID // that can run its types, and do not leave; in order
	there   []placement.HostID // those of them that are connected
}
