package assignment

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// Where the ranges of a type are to be, which [Tables] then brings about.

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

// static computes the table of a static type. Of several hosts of one name that which
// holds the part goes first, so that nothing moves by itself.
func (t *Tables) static(table *rangeTable, names []string, hosts []placement.HostID) *placement.Table {
	parts := make([]placement.HostID, len(names))
	bounds := placement.StaticTable(parts).Ranges()
	for i, name := range names {
		holds := table.find(bounds[i].First).holds
		for _, id := range hosts { // in order
			if t.hosts[id].name == name && (parts[i] == "" || slices.Contains(holds, id)) {
				parts[i] = id
			}
		}
	}
	return placement.StaticTable(parts)
}

// ring computes a table with so many hosts for each range, which is remembered. Without
// weights all hosts are equal.
func (t *Tables) ring(hosts []placement.HostID, each int, weights map[placement.HostID]placement.Weight) *placement.Table {
	var key strings.Builder
	key.WriteString(strconv.Itoa(each) + "|")
	for _, id := range hosts {
		key.WriteString(string(id) + "|" + strconv.Itoa(int(cmp.Or(weights[id], placement.MeanWeight))) + "|")
	}
	if table, found := t.rings[key.String()]; found {
		return table
	}
	ring := placement.Ring{Ranges: t.even, Hosts: each, Weights: weights}
	if each > 1 { // which are divided: the table is as long as that of another ring
		ring.Ranges = max(1, t.even/placement.ReadParts)
	}
	table, err := ring.Table(hosts)
	if err != nil {
		panic("scheduler: " + err.Error()) // Config was checked
	}
	if table != nil {
		table = table.WithReaders()
	}
	if len(t.rings) >= 16 {
		clear(t.rings)
	}
	t.rings[key.String()] = table
	return table
}

// receivers returns the hosts that a point goes to now: those that are to have it, or else
// those that would if only connected hosts were there.
func (t *Tables) receivers(all, connected *placement.Table, p placement.Point) []placement.HostID {
	if want := wanted(all, p); t.reachable(want) {
		return want
	}
	return wanted(connected, p)
}

// reachable reports whether hosts can be told now.
func (t *Tables) reachable(hosts []placement.HostID) bool {
	return !slices.ContainsFunc(hosts, func(id placement.HostID) bool { return !t.hosts[id].connected })
}

// wanted returns the hosts that a target gives a point, in order; none without a target.
func wanted(target *placement.Table, p placement.Point) []placement.HostID {
	if target == nil {
		return nil
	}
	hosts := target.Find(p).Hosts
	if len(hosts) > 1 {
		hosts = slices.Sorted(slices.Values(hosts))
	}
	return hosts
}

// readers returns the readers of a point that is at hosts: those of the target that has
// it there, and the ones that were if none does.
func (t *rangeTable) readers(was []placement.HostID, p placement.Point, hosts []placement.HostID, targets ...*placement.Table) []placement.HostID {
	if !t.readable {
		return nil
	}
	for _, target := range targets {
		if target == nil {
			continue
		}
		if r := target.Find(p); sameSet(r.Hosts, hosts) {
			return r.Readers
		}
	}
	return was
}

// isMoved reports whether a target gives hosts a point because of its heat.
func isMoved(target *placement.Table, p placement.Point, hosts []placement.HostID) bool {
	return target != nil && len(hosts) > 0 && target.Find(p).Moved && slices.Equal(target.Find(p).Hosts, hosts)
}
