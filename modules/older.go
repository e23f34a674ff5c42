package modules

import (
	"maps"
	"slices"
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
		"send": 6, "spawn": 6, "become": 6, "pass_away": 6, "service_claim": 6, "service_release": 6, "event_publish": 6, "host_watch": 6, "service_watch": 6,
		"spawn_child": 6, "event_subscribe": 6, "event_unsubscribe": 6,
	},
	members: map[string]int{
		"abi": 1, "sdk": 1, "types": 1,
		"types.name": 1, "types.placement": 1, "types.instance": 1, "types.pool": 1, "types.state_schema": 1, "types.migrate": 1,
		"types.methods": 1, "types.limits": 1, "types.capabilities": 1, "types.warnings": 3,
		"types.methods.name": 1, "types.methods.read_only": 1, "types.methods.idempotent": 1, "types.methods.reentrant": 1,
		"types.methods.atomic": 5, "types.methods.private": 5, "types.reentrant": 5,
		"types.co_locate": 5, "types.co_locate.group": 5, "types.co_locate.separator": 5, "types.co_locate.parts": 5,
		"types.methods.sets": 6, "types.hooks": 6, "types.hooks.created": 6, "types.hooks.activated": 6, "types.hooks.leaving": 6, "types.spawn": 6, "types.outside_set": 6,
		"types.events": 6, "types.events.count": 6, "types.events.bytes": 6, "types.events.age_ms": 6,
		"types.messages": 6, "types.messages.attempts": 6, "types.messages.interval_ms": 6, "types.messages.max_ms": 6, "types.messages.age_ms": 6,
		"types.protobuf": 6, "types.protobuf.service": 6, "types.protobuf.descriptor": 6, "types.protobuf.id_field": 6,
		"types.limits.state_bytes": 1, "types.limits.payload_bytes": 1, "types.limits.mailbox": 1, "types.limits.turn_ms": 1,
		"types.limits.memory_bytes": 1, "types.limits.fuel": 1, "types.limits.idempotency_window_ms": 1,
		"types.capabilities.http": 1, "types.capabilities.config": 1, "types.capabilities.secrets": 1,
	},
}

// newest is the newest protocol of introduced: whoever speaks it knows everything.
var newest = max(slices.Max(slices.Collect(maps.Values(introduced.functions))), slices.Max(slices.Collect(maps.Values(introduced.members))))

// use is something that a module needs of a host.
type use struct {
	what  string // for people
	since int    // as in introduced
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
