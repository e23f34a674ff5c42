package assignment

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// rings computes the tables of ring types, and remembers those of the last hosts.
type rings struct {
	ranges int // of a new table
	known  map[string]*placement.Table
}

// ring computes a table with so many hosts for each range, which is remembered. Without
// weights all hosts are equal.
func (r *rings) ring(hosts []placement.HostID, each int, weights map[placement.HostID]placement.Weight) *placement.Table {
	var key strings.Builder
	key.WriteString(strconv.Itoa(each) + "|")
	for _, id := range hosts {
		key.WriteString(string(id) + "|" + strconv.Itoa(int(cmp.Or(weights[id], placement.MeanWeight))) + "|")
	}
	if table, found := r.known[key.String()]; found {
		return table
	}
	ring := placement.Ring{Ranges: r.ranges, Hosts: each, Weights: weights}
	if each > 1 { // which are divided: the table is as long as that of another ring
		ring.Ranges = max(1, r.ranges/placement.ReadParts)
	}
	table, err := ring.Table(hosts)
	if err != nil {
		panic("scheduler: " + err.Error()) // Config was checked
	}
	if table != nil {
		table = table.WithReaders()
	}
	if len(r.known) >= 16 {
		clear(r.known)
	}
	r.known[key.String()] = table
	return table
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

// isMoved reports whether a target gives hosts a point because of its heat.
func isMoved(target *placement.Table, p placement.Point, hosts []placement.HostID) bool {
	return target != nil && len(hosts) > 0 && target.Find(p).Moved && slices.Equal(target.Find(p).Hosts, hosts)
}
