package main

import (
	"slices"
	"strings"
	"testing"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// TestDeployChanges: what a deployment adds, removes and takes over is said.
func TestDeployChanges(t *testing.T) {
	typ := func(name string, methods ...string) *greenroomv1.ActorType {
		out := &greenroomv1.ActorType{Name: name}
		for _, m := range methods {
			bare, readOnly := strings.CutSuffix(m, "*")
			out.Methods = append(out.Methods, &greenroomv1.Method{Name: bare, ReadOnly: readOnly})
		}
		return out
	}
	module := func(digest, sdk string, types ...*greenroomv1.ActorType) *greenroomv1.Module {
		return &greenroomv1.Module{Digest: digest, Sdk: sdk, Types: types}
	}
	serving := func(ms ...*greenroomv1.Module) (served []*greenroomv1.ServedType, old map[string]*greenroomv1.Module) {
		old = make(map[string]*greenroomv1.Module)
		for _, m := range ms {
			old[m.Digest] = m
			for _, t := range m.Types {
				served = append(served, &greenroomv1.ServedType{Type: t, Deployment: &greenroomv1.Deployment{Type: t.Name, Digest: m.Digest}})
			}
		}
		return served, old
	}
	one := module("1111", "go 1", typ("Cart", "Add", "View*"), typ("Order", "Place"))
	for _, tc := range []struct {
		name     string
		serves   []*greenroomv1.Module
		m        *greenroomv1.Module
		types    []string
		lines    []string
		warnings []string
	}{
		{"the first", nil, one, nil, []string{"+ Cart is new: Add View*", "+ Order is new: Place"}, nil},
		{"the same", []*greenroomv1.Module{one}, one, nil, []string{"= Cart is served", "= Order is served"}, nil},
		{
			"a new version", []*greenroomv1.Module{one}, module("2222", "go 2", typ("Cart", "Add", "View", "Clear"), typ("Order")), nil,
			[]string{"~ Cart, until now of module 1111: adds Clear; View is no longer read-only", "~ Order, until now of module 1111: removes Place", "  built with go 2; module 1111 with go 1"},
			[]string{"View of Cart is no longer read-only", "Order loses Place"},
		},
		{
			"without the name of an SDK", []*greenroomv1.Module{one}, module("2222", "", typ("Cart", "Add", "View*"), typ("Order", "Place")), nil,
			[]string{"~ Cart, until now of module 1111: the same methods", "~ Order, until now of module 1111: the same methods", "  built with no named SDK; module 1111 with go 1"}, nil,
		},
		{
			"a type left out", []*greenroomv1.Module{one}, module("2222", "go 1", typ("Cart", "Add", "View*")), nil,
			[]string{"~ Cart, until now of module 1111: the same methods"}, []string{"Order is not in this module"},
		},
		{
			"one type only", []*greenroomv1.Module{one}, module("2222", "go 1", typ("Cart", "Add", "View*"), typ("Order", "Place")), []string{"Cart"},
			[]string{"~ Cart, until now of module 1111: the same methods"}, nil,
		},
		{
			"somebody else's type", []*greenroomv1.Module{one}, module("3333", "go 1", typ("Cart", "Add", "View*"), typ("Stock", "Take")), nil,
			[]string{"~ Cart, until now of module 1111: the same methods", "+ Stock is new: Take"},
			[]string{"Cart is taken over from a module of other types (Cart Order)", "Order is not in this module"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			served, old := serving(tc.serves...)
			got := compare(tc.m, tc.types, nil, served, old)
			same := func(what string, got, want []string) {
				if len(got) != len(want) {
					t.Errorf("%s: %q, want %q", what, got, want)
					return
				}
				for i := range got {
					if !strings.HasPrefix(got[i], want[i]) {
						t.Errorf("%s: %q, want %q", what, got[i], want[i])
					}
				}
			}
			same("lines", got.lines, tc.lines)
			same("warnings", got.warnings, tc.warnings)
		})
	}
}

// TestDeployPrivateMethod: deploying says which error callers of a method that becomes private get.
func TestDeployPrivateMethod(t *testing.T) {
	typ := func(private bool) *greenroomv1.ActorType {
		return &greenroomv1.ActorType{Name: "Cart", Methods: []*greenroomv1.Method{{Name: "Expire", Private: private}}}
	}
	line, warnings := typeChange(typ(false), typ(true), "ring")
	if !strings.Contains(line, "Expire becomes private") || len(warnings) != 1 || !strings.Contains(warnings[0], "method_private") {
		t.Errorf("%q, %q", line, warnings)
	}
	if line, warnings := typeChange(typ(true), typ(true), "ring"); strings.Contains(line, "private") || len(warnings) != 0 {
		t.Errorf("%q, %q", line, warnings)
	}
	if got := methodNames(typ(true)); got != "Expire~" {
		t.Error(got)
	}
	was := &greenroomv1.ActorType{Name: "Cart", Methods: []*greenroomv1.Method{{Name: "Pay", Reentrant: true}}}
	is := &greenroomv1.ActorType{Name: "Cart", Methods: []*greenroomv1.Method{{Name: "Pay", Atomic: true}}}
	if line, warnings := typeChange(was, is, ""); line != "Pay becomes atomic; Pay is no longer reentrant" || len(warnings) != 2 {
		t.Errorf("%q, %q", line, warnings)
	}
	if got := methodNames(was) + " " + methodNames(is); got != "Pay^ Pay&" {
		t.Error(got)
	}
}

// TestGroupOfType: types and the changes of a deployment say what the group key is.
func TestGroupOfType(t *testing.T) {
	grouped := func(separator string, parts uint32) *greenroomv1.ActorType {
		return &greenroomv1.ActorType{Name: "Cart", Placement: "ring", CoLocate: &greenroomv1.CoLocate{Group: "shop", Separator: separator, Parts: parts}}
	}
	for want, typ := range map[string]*greenroomv1.ActorType{
		"ring":                               {Name: "Cart", Placement: "ring"},
		"ring in group shop (key: whole ID)": grouped("", 0),
		`ring in group shop (key: ID up to the first "/")`:         grouped("/", 1),
		`ring in group shop (key: first 2 parts of the ID by "/")`: grouped("/", 2),
	} {
		if got := placementOf(typ); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	want := `in no group, before in group shop (key: ID up to the first "/")`
	if line, _ := typeChange(grouped("/", 1), &greenroomv1.ActorType{Name: "Cart", Placement: "ring"}, "ring"); line != want {
		t.Errorf("%q, want %q", line, want)
	}
}

// TestServiceOfType: the table of types and the changes of a deployment name the Protobuf service.
func TestServiceOfType(t *testing.T) {
	serves := func(name, field string, streams ...string) *greenroomv1.ActorType {
		return &greenroomv1.ActorType{Name: "Cart", Protobuf: &greenroomv1.ProtobufService{Name: name, IdField: field, Streams: streams}}
	}
	plain := &greenroomv1.ActorType{Name: "Log"}
	header, rows := typesTable([]*greenroomv1.ServedType{{Type: serves("cart.v1.Carts", "cart_id")}, {Type: plain}})
	at := slices.Index(header, "SERVICE")
	if at < 0 || rows[0][at] != "cart.v1.Carts (ID: cart_id)" || rows[1][at] != "" || len(rows[1]) != len(header) {
		t.Errorf("%q: %q", header, rows)
	}
	if header, _ := typesTable([]*greenroomv1.ServedType{{Type: plain}}); slices.Contains(header, "SERVICE") {
		t.Errorf("%q", header)
	}
	for _, tt := range []struct {
		was, is *greenroomv1.ActorType
		want    string
	}{
		{plain, serves("a.S", ""), "serves a.S, before none"},
		{serves("a.S", ""), plain, "serves no Protobuf service, before a.S"},
		{serves("a.S", ""), serves("a.S", "id"), "serves a.S (ID: id), before a.S"},
		{serves("a.S", "id"), serves("a.S", "id"), "the same methods"},
		{serves("a.S", "id"), serves("a.S", "id", "Watch", "Hear"), "serves a.S (ID: id; streams: Watch, Hear), before a.S (ID: id)"},
		{serves("a.S", "", "Watch"), serves("a.S", ""), "serves a.S, before a.S (streams: Watch)"},
	} {
		if line, _ := typeChange(tt.was, tt.is, ""); line != tt.want {
			t.Errorf("%q, want %q", line, tt.want)
		}
	}
}

// TestDeployPlacementChanges: a placement that is asked for, or was and stays, is what
// changes are told by.
func TestDeployPlacementChanges(t *testing.T) {
	module := func(digest, placement string) *greenroomv1.Module {
		return &greenroomv1.Module{Digest: digest, Types: []*greenroomv1.ActorType{{Name: "Cart", Placement: placement}}}
	}
	for _, tc := range []struct{ name, served, deployed, declares, digest, asked, want string }{
		{"new, elsewhere", "", "", "ring", "1111", "any", "+ Cart is new: ; placement any"},
		{"the same module, elsewhere", "ring", "", "ring", "1111", "static:a,b", "~ Cart: placement ring to static:a,b"},
		{"stays", "any", "any", "ring", "1111", "", "= Cart is served by this module already"},
		{"stays with another module", "any", "any", "ring", "2222", "", "~ Cart, until now of module 1111: the same methods"},
		{"as the module says again", "any", "any", "ring", "2222", "manifest", "~ Cart, until now of module 1111: placement any to ring"},
	} {
		var served []*greenroomv1.ServedType
		if tc.served != "" {
			served = append(served, &greenroomv1.ServedType{
				Type: &greenroomv1.ActorType{Name: "Cart", Placement: tc.served}, Deployment: &greenroomv1.Deployment{Digest: "1111", Placement: tc.deployed},
			})
		}
		var asked []*greenroomv1.TypePlacement
		if tc.asked != "" {
			asked = append(asked, &greenroomv1.TypePlacement{Type: "Cart", Placement: tc.asked})
		}
		if got := compare(module(tc.digest, tc.declares), nil, asked, served, nil); len(got.lines) != 1 || got.lines[0] != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got.lines, tc.want)
		}
	}
}

// TestDeployChecksPlacements: what the server would refuse is refused, also where it is not
// asked.
func TestDeployChecksPlacements(t *testing.T) {
	m := &greenroomv1.Module{Types: []*greenroomv1.ActorType{{Name: "Cart", Placement: "ring"}, {Name: "Mail", Placement: "stateless"}}}
	for _, tc := range []struct{ typ, policy, only, want string }{
		{"Cart", "any", "", ""},
		{"Cart", "any", "Cart", ""},
		{"Cart", "manifest", "", ""},
		{"Mail", "manifest", "", ""},
		{"Mail", "stateless", "", ""},
		{"cart", "any", "", "not among those to deploy: Cart, Mail"},
		{"Cart", "any", "Mail", "not among those to deploy: Mail"},
		{"Cart", "stateless", "", "its code is for ring"},
		{"Mail", "sticky", "", "its code is for stateless"},
	} {
		var types []string
		if tc.only != "" {
			types = []string{tc.only}
		}
		err := checkPlacements(m, types, []*greenroomv1.TypePlacement{{Type: tc.typ, Placement: tc.policy}})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s=%s of %q: %v, want %q", tc.typ, tc.policy, tc.only, err, tc.want)
		}
	}
}

// What the server alone knows of a deployment is shown beside what was shown before it.
func TestDeployUnsaidWarnings(t *testing.T) {
	said := []string{
		"Cart loses Get, List: callers will get method_not_found",
		"Peek of Cart is no longer read-only: queries of it will get not_read_only",
		"Till is not in this module: module 0123456789ab keeps serving it",
	}
	known := []string{
		"Cart: the method Get is gone; calls of it fail with method_not_found",
		"Cart: the method List is gone; calls of it fail with method_not_found",
		"Cart: the method Peek is no longer read-only; queries of it are refused",
		"Till: stays on module 0123456789ab, which the other types leave; the new module does not have it",
	}
	others := []string{
		"Order: the method Get is gone; calls of it fail with method_not_found",
		"Order: stays on module 0123456789ab, which the other types leave; the new module does not have it",
		"Cart: the rpc Get of shop.v1.Cart is gone; calls of it fail with path_not_found",
		"Cart: the field shop.v1.Cart.total is float instead of double",
		"Cart: state schema rises from 1 to 2 without a migrate hook; the new code must read the old state as it is",
		"Cart: 3 reminder(s) name the method Get, which is gone; their firings wait",
	}
	if got := unsaid(append(known, others...), said); !slices.Equal(got, others) {
		t.Errorf("got %q", got)
	}
	if got := unsaid(known, nil); !slices.Equal(got, known) {
		t.Errorf("got %q", got)
	}
}
