package modules

import (
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// indexServices fills in the services of a table whose types are complete.
func (t *table) indexServices() {
	t.services = make(map[string]map[string]string)
	for name, s := range t.types {
		if s.err != nil || s.Spec == nil || s.Spec.Protobuf.IsZero() {
			continue
		}
		apps := t.services[s.Spec.Protobuf.Service]
		if apps == nil {
			apps = make(map[string]string)
			t.services[s.Spec.Protobuf.Service] = apps
		}
		if other, ok := apps[name.app]; !ok || name.typ < other {
			apps[name.app] = name.typ
		}
	}
}

// serviceType returns the type of an app that serves a service.
func (t *table) serviceType(app, service string) (ServedType, bool) {
	typ, ok := t.services[service][app]
	return t.types[typeName{app, typ}].ServedType, ok
}

// servicesOf returns the services of an app, in the order of their names.
func (t *table) servicesOf(app string) (names []string) {
	for name, apps := range t.services {
		if _, ok := apps[app]; ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// checkServices refuses a change after which two types of an app would serve one Protobuf service,
// as far as the table knows: of two that are deployed at once, the first by name serves it.
func checkServices(t *table, c change) error {
	for _, spec := range c.specs {
		if spec.Protobuf.IsZero() {
			continue
		}
		other, ok := t.serviceType(c.app, spec.Protobuf.Service)
		if !ok || slices.ContainsFunc(c.specs, func(s *abi.TypeSpec) bool { return s.Name == other.Spec.Name }) {
			continue
		}
		return &actor.ArgumentError{Field: "types", Problem: "has " + spec.Name + ", whose service " + spec.Protobuf.Service + " is that of type " + other.Spec.Name +
			"; undeploy that type, or give the service another package"}
	}
	return nil
}
