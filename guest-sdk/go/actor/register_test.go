package actor

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/jsonplan"
)

type basket struct{ Items []string }

type other struct{ N int }

type hidden struct{ n int } //nolint:unused // a struct without state is the point

func (b *basket) Add(*Context, string) (None, error)  { return None{}, nil }
func (b *basket) View(*Context, None) (basket, error) { return *b, nil }
func (o *other) Add(*Context, None) (None, error)     { return None{}, nil }

func add(r *registry, name string, parts ...Part) { r.add(name, parts) }

func newRegistry() *registry { return &registry{types: map[string]*actorType{}} }

func TestManifest(t *testing.T) {
	r := newRegistry()
	add(r, "Basket", Method("Add", (*basket).Add, Idempotent(), Reentrant(), Private(), RequireAtomic()), ReadOnly("View", (*basket).View))
	add(r, "Other", PlacementSticky, InstanceShared, PoolBatch, StateSchema(3), Migrate(func(*Context, uint32) error { return nil }),
		Limits{StateBytes: 1, PayloadBytes: 2, Mailbox: 3, TurnTime: 3*time.Millisecond + 1, MemoryBytes: 5, Fuel: 6, IdempotencyWindow: time.Hour - 1},
		Capabilities{HTTP: []string{"a.example"}, Config: []string{"c"}, Secrets: []string{"s"}}, Method("Add", (*other).Add))

	const want = `{"abi":1,"sdk":"greenroom-go/0.1.0","types":[` +
		`{"name":"Basket","methods":[{"name":"Add","idempotent":true,"reentrant":true,"private":true,"atomic":"required"},{"name":"View","read_only":true}]},` +
		`{"name":"Other","placement":"sticky","instance":"shared","pool":"batch","state_schema":3,"migrate":true,"methods":[{"name":"Add"}],` +
		`"limits":{"state_bytes":1,"payload_bytes":2,"mailbox":3,"turn_ms":4,"memory_bytes":5,"fuel":6,"idempotency_window_ms":3600000},"capabilities":{"http":["a.example"],"config":["c"],"secrets":["s"]}}]}`
	if got := string(r.manifest()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if m, faults := manifest.Parse(r.manifest()); m == nil {
		t.Errorf("faults: %v", faults)
	}
}

// TestManifestPlacements: what a placement is given is in the manifest, as hosts read it.
func TestManifestPlacements(t *testing.T) {
	for placement, want := range map[Placement]string{
		PlacementStatic("a", "b.c-1"): "static:a,b.c-1", PlacementStatic("a"): "static:a", PlacementCheckout: "checkout:32",
	} {
		r := newRegistry()
		add(r, "Basket", placement, Method("Add", (*basket).Add))
		m, faults := manifest.Parse(r.manifest())
		if m == nil || m.Types[0].Placement != want {
			t.Errorf("%s: %+v %v, want %s", placement, m, faults, want)
		}
	}
	r := newRegistry()
	add(r, "Basket", PlacementStatic(), Method("Add", (*basket).Add))
	if _, faults := manifest.Parse(r.manifest()); len(faults) != 1 || !strings.Contains(faults[0].Message, "static:a,b,c") {
		t.Errorf("no hosts: %v", faults)
	}
}

// TestManifestGroups: hosts read the group of a type as it was registered.
func TestManifestGroups(t *testing.T) {
	for part, want := range map[CoLocate]abi.CoLocate{
		{}:                                {},
		{Group: "orders"}:                 {Group: "orders"},
		{Group: "orders", Separator: "/"}: {Group: "orders", Separator: "/", Parts: 1},
		{Group: "orders", Separator: "::", Parts: 2}: {Group: "orders", Separator: "::", Parts: 2},
	} {
		r := newRegistry()
		add(r, "Basket", part, Method("Add", (*basket).Add))
		if m, faults := manifest.Parse(r.manifest()); m == nil || m.Types[0].CoLocate != want {
			t.Errorf("%+v: %+v %v, want %+v", part, m, faults, want)
		}
	}
	r := newRegistry()
	add(r, "Basket", CoLocate{Group: "orders", Parts: 2}, Method("Add", (*basket).Add))
	if _, faults := manifest.Parse(r.manifest()); len(faults) != 1 || !strings.Contains(faults[0].Message, "give the text between the parts of an ID") {
		t.Errorf("parts without a separator: %v", faults)
	}
}

func TestManifestOfNothingSaysSo(t *testing.T) {
	_, faults := manifest.Parse(newRegistry().manifest())
	if len(faults) != 1 || !strings.Contains(faults[0].Message, "register at least one actor type") {
		t.Errorf("faults: %v", faults)
	}
}

func TestRegisterRefuses(t *testing.T) {
	method := Method("Add", (*basket).Add)
	for name, c := range map[string]struct {
		want string
		do   func(r *registry)
	}{
		"an empty type name":    {"the type name has 0 bytes; give 1 to 64", func(r *registry) { add(r, "", method) }},
		"a long type name":      {"has 65 bytes", func(r *registry) { add(r, strings.Repeat("T", 65), method) }},
		"a slash in a type":     {"the type name has the character '/'", func(r *registry) { add(r, "a/b", method) }},
		"an accent in a method": {"the method name has the character 'é'", func(r *registry) { add(r, "T", Method("é", (*basket).Add)) }},
		"a type twice":          {"registered already", func(r *registry) { add(r, "T", method); add(r, "T", method) }},
		"a method twice":        {"method Add is registered twice", func(r *registry) { add(r, "T", method, ReadOnly("Add", (*basket).View)) }},
		"no methods":            {"has no methods; add actor.Method", func(r *registry) { add(r, "T", PlacementSticky) }},
		"a hook that is nil":    {"Migrate got no hook", func(r *registry) { add(r, "T", Migrate(nil), method) }},
		"two state types": {"method Other is one of *actor.other, the others are of *actor.basket",
			func(r *registry) { add(r, "T", method, Method("Other", (*other).Add)) }},
		"stateless with state": {"make actor.basket an empty struct", func(r *registry) { add(r, "T", PlacementStateless, method) }},
		"a state that is a number": {"the state type int is neither a struct nor a map", func(r *registry) {
			add(r, "T", Method("Add", func(*int, *Context, None) (None, error) { return None{}, nil }))
		}},
		"a map of numbers": {"map[int]int is neither", func(r *registry) {
			add(r, "T", Method("Add", func(*map[int]int, *Context, None) (None, error) { return None{}, nil }))
		}},
		"65 types": {"at most 64 types", func(r *registry) {
			for i := range 65 {
				add(r, "T"+string(rune('0'+i/10))+string(rune('0'+i%10)), method)
			}
		}},
		"257 methods": {"has 257 methods; at most 256", func(r *registry) {
			var parts []Part
			for i := range 257 {
				parts = append(parts, Method("M"+string(rune('A'+i/26))+string(rune('a'+i%26)), (*basket).Add))
			}
			add(r, "T", parts...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, c.want) {
					t.Errorf("got panic %q, want …%s…", text, c.want)
				}
			}()
			c.do(newRegistry())
		})
	}
}

func TestStateWithoutExportedFieldsIsNotLoaded(t *testing.T) {
	for _, c := range []struct {
		state *stateType
		kept  bool
	}{
		{stateTypeOf[struct{}]("M"), false},
		{stateTypeOf[hidden]("M"), false},
		{stateTypeOf[basket]("M"), true},
		{stateTypeOf[struct{ basket }]("M"), true},
		{stateTypeOf[map[string]int]("M"), true},
		{stateTypeOf[json.RawMessage]("M"), true}, // has its own MarshalJSON
	} {
		if c.state.kept != c.kept {
			t.Errorf("%s: kept is %t, want %t", c.state.typ, c.state.kept, c.kept)
		}
	}
}

type careless struct {
	Count int
	cache map[string]int //nolint:unused // what is not state is the point
	n     int            //nolint:unused // the same
	_     int
}

func (*careless) Do(*Context, None) (None, error) { return None{}, nil }

func TestUnexportedFieldsAreWarnedOf(t *testing.T) {
	r := newRegistry()
	add(r, "Careless", Method("Do", (*careless).Do))
	add(r, "Basket", Method("Add", (*basket).Add))
	m, faults := manifest.Parse(r.manifest())
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	const want = "unexported fields of actor.careless are not stored, and are lost between turns: cache, n; export what is state"
	if got := m.Types[0].Warnings; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := m.Types[1].Warnings; len(got) > 0 {
		t.Errorf("a type without any: %q", got)
	}
	long := stateType{typ: reflect.TypeFor[careless](), hidden: []string{strings.Repeat("é", 400), "b", "c", "d", "e", "f"}}
	if got := hiddenFields(&long); len(got) > manifest.MaxWarningLen || !utf8.ValidString(got) {
		t.Errorf("a warning of %d bytes", len(got))
	}
}

// eager has an unmarshaler that must not run before there is something to read.
type eager struct{ N int }

var ran int

func (*eager) UnmarshalJSON([]byte) error  { ran++; return nil }
func (eager) MarshalJSON() ([]byte, error) { ran++; return []byte("1"), nil }

type eagers struct{ Many map[string]*eager }

func (*eager) Do(*Context, eager) (eagers, error) { return eagers{}, nil }

// Caches are warm when the image of an instance is taken, and no code of the guest
// author's has run for it.
func TestRegisteringRunsNoMarshaler(t *testing.T) {
	ran = 0
	r := newRegistry()
	add(r, "Eager", Method("Do", (*eager).Do))
	add(r, "Basket", Method("Add", (*basket).Add), ReadOnly("View", (*basket).View))
	if ran != 0 {
		t.Errorf("%d marshalers ran", ran)
	}
	if plan := r.types["Basket"].state.plan; plan == nil || plan != jsonplan.For(reflect.TypeFor[basket]()) {
		t.Error("the state of Basket was not planned")
	}
	if r.types["Eager"].state.plan != nil {
		t.Error("a type with a marshaler has a plan")
	}
}

// refusingHost answers every call with one code, and remembers the failure.
type refusingHost struct {
	code abi.Code
	fail abi.Error
}

func (h *refusingHost) StateGet(string, []byte) ([]byte, abi.Format, abi.Code) { return nil, 0, h.code }
func (h *refusingHost) StateSet(string, []byte, abi.Format) abi.Code           { return h.code }
func (h *refusingHost) StateDelete(string) (bool, abi.Code)                    { return false, h.code }
func (h *refusingHost) StateDeleteAll() (int, abi.Code)                        { return 0, h.code }
func (h *refusingHost) StateKeys(string, []byte) ([]byte, abi.Code)            { return nil, h.code }
func (h *refusingHost) StateJSON([]byte) ([]byte, abi.Code)                    { return nil, h.code }
func (h *refusingHost) StatePatch(_, _ []byte) (int, abi.Code)                 { return 0, h.code }
func (h *refusingHost) StateVersion() uint64                                   { return 0 }
func (h *refusingHost) StateRevision() uint64                                  { return 0 }
func (h *refusingHost) Reply(string, []byte) abi.Code                          { return h.code }
func (h *refusingHost) Random([]byte)                                          {}
func (h *refusingHost) Log(int32, string)                                      {}
func (h *refusingHost) Fail(frame []byte) abi.Code {
	h.fail, _ = abi.DecodeError(frame)
	return 0
}

// A kept state is one actor's: its revision alone is not enough.
func TestKeptStateIsOneActors(t *testing.T) {
	r := newRegistry()
	add(r, "Basket", ReadOnly("View", (*basket).View))
	add(r, "Other", Method("Add", (*other).Add))
	in := newInstance(&objectHost{}, r)
	for _, turn := range []abi.Turn{
		{App: "a", Type: "Other", ID: "i", Method: "Add"},
		{App: "a", Type: "Other", ID: "j", Method: "Add"},
		{App: "b", Type: "Other", ID: "j", Method: "Add"},
		{App: "b", Type: "Basket", ID: "j", Method: "View"},
	} {
		turn.What, turn.Revision = abi.WhatMethod, 1
		reads := in.host.(*objectHost).reads
		if got := in.Turn(abi.AppendTurn(nil, &turn)); got != abi.TurnDone {
			t.Fatalf("%+v failed", turn)
		}
		if in.host.(*objectHost).reads != reads+1 {
			t.Errorf("%s||%s||%s was served from another actor's state", turn.App, turn.Type, turn.ID)
		}
	}
}

// objectHost has one state for all actors, and counts how often it is read.
type objectHost struct {
	refusingHost
	reads int
}

func (h *objectHost) StateJSON([]byte) ([]byte, abi.Code) {
	h.reads++
	return []byte("{}"), 0
}

func TestTurnsThatAHostNeverAsksFor(t *testing.T) {
	r := newRegistry()
	add(r, "Basket", Method("Add", (*basket).Add))
	good := abi.Turn{What: abi.WhatMethod, App: "a", Type: "Basket", ID: "i", Method: "Add", Payload: []byte(`"x"`)}
	with := func(change func(*abi.Turn)) []byte {
		turn := good
		change(&turn)
		return abi.AppendTurn(nil, &turn)
	}
	for name, c := range map[string]struct {
		frame []byte
		code  string
	}{
		"an empty frame":    {nil, "bad_frame"},
		"an error frame":    {abi.AppendError(nil, &abi.Error{Status: 1}), "bad_frame"},
		"a cut frame":       {with(func(*abi.Turn) {})[:20], "bad_frame"},
		"an unknown type":   {with(func(t *abi.Turn) { t.Type = "Nope" }), "unknown_type"},
		"an unknown method": {with(func(t *abi.Turn) { t.Method = "Nope" }), "unknown_method"},
		"an unknown kind":   {with(func(t *abi.Turn) { t.What = 9 }), "unknown_turn"},
		"a migration":       {with(func(t *abi.Turn) { t.What = abi.WhatMigrate }), "no_migration"},
		"a host that errs":  {with(func(*abi.Turn) {}), "host_error"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &refusingHost{code: abi.CodeNoTurn}
			if got := newInstance(h, r).Turn(c.frame); got != abi.TurnFailed || h.fail.Code != c.code {
				t.Errorf("got %d and %+v, want a failure with code %s", got, h.fail, c.code)
			}
		})
	}
}
