package leader

import (
	"slices"

	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// deployments is what a leader knows of the newest deployment of each type, by what hosts
// have reported: so that a host which knows an older one hears of it at once.
type deployments map[protocol.TypeName]deployed

type deployed struct {
	generation uint64
	gone       bool // a host that ran it does not any more: it was undeployed
}

// reported replaces the types that a host reported before. It returns news, the apps about
// which the other hosts may know less than this one, and behind, the apps about which this
// one knows less than another.
func (d deployments) reported(before map[protocol.TypeName]protocol.Type, types []protocol.Type) (news, behind []string) {
	now := make(map[protocol.TypeName]struct{}, len(types))
	add := func(apps *[]string, app string) {
		if !slices.Contains(*apps, app) {
			*apps = append(*apps, app)
		}
	}
	for _, t := range types {
		name := t.TypeName()
		if placement.IsGroupName(name.Type) {
			continue // its types are reported as well
		}
		now[name] = struct{}{}
		switch newest := d[name]; {
		case t.Generation > newest.generation:
			d[name] = deployed{generation: t.Generation}
			add(&news, t.App)
		case t.Generation < newest.generation || newest.gone:
			add(&behind, t.App)
		}
	}
	for name, t := range before {
		if _, still := now[name]; !still && !placement.IsGroupName(name.Type) && d[name] == (deployed{generation: t.Generation}) {
			d[name] = deployed{t.Generation, true}
			add(&news, t.App)
		}
	}
	slices.Sort(news)
	slices.Sort(behind)
	return news, behind
}
