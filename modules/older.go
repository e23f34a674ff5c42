package modules

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
)

// introduced has the newest protocol between hosts (actor.Host.MaxProtocol) at the time at which
// hosts began to know a host function or a member of the manifest. A host that speaks less
// does not know it: it cannot run a module that imports the function, nor read a manifest that
// has the member. A test finds what is missing here; what is new gets a protocol that no
// released host speaks.
var introduced = struct{ functions, members map[string]int }{
	functions: map[string]int{
		"state_get": 1, "state_set": 1, "state_delete": 1, "state_delete_all": 1, "state_keys": 1, "state_json": 1, "state_patch": 1,
		"state_version": 1, "state_revision": 1, "reply": 1, "fail": 1, "now": 1, "random": 1, "log": 1,
		"config_get": 1, "secret_get": 1, "http_request": 1, "http_response": 1,
		"reminder_set": 2, "reminder_cancel": 2, "reminder_get": 2, "reminder_names": 2,
		"timer_set": 3, "timer_cancel": 3, "problem": 3,
		"call": 5, "call_result": 5,
	},
	members: map[string]int{
		"abi": 1, "sdk": 1, "types": 1,
		"types.name": 1, "types.placement": 1, "types.instance": 1, "types.pool": 1, "types.state_schema": 1, "types.migrate": 1,
		"types.methods": 1, "types.limits": 1, "types.capabilities": 1, "types.warnings": 3,
		"types.methods.name": 1, "types.methods.read_only": 1, "types.methods.idempotent": 1, "types.methods.reentrant": 1,
		"types.methods.atomic": 5, "types.methods.private": 5,
		"types.co_locate": 5, "types.co_locate.group": 5, "types.co_locate.separator": 5, "types.co_locate.parts": 5,
		"types.limits.state_bytes": 1, "types.limits.payload_bytes": 1, "types.limits.mailbox": 1, "types.limits.turn_ms": 1,
		"types.limits.memory_bytes": 1, "types.limits.fuel": 1, "types.limits.idempotency_window_ms": 1,
		"types.capabilities.http": 1, "types.capabilities.config": 1, "types.capabilities.secrets": 1,
	},
}

// newest is the newest protocol of introduced: whoever speaks it knows everything.
var newest = max(slices.Max(slices.Collect(maps.Values(introduced.functions))), slices.Max(slices.Collect(maps.Values(introduced.members))))

// checkHosts refuses to deploy what a host of the cluster does not know.
func (l *library) checkHosts(ctx context.Context, app string, d actor.Digest) error {
	hosts, err := l.hosts(ctx)
	if err != nil {
		return fmt.Errorf("read the hosts of the cluster: %w", err)
	}
	hosts = slices.DeleteFunc(hosts, func(h actor.Host) bool { return h.MaxProtocol >= newest })
	if len(hosts) == 0 {
		return nil
	}
	uses, err := l.uses(ctx, app, d)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		for _, u := range uses {
			if h.MaxProtocol < u.since {
				return &actor.ReasonError{Condition: actor.ErrHostTooOld, Reason: fmt.Sprintf(
					"the host %s at %s, which runs version %s, does not know %s; upgrade it first", h.Name, h.Address, h.Version, u.what)}
			}
		}
	}
	return nil
}

// use is something that a module needs of a host.
type use struct {
	what  string // for people
	since int    // as in introduced
}

// uses returns what a module uses, in the order of names.
func (l *library) uses(ctx context.Context, app string, d actor.Digest) ([]use, error) {
	m, err := l.store.Module(ctx, app, d)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", d.Short(), err)
	}
	functions, err := l.imports(ctx, app, d)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", d.Short(), err)
	}
	var uses []use
	for _, f := range functions {
		uses = append(uses, use{"the host function " + f, since(introduced.functions, f)})
	}
	var text any
	if err := json.Unmarshal(m.Manifest, &text); err != nil {
		return nil, fmt.Errorf("module %s: %w: %w", d.Short(), actor.ErrModuleDamaged, err)
	}
	found := map[string]bool{}
	members(text, "", found)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		uses = append(uses, use{"the member " + name + " of its manifest", since(introduced.members, name)})
	}
	return uses, nil
}

// since returns when something was introduced. What is not in the table is newer than all.
func since(table map[string]int, name string) int {
	if n, ok := table[name]; ok {
		return n
	}
	return newest + 1
}

// members adds the names of all members of a JSON value, each behind those that it is in.
func members(value any, in string, found map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if in != "" {
				name = in + "." + name
			}
			found[name] = true
			members(inner, name, found)
		}
	case []any:
		for _, inner := range v {
			members(inner, in, found)
		}
	}
}
