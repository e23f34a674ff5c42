package manifest

import (
	"encoding/json"
	"slices"

	"github.com/greenroom-run/greenroom/abi"
)

// MaxMessageMillis bounds the times of a message policy: 10 years.
const MaxMessageMillis = 10 * 365 * 24 * 3600 * 1000

func hooks(p *parser, at string, raw json.RawMessage) abi.Hooks {
	var h abi.Hooks
	obj := p.object(at, raw, "created", "activated", "leaving")
	for _, f := range []struct {
		name string
		dst  *string
	}{
		{"created", &h.Created}, {"activated", &h.Activated}, {"leaving", &h.Leaving},
	} {
		if raw, ok := obj.get(f.name); ok {
			*f.dst = p.name(at+"."+f.name, raw)
		}
	}
	return h
}

// checkHooks finds hooks that could not run.
func checkHooks(p *parser, at string, t *abi.TypeSpec) {
	if t.Placement == abi.PlacementStateless {
		p.fault(CodeBadValue, "%s.hooks: stateless actors have no hooks; leave them away", at)
		return
	}
	for _, h := range []struct{ name, method string }{
		{"created", t.Hooks.Created}, {"activated", t.Hooks.Activated}, {"leaving", t.Hooks.Leaving},
	} {
		if h.method == "" {
			continue // none, or a fault already
		}
		i := slices.IndexFunc(t.Methods, func(m abi.MethodSpec) bool { return m.Name == h.method })
		switch {
		case i < 0:
			p.fault(CodeBadValue, "%s.hooks.%s: is %q, which is no method of the type; register it", at, h.name, h.method)
		case t.Methods[i].ReadOnly:
			p.fault(CodeBadValue, "%s.hooks.%s: is %q, which is read-only; name a method that may write", at, h.name, h.method)
		case t.Placement == abi.PlacementAny && h.name != "created":
			p.fault(CodeBadValue, "%s.hooks.%s: actors placed any are not kept active, so only the hook created can run; leave it away", at, h.name)
		}
	}
}

// checkOutsideSet finds why nothing could wait for a set.
func checkOutsideSet(p *parser, at string, t *abi.TypeSpec) {
	switch {
	case t.OutsideSet == "":
	case t.Placement == abi.PlacementAny, t.Placement == abi.PlacementStateless:
		p.fault(CodeBadValue, "%s.outside_set: is %q, and calls of actors placed %s cannot wait; leave it away", at, t.OutsideSet, t.Placement)
	case !slices.ContainsFunc(t.Methods, func(m abi.MethodSpec) bool { return len(m.Sets) > 0 }):
		p.fault(CodeBadValue, "%s.outside_set: is %q, and no method of the type is in a set; leave it away", at, t.OutsideSet)
	}
}

func messages(p *parser, at string, raw json.RawMessage) abi.MessagePolicy {
	var m abi.MessagePolicy
	obj := p.object(at, raw, "attempts", "interval_ms", "max_ms", "age_ms")
	if raw, ok := obj.get("attempts"); ok {
		v, _ := p.integer(at+".attempts", raw, 0, MaxAttempts)
		m.Attempts = uint32(v)
	}
	for _, f := range []struct {
		name string
		dst  *int64
	}{
		{"interval_ms", &m.IntervalMillis}, {"max_ms", &m.MaxMillis}, {"age_ms", &m.AgeMillis},
	} {
		if raw, ok := obj.get(f.name); ok {
			*f.dst, _ = p.integer(at+"."+f.name, raw, 0, MaxMessageMillis)
		}
	}
	if m.MaxMillis != 0 && m.MaxMillis < m.IntervalMillis {
		p.fault(CodeBadValue, "%s.max_ms: is %d, below interval_ms, %d; give at least that", at, m.MaxMillis, m.IntervalMillis)
	}
	return m
}

// Bounds of what is kept of events.
const (
	MaxEventsKept     = 10_000
	MaxEventBytesKept = 64 << 20
)

func (p *parser) events(at string, raw json.RawMessage) abi.EventPolicy {
	var e abi.EventPolicy
	obj := p.object(at, raw, "count", "bytes", "age_ms")
	if raw, ok := obj.get("count"); ok {
		v, _ := p.integer(at+".count", raw, 0, MaxEventsKept)
		e.Count = int(v)
	}
	if raw, ok := obj.get("bytes"); ok {
		e.Bytes, _ = p.integer(at+".bytes", raw, 0, MaxEventBytesKept)
	}
	if raw, ok := obj.get("age_ms"); ok {
		e.AgeMillis, _ = p.integer(at+".age_ms", raw, 0, MaxMessageMillis)
	}
	return e
}
