package actor

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/jsonplan"
)

// Bounds of the manifest, abi/SPEC.md section 3.
const (
	maxNameLen = 64
	maxTypes   = 64
	maxMethods = 256
)

// sdkName is how modules name the SDK that they were built with.
const sdkName = "greenroom-go/0.1.0"

// Part is what an actor type is made of: its methods ([Method], [ReadOnly]) and
// its settings ([Placement], [CoLocate], [Instance], [Pool], [StateSchema], [Migrate],
// [AllReentrant], [Limits], [Hooks], [MessagePolicy], [SpawnOnly], [WaitOutsideSet]).
type Part interface{ addTo(*actorType) }

// actorType is a registered type.
type actorType struct {
	spec    abi.TypeSpec
	methods map[string]*method
	migrate func(ctx *Context, from uint32) error
	// state is what the methods are methods of; nil without any method.
	state     *stateType
	reentrant bool // a method is
}

// registry holds what the init functions of a module registered. It is complete
// before the first turn and never changes after.
type registry struct {
	order []*actorType
	types map[string]*actorType
	turns turnCount // under way: none is while init functions run
}

var registered = registry{types: map[string]*actorType{}}

func init() {
	bridge.NewInstance = func(h bridge.Host) bridge.Instance { return newInstance(h, &registered) }
	bridge.Manifest = registered.manifest
	bridge.HostOf = func(ctx any) bridge.Host { return ctx.(*Context).live().host }
}

// Register declares an actor type. Call it from an init function, once for each
// type of the module. All methods must have receivers of one type, a struct or a
// map with string keys, whose top-level JSON members are the actor's state keys.
//
// It panics, so that the upload is refused with the message, if a name is not
// 1 to 64 of the characters A-Z a-z 0-9 . _ - or is taken, or if the parts
// contradict each other. In a turn it panics as well: the types of a module are those that
// its init functions register.
func Register(name string, parts ...Part) {
	registered.add(name, parts)
}

func (r *registry) add(name string, parts []Part) {
	where := "actor.Register(" + strconv.Quote(name) + "): "
	if r.turns.running() {
		panic(where + "a turn runs already, and the module's types are known; call it from an init function")
	}
	checkName(where+"the type name ", name)
	if r.types[name] != nil {
		panic(where + "the type is registered already; give one of the two another name")
	}
	if len(r.order) == maxTypes {
		panic(where + "a module has at most " + strconv.Itoa(maxTypes) + " types; move some into another module")
	}
	t := &actorType{spec: abi.TypeSpec{Name: name}, methods: map[string]*method{}}
	for _, p := range parts {
		p.addTo(t)
	}
	switch {
	case len(t.methods) == 0:
		panic(where + "has no methods; add actor.Method(…)")
	case len(t.methods) > maxMethods:
		panic(where + "has " + strconv.Itoa(len(t.methods)) + " methods; at most " + strconv.Itoa(maxMethods) + " are allowed")
	case t.spec.Placement == string(PlacementStateless) && t.state.kept:
		panic(where + "a stateless type keeps no state; make " + t.state.typ.String() + " an empty struct or choose another placement")
	}
	if len(t.state.hidden) > 0 {
		t.spec.Warnings = append(t.spec.Warnings, hiddenFields(t.state))
	}
	r.order = append(r.order, t)
	r.types[name] = t
}

// maxHiddenNames is how many fields a warning names.
const maxHiddenNames = 5

func hiddenFields(st *stateType) string {
	names := st.hidden
	more := ""
	if len(names) > maxHiddenNames {
		more = " and " + strconv.Itoa(len(names)-maxHiddenNames) + " more"
		names = names[:maxHiddenNames]
	}
	// A name of Go may be long; a warning may not.
	text := "unexported fields of " + st.typ.String() + " are not stored, and are lost between turns: " + strings.Join(names, ", ") + more + "; export what is state"
	if len(text) > 512 {
		text = strings.ToValidUTF8(text[:512], "")
	}
	return text
}

// addMethod is the part of Method and ReadOnly.
func (t *actorType) addMethod(m *method, state *stateType) {
	where := "actor.Register(" + strconv.Quote(t.spec.Name) + "): "
	checkName(where+"the method name ", m.spec.Name)
	if t.methods[m.spec.Name] != nil {
		panic(where + "method " + m.spec.Name + " is registered twice; give one of the two another name")
	}
	switch {
	case t.state == nil:
		t.state = state
	case t.state.typ != state.typ:
		panic(where + "method " + m.spec.Name + " is one of *" + state.typ.String() + ", the others are of *" +
			t.state.typ.String() + "; all methods of an actor type share one state type")
	}
	for _, set := range m.spec.Sets {
		checkName(where+"method "+m.spec.Name+": the set of methods ", set)
	}
	t.methods[m.spec.Name] = m
	t.spec.Methods = append(t.spec.Methods, m.spec)
	t.reentrant = t.reentrant || m.spec.Reentrant
}

func (r *registry) manifest() []byte {
	m := abi.Manifest{ABI: abi.Version, SDK: sdkName, Types: []abi.TypeSpec{}}
	for _, t := range r.order {
		m.Types = append(m.Types, t.spec)
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic("actor: encode the manifest: " + err.Error()) // names and numbers always encode
	}
	return data
}

func checkName(what, name string) {
	if len(name) == 0 || len(name) > maxNameLen {
		panic(what + "has " + strconv.Itoa(len(name)) + " bytes; give 1 to " + strconv.Itoa(maxNameLen) + " of the characters A-Z a-z 0-9 . _ -")
	}
	for _, r := range name {
		if !nameRune(r) {
			panic(what + "has the character " + strconv.QuoteRune(r) + "; only A-Z a-z 0-9 . _ - are allowed")
		}
	}
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// stateType is what the turn loop needs to know of the type S behind a method.
type stateType struct {
	typ  reflect.Type
	kept bool            // it has something to load and save
	make func() any      // a new *S
	zero func(state any) // sets a *S to its zero value
	// plan is how it is read and written; nil: as encoding/json does.
	plan *jsonplan.Plan
	// hidden are its unexported fields, which are not state.
	hidden []string
}

func stateTypeOf[S any](methodName string) *stateType {
	typ := reflect.TypeFor[S]()
	st := &stateType{
		typ:  typ,
		make: func() any { return new(S) },
		zero: func(state any) { *state.(*S) = *new(S) },
	}
	_, custom := any(new(S)).(json.Marshaler)
	switch {
	case custom:
		st.kept = true
	case typ.Kind() == reflect.Struct:
		for i := range typ.NumField() {
			f := typ.Field(i)
			st.kept = st.kept || f.IsExported() || f.Anonymous
			if !f.IsExported() && !f.Anonymous && f.Name != "_" {
				st.hidden = append(st.hidden, f.Name)
			}
		}
	case typ.Kind() == reflect.Map && typ.Key().Kind() == reflect.String:
		st.kept = true
	default:
		panic("actor: method " + methodName + ": the state type " + typ.String() +
			" is neither a struct nor a map with string keys; wrap it in a struct, whose fields become the state keys")
	}
	if st.kept {
		st.plan = prepare[S]()
	}
	return st
}
