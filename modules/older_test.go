package modules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
)

// TestIntroducedIsComplete: every host function and every member of the manifest has the protocol
// of the hosts that began to know it, so that a host that does not know what is added later
// is found when a module that uses it is deployed.
func TestIntroducedIsComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../abi/abi.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	functions := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Func") {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		functions++
		if introduced.functions[name] == 0 {
			t.Errorf("the host function %s is not in introduced: add it with the newest protocol, and raise that if a release speaks it", name)
		}
		return true
	})
	if functions != len(introduced.functions) {
		t.Errorf("%d host functions, of %d in introduced", functions, len(introduced.functions))
	}
	checked := 0
	var check func(typ reflect.Type, in string)
	check = func(typ reflect.Type, in string) {
		for typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			checked++
			if introduced.members[in+name] == 0 {
				t.Errorf("the member %s%s is not in introduced: add it with the newest protocol, and raise that if a release speaks it", in, name)
			}
			check(typ.Field(i).Type, in+name+".")
		}
	}
	check(reflect.TypeFor[abi.Manifest](), "")
	if checked != len(introduced.members) {
		t.Errorf("%d members, of %d in introduced", checked, len(introduced.members))
	}
}
