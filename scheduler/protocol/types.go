package protocol

import (
	"cmp"

	"github.com/greenroom-run/greenroom/actor"
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
