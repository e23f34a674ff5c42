package modules

import "slices"

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
