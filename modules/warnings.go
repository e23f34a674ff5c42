package modules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/typed"
)

// warn says what the deployer should know of a change that is allowed: what
// callers relied on and will miss. old has the manifests of the modules that
// types are taken from.
func warn(c change, current map[string]actor.Deployment, old map[actor.Digest]*abi.Manifest) []string {
	var ws []string
	add := func(format string, args ...any) { ws = append(ws, fmt.Sprintf(format, args...)) }
	for _, spec := range c.specs {
		cur := current[spec.Name]
		m := old[cur.Digest]
		if m == nil {
			continue
		}
		if before := typeSpec(m, spec.Name); before != nil {
			warnType(placed(before, cur.Placement), placed(spec, c.placement(spec, cur)), add)
		}
	}
	for _, name := range staying(c, current, old) {
		add("%s: stays on module %s, which the other types leave; the new module does not have it", name, current[name].Digest.Short())
	}
	return ws
}

func warnType(before, after *abi.TypeSpec, add func(string, ...any)) {
	for _, was := range before.Methods {
		at := slices.IndexFunc(after.Methods, func(m abi.MethodSpec) bool { return m.Name == was.Name })
		switch {
		case at < 0:
			add("%s: the method %s is gone; calls of it fail with method_not_found", after.Name, was.Name)
		case was.ReadOnly && !after.Methods[at].ReadOnly:
			add("%s: the method %s is no longer read-only; queries of it are refused", after.Name, was.Name)
		}
	}
	for _, said := range typed.Breaking(before, after) {
		add("%s: %s", after.Name, said)
	}
	if before.Placement != after.Placement {
		add("%s: placement changes from %s to %s", after.Name, before.Placement, after.Placement)
	}
	if was, is := before.CoLocate.Group, after.CoLocate.Group; before.CoLocate != after.CoLocate {
		switch {
		case was == "":
			add("%s: its actors move to those of group %s", after.Name, is)
		case is == "":
			add("%s: its actors are no longer with those of group %s; if another server holds them, atomic calls among them fail with not_atomic, and other calls commit on their own", after.Name, was)
		default:
			add("%s: its actors move, from group %s to group %s or by another group key", after.Name, was, is)
		}
	}
	switch {
	case after.StateSchema < before.StateSchema:
		add("%s: state schema falls from %d to %d; actors that were saved under %d answer schema_newer", after.Name, before.StateSchema, after.StateSchema, before.StateSchema)
	case after.StateSchema > before.StateSchema && !after.Migrate:
		add("%s: state schema rises from %d to %d without a migrate hook; the new code must read the old state as it is", after.Name, before.StateSchema, after.StateSchema)
	}
}

// atomicMethods returns the methods of a type that must be in their callers' transactions. A type that
// is placed any or stateless has none: its actors are at every server.
func atomicMethods(t *abi.TypeSpec) (names []string) {
	if t.Placement == abi.PlacementAny || t.Placement == abi.PlacementStateless {
		return nil
	}
	for _, m := range t.Methods {
		if m.Atomic == abi.AtomicRequired {
			names = append(names, m.Name)
		}
	}
	return names
}

// warnOfAtomic returns a warning if actors that call the atomic methods of types[at] may be at other
// servers, or else an empty text. types are all types of the app, digests are their modules, and calls
// reports whether a module may call. A manifest does not say which types of the module call. So each
// type whose actors are together with those of types[at] counts as a caller. types[at] counts as its
// own caller only if no type of its module is apart from it, since that one may be the caller.
func warnOfAtomic(at int, types []abi.TypeSpec, digests []actor.Digest, calls func(actor.Digest) (bool, error)) (string, error) {
	t := &types[at]
	methods := atomicMethods(t)
	if len(methods) == 0 {
		return "", nil
	}
	// By whole IDs, actors of one type are never together.
	own := atOneServer(t.Placement) || t.CoLocate.Separator != ""
	for i := range types {
		own = own && (digests[i] != digests[at] || together(t, &types[i]))
	}
	for i := range types {
		if i == at && !own || !together(t, &types[i]) {
			continue
		}
		if may, err := calls(digests[i]); err != nil || may {
			return "", err
		}
	}
	about := fmt.Sprintf("%s: calls of %s must be in their callers' transactions, and ", t.Name, strings.Join(methods, ", "))
	if t.CoLocate.Group == "" {
		return about + "its actors are in no co_locate group: in a cluster, calls from actors of other servers fail with not_atomic; put the type and those that call it into one group, or place all of them on one server (docs/calls.md)", nil
	}
	return fmt.Sprintf("%sno other type that can call is in its co_locate group %s: in a cluster, calls from actors of other servers fail with not_atomic; put the types that call it into the group (docs/calls.md)", about, t.CoLocate.Group), nil
}

// together reports whether actors of two types share a server, or their group keys do.
func together(t, u *abi.TypeSpec) bool {
	return t.CoLocate.Group != "" && u.CoLocate.Group == t.CoLocate.Group || atOneServer(t.Placement) && u.Placement == t.Placement
}

// atOneServer reports whether all actors of a placement are at one server.
func atOneServer(placement string) bool {
	return strings.HasPrefix(placement, abi.PlacementStatic+":") && !strings.Contains(placement, ",")
}

// staying returns the types that stay behind on a module that others leave, since
// the new module does not have them.
func staying(c change, current map[string]actor.Deployment, old map[actor.Digest]*abi.Manifest) []string {
	var names []string
	for name, d := range current {
		if d.Digest != c.digest && old[d.Digest] != nil && typeSpec(c.manifest, name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
