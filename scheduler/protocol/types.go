package protocol

import (
	"cmp"
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// TypeName is an actor type of an app.
type TypeName struct{ App, Type string }

// String returns the name as one text.
func (n TypeName) String() string { return n.App + "||" + n.Type }

// TypeOf returns the type of an actor.
func TypeOf(key actor.Key) TypeName { return TypeName{key.App, key.Type} }

// CompareTypes orders types by app and name.
func CompareTypes(a, b TypeName) int {
	return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Type, b.Type))
}

// Type is an actor type as a process would run it.
type Type struct {
	App, Name string
	// Placement is the policy: that of the manifest, of the deployment, or what a
	// switch of the process made of it.
	Placement string
	// Generation is the deployment's. Where processes differ on the placement, the
	// newest deployment decides.
	Generation uint64
	// CoLocate is the group that the type's actors are placed with, by its manifest.
	CoLocate abi.CoLocate
	// Readers: the host knows that others may be readers of what it holds. A host of this
	// version reports this for all its types.
	Readers bool
}

// TypeName returns the type's name.
func (t Type) TypeName() TypeName { return TypeName{t.App, t.Name} }

// The roles of a process.
const (
	RoleHost      = "host"      // runs actors
	RoleScheduler = "scheduler" // may lead
)

// Grouped returns types as hosts report them: those that are placed with a group have the
// policy [placement.Together.Policy] in the place of their own, and each group is a type as
// well, which has theirs. Where they differ, as between two deployments, the newest decides.
func Grouped(types []Type) []Type {
	var groups []Type
	types = slices.Clone(types)
	for i, t := range types {
		if t.CoLocate.Group == "" {
			continue
		}
		g := Type{App: t.App, Name: placement.GroupName(t.CoLocate.Group), Placement: t.Placement, Generation: t.Generation, Readers: t.Readers}
		at := slices.IndexFunc(groups, func(o Type) bool { return o.TypeName() == g.TypeName() })
		switch {
		case at < 0:
			groups = append(groups, g)
		case cmp.Or(cmp.Compare(g.Generation, groups[at].Generation), cmp.Compare(g.Placement, groups[at].Placement)) > 0:
			groups[at] = g
		}
		types[i].Placement, types[i].CoLocate = placement.TogetherOf(t.CoLocate).Policy(), abi.CoLocate{}
	}
	return append(types, groups...)
}
