package assignment

import (
	"testing"

	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestNoReadersBesideOlderHosts: readers are named once all hosts that can run a type know
// of them and of its policy, and not any more when another one comes.
func TestNoReadersBesideOlderHosts(t *testing.T) {
	tables := NewTables(8)
	name := protocol.TypeName{App: "a", Type: "T"}
	report := func(id placement.HostID, typ protocol.Type) {
		tables.Begin(id, string(id), false)
		tables.Reported(id, []protocol.Type{typ})
		tables.Claimed(id)
		for range 3 { // what is given is taken at once
			for _, o := range tables.Plan(true) {
				switch o.Kind {
				case protocol.Lock:
					tables.Released(o.To, o.Version, o.Ranges)
				case protocol.Update:
					tables.Updated(o.To, o.Version)
				case protocol.Unlock, protocol.Remove:
				}
			}
		}
	}
	read := func() (n int) {
		for _, r := range tables.types[name].routes() {
			n += len(r.Readers)
		}
		return n
	}
	knows, old := placed("T", "ring:2", 1), placed("T", "ring:2", 1)
	knows.Readers = true
	for _, step := range []struct {
		id   placement.HostID
		typ  protocol.Type
		read bool
	}{
		{"h1", knows, false}, {"h2", knows, true}, {"h3", old, false}, {"h3", knows, true},
		{"h1", protocol.Type{App: "a", Name: "T", Placement: "ring:3", Generation: 2, Readers: true}, false}, // the others have not heard of it
	} {
		report(step.id, step.typ)
		if n := read(); (n > 0) != step.read {
			t.Errorf("after %s reported %+v there are %d readers", step.id, step.typ, n)
		}
	}
}
