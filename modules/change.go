package modules

import (
	"fmt"
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// change is a switch of types to a module.
type change struct {
	app      string
	digest   actor.Digest
	manifest *abi.Manifest
	specs    []*abi.TypeSpec
	// placements are those that change, by type; empty: that of the module.
	placements map[string]string
	force      bool
	rollback   bool
	message    string
}

// placement returns what is deployed as the placement of a type, beside its module:
// what the change says, or else what was deployed before. A type is stateless by its
// code alone.
func (c change) placement(spec *abi.TypeSpec, current actor.Deployment) string {
	placement, changed := c.placements[spec.Name]
	switch {
	case changed:
		return placement
	case spec.Placement == abi.PlacementStateless:
		return ""
	}
	return current.Placement
}

// rests reports whether the change may be made or not because of types that it does not switch: those
// that serve a Protobuf service, or are in a group.
func (c change) rests() bool {
	return slices.ContainsFunc(c.specs, func(t *abi.TypeSpec) bool { return !t.Protobuf.IsZero() || t.CoLocate.Group != "" })
}

// plan decides what to ask of the store, and what will serve the types after it.
func (c change) plan(current map[string]actor.Deployment) (wanted, result []actor.Deployment, err error) {
	for _, spec := range c.specs {
		cur, known := current[spec.Name]
		placement := c.placement(spec, cur)
		if known && cur.Digest == c.digest && cur.Placement == placement {
			result = append(result, cur)
			continue
		}
		if known && spec.StateSchema < cur.StateSchema && !c.force {
			return nil, nil, fmt.Errorf("%s: module %s declares state schema %d and would replace generation %d with schema %d; it could not read what is stored; force it only if no state of schema %d was written: %w",
				spec.Name, c.digest.Short(), spec.StateSchema, cur.Generation, cur.StateSchema, cur.StateSchema, actor.ErrSchemaRollback)
		}
		d := actor.Deployment{App: c.app, Type: spec.Name, Generation: cur.Generation + 1, Digest: c.digest, StateSchema: spec.StateSchema, Placement: placement, Message: c.message}
		if c.rollback {
			d.RolledBackFrom = cur.Generation
		}
		wanted = append(wanted, d)
		result = append(result, d)
	}
	return wanted, result, nil
}

// removed returns the methods that c takes away from the types that it switches, in
// their order. old has the manifests of the modules that types are taken from.
func (c change) removed(current map[string]actor.Deployment, old map[actor.Digest]*abi.Manifest) []removedMethod {
	var gone []removedMethod
	for _, spec := range c.specs {
		m := old[current[spec.Name].Digest]
		if m == nil {
			continue
		}
		before := typeSpec(m, spec.Name)
		if before == nil {
			continue
		}
		for _, was := range before.Methods {
			if !slices.ContainsFunc(spec.Methods, func(m abi.MethodSpec) bool { return m.Name == was.Name }) {
				gone = append(gone, removedMethod{spec.Name, was.Name})
			}
		}
	}
	return gone
}
