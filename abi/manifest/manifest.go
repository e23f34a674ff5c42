package manifest

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
)

// Bounds of SPEC.md section 3.
const (
	MaxTypes   = 64
	MaxMethods = 256
	MaxNameLen = 64
	MaxSDKLen  = 64
	MaxUses    = 64 // of one capability

	MaxSets = 16 // of one method

	MaxAttempts = 1000 // of a message

	MaxWarnings   = 16 // of one type
	MaxWarningLen = 512
)

// maxFaults bounds what a hostile manifest makes of its 64 KiB.
const maxFaults = 100

// Codes of faults, for programs.
const (
	CodeTooLarge        = "manifest_too_large"
	CodeNotJSON         = "manifest_not_json"
	CodeUnknownMember   = "manifest_unknown_member"
	CodeDuplicateMember = "manifest_duplicate_member"
	CodeMissingMember   = "manifest_missing_member"
	CodeWrongType       = "manifest_wrong_type"
	CodeBadValue        = "manifest_bad_value"
	CodeBadName         = "manifest_bad_name"
	CodeDuplicateName   = "manifest_duplicate_name"
	CodeABIVersion      = "manifest_abi_version"
	CodeManyFaults      = "manifest_many_faults"
)

// Fault is one thing wrong with a manifest.
type Fault struct {
	// Code is one of the codes above.
	Code string
	// Message says where it is, what is wrong, and what to change.
	Message string
}

// Parse reads a manifest and fills in its defaults ([Normalize]). With any fault
// the manifest is nil. After 100 faults Parse stops and adds a last fault that reports this.
func Parse(data []byte) (*abi.Manifest, []Fault) {
	p := &parser{}
	m := p.manifest(data)
	if len(p.faults) > 0 {
		if len(p.faults) > maxFaults {
			p.faults = append(p.faults[:maxFaults], Fault{CodeManyFaults, "the manifest has more faults than these; mend them first"})
		}
		return nil, p.faults
	}
	Normalize(m)
	return m, nil
}

// Normalize fills in the defaults of SPEC.md section 3: placement ring, instance
// shared (dedicated for sticky types), pool user. Limits stay as they are, since
// their defaults are the host's.
func Normalize(m *abi.Manifest) {
	for i := range m.Types {
		t := &m.Types[i]
		if t.Placement == "" {
			t.Placement = abi.PlacementRing
		}
		if t.Instance == "" {
			t.Instance = abi.InstanceShared
			if t.Placement == abi.PlacementSticky {
				t.Instance = abi.InstanceDedicated
			}
		}
		if t.Pool == "" {
			t.Pool = abi.PoolUser
		}
	}
}

// parser collects faults; its methods return zero values where there is one.
type parser struct{ faults []Fault }

func (p *parser) fault(code, format string, args ...any) {
	if len(p.faults) <= maxFaults {
		p.faults = append(p.faults, Fault{code, fmt.Sprintf(format, args...)})
	}
}

func (p *parser) manifest(data []byte) *abi.Manifest {
	switch {
	case len(data) > abi.MaxManifestBytes:
		p.fault(CodeTooLarge, "the manifest has %d bytes; at most %d are allowed", len(data), abi.MaxManifestBytes)
		return nil
	case len(data) == 0:
		p.fault(CodeNotJSON, "the manifest is empty; %s must return a JSON object", abi.ExportManifest)
		return nil
	case !utf8.Valid(data):
		p.fault(CodeNotJSON, "the manifest is not UTF-8")
		return nil
	}
	if err := checkJSON(data); err != nil {
		p.fault(CodeNotJSON, "the manifest is not JSON: %v", err)
		return nil
	}
	m := &abi.Manifest{}
	obj := p.object("manifest", data, "abi", "sdk", "types")
	if raw, ok := p.required(obj, "abi"); ok {
		v, ok := p.integer("abi", raw, 0, math.MaxInt32)
		if ok && v != abi.Version {
			p.fault(CodeABIVersion, "abi: is %d; this host speaks version %d, build the module with an SDK of that version", v, abi.Version)
		}
		m.ABI = int(v)
	}
	if raw, ok := obj.get("sdk"); ok {
		m.SDK, _ = p.text("sdk", raw)
		if len(m.SDK) > MaxSDKLen {
			p.fault(CodeBadValue, "sdk: has %d bytes; at most %d are allowed", len(m.SDK), MaxSDKLen)
		}
	}
	if raw, ok := p.required(obj, "types"); ok {
		what := "actor type"
		if strings.HasPrefix(m.SDK, "greenroom-go/") {
			what += ", with actor.Register in an init function: a guest's main does not run"
		}
		for i, raw := range p.array("types", raw, MaxTypes, what) {
			m.Types = append(m.Types, p.typeSpec("types["+strconv.Itoa(i)+"]", raw))
		}
		names(p, "types", m.Types, func(t abi.TypeSpec) string { return t.Name })
		checkServices(p, m.Types)
		if err := CheckGroups(m.Types); err != nil {
			p.fault(CodeBadValue, "types: %v", err)
		}
	}
	return m
}

func (p *parser) typeSpec(at string, raw json.RawMessage) abi.TypeSpec {
	var t abi.TypeSpec
	obj := p.object(at, raw, "name", "placement", "instance", "pool", "state_schema", "migrate", "reentrant", "methods", "limits", "co_locate", "capabilities", "hooks", "messages", "events", "spawn", "outside_set", "protobuf", "warnings")
	if raw, ok := p.required(obj, "name"); ok {
		t.Name = p.name(at+".name", raw)
		if t.Name != "" {
			at = "type " + t.Name // what an author searches for
			obj.at = at
		}
	}
	if raw, ok := obj.get("placement"); ok {
		t.Placement = p.placement(at+".placement", raw)
	}
	if raw, ok := obj.get("instance"); ok {
		t.Instance = p.oneOf(at+".instance", raw, abi.InstanceShared, abi.InstanceDedicated)
	}
	if raw, ok := obj.get("pool"); ok {
		t.Pool = p.oneOf(at+".pool", raw, abi.PoolUser, abi.PoolBatch)
	}
	if raw, ok := obj.get("state_schema"); ok {
		v, _ := p.integer(at+".state_schema", raw, 0, math.MaxUint32)
		t.StateSchema = uint32(v)
	}
	if raw, ok := obj.get("migrate"); ok {
		t.Migrate = p.boolean(at+".migrate", raw)
	}
	if raw, ok := obj.get("reentrant"); ok {
		t.Reentrant = p.boolean(at+".reentrant", raw)
	}
	if raw, ok := p.required(obj, "methods"); ok {
		for i, raw := range p.array(at+".methods", raw, MaxMethods, "method") {
			m := p.method(at+".methods["+strconv.Itoa(i)+"]", raw)
			m.Reentrant = m.Reentrant || t.Reentrant
			t.Methods = append(t.Methods, m)
		}
		names(p, at+".methods", t.Methods, func(m abi.MethodSpec) string { return m.Name })
	}
	if raw, ok := obj.get("limits"); ok {
		t.Limits = p.limits(at+".limits", raw)
	}
	if raw, ok := obj.get("co_locate"); ok {
		t.CoLocate = p.coLocate(at+".co_locate", raw)
	}
	if raw, ok := obj.get("capabilities"); ok {
		t.Capabilities = p.capabilities(at+".capabilities", raw)
	}
	if raw, ok := obj.get("hooks"); ok {
		t.Hooks = hooks(p, at+".hooks", raw)
		checkHooks(p, at, &t)
	}
	if raw, ok := obj.get("messages"); ok {
		t.Messages = messages(p, at+".messages", raw)
	}
	if raw, ok := obj.get("events"); ok {
		t.Events = p.events(at+".events", raw)
	}
	if raw, ok := obj.get("spawn"); ok {
		t.Spawn = p.oneOf(at+".spawn", raw, abi.SpawnOnly)
		if t.Spawn != "" && t.Placement == abi.PlacementStateless {
			p.fault(CodeBadValue, "%s.spawn: is %q, and stateless actors cannot be spawned; leave it away", at, t.Spawn)
		}
	}
	if raw, ok := obj.get("outside_set"); ok {
		t.OutsideSet = p.oneOf(at+".outside_set", raw, abi.OutsideSetWait)
		checkOutsideSet(p, at, &t)
	}
	if raw, ok := obj.get("protobuf"); ok {
		t.Protobuf = protobuf(p, at+".protobuf", raw)
	}
	if raw, ok := obj.get("warnings"); ok {
		for i, raw := range p.array(at+".warnings", raw, MaxWarnings, "warning") {
			at := at + ".warnings[" + strconv.Itoa(i) + "]"
			w, ok := p.text(at, raw)
			if ok && (w == "" || len(w) > MaxWarningLen) {
				p.fault(CodeBadValue, "%s: has %d bytes; 1 to %d are allowed", at, len(w), MaxWarningLen)
			}
			t.Warnings = append(t.Warnings, w)
		}
	}
	return t
}

func (p *parser) method(at string, raw json.RawMessage) abi.MethodSpec {
	var m abi.MethodSpec
	obj := p.object(at, raw, "name", "read_only", "idempotent", "reentrant", "private", "atomic", "sets")
	if raw, ok := p.required(obj, "name"); ok {
		m.Name = p.name(at+".name", raw)
	}
	for _, f := range []struct {
		name string
		dst  *bool
	}{
		{"read_only", &m.ReadOnly}, {"idempotent", &m.Idempotent}, {"reentrant", &m.Reentrant}, {"private", &m.Private},
	} {
		if raw, ok := obj.get(f.name); ok {
			*f.dst = p.boolean(at+"."+f.name, raw)
		}
	}
	if raw, ok := obj.get("atomic"); ok {
		m.Atomic = p.oneOf(at+".atomic", raw, abi.AtomicRequired)
	}
	if raw, ok := obj.get("sets"); ok {
		for i, raw := range p.array(at+".sets", raw, MaxSets, "set") {
			m.Sets = append(m.Sets, p.name(at+".sets["+strconv.Itoa(i)+"]", raw))
		}
		names(p, at+".sets", m.Sets, func(s string) string { return s })
	}
	return m
}

func (p *parser) limits(at string, raw json.RawMessage) abi.Limits {
	var l abi.Limits
	obj := p.object(at, raw, "state_bytes", "payload_bytes", "mailbox", "turn_ms", "memory_bytes", "fuel", "idempotency_window_ms")
	for _, f := range []struct {
		name string
		dst  *int64
	}{
		{"state_bytes", &l.StateBytes}, {"payload_bytes", &l.PayloadBytes}, {"mailbox", &l.Mailbox},
		{"turn_ms", &l.TurnMillis}, {"memory_bytes", &l.MemoryBytes}, {"fuel", &l.Fuel},
		{"idempotency_window_ms", &l.IdempotencyMillis},
	} {
		if raw, ok := obj.get(f.name); ok {
			*f.dst, _ = p.integer(at+"."+f.name, raw, 0, math.MaxInt64)
		}
	}
	return l
}

// coLocate reads how a type is placed with others.
func (p *parser) coLocate(at string, raw json.RawMessage) abi.CoLocate {
	var c abi.CoLocate
	obj := p.object(at, raw, "group", "separator", "parts")
	if raw, ok := p.required(obj, "group"); ok {
		c.Group = p.name(at+".group", raw)
	}
	separator, divides := obj.get("separator")
	if divides {
		var ok bool
		c.Separator, ok = p.text(at+".separator", separator)
		if ok && (c.Separator == "" || len(c.Separator) > MaxSeparatorLen || !utf8.ValidString(c.Separator) || strings.ContainsFunc(c.Separator, unicode.IsControl)) {
			p.fault(CodeBadValue, "%s.separator: has %d bytes; give 1 to %d without control characters, or leave it away for the whole ID", at, len(c.Separator), MaxSeparatorLen)
		}
		c.Parts = 1
	}
	if raw, ok := obj.get("parts"); ok {
		n, ok := p.integer(at+".parts", raw, 1, MaxKeyParts)
		if c.Parts = int(n); ok && !divides {
			p.fault(CodeBadValue, "%s.parts: is %d, and there is no separator; give the text between the parts of an ID", at, n)
		}
	}
	return c
}

func (p *parser) capabilities(at string, raw json.RawMessage) abi.Capabilities {
	var c abi.Capabilities
	obj := p.object(at, raw, "http", "config", "secrets")
	for _, f := range []struct {
		name, what string
		dst        *[]string
		read       func(at string, raw json.RawMessage) string
	}{
		{"http", "host", &c.HTTP, p.host}, {"config", "name", &c.Config, p.name}, {"secrets", "name", &c.Secrets, p.name},
	} {
		raw, ok := obj.get(f.name)
		if !ok {
			continue
		}
		for i, raw := range p.array(at+"."+f.name, raw, MaxUses, f.what) {
			*f.dst = append(*f.dst, f.read(at+"."+f.name+"["+strconv.Itoa(i)+"]", raw))
		}
		names(p, at+"."+f.name, *f.dst, func(s string) string { return s })
	}
	return c
}

// names finds names that occur twice.
func names[T any](p *parser, at string, specs []T, name func(T) string) {
	first := make(map[string]int, len(specs))
	for i, s := range specs {
		n := name(s)
		if n == "" {
			continue // a fault already
		}
		if j, ok := first[n]; ok {
			p.fault(CodeDuplicateName, "%s: %d and %d are both named %q; rename one", at, j, i, n)
			continue
		}
		first[n] = i
	}
}
