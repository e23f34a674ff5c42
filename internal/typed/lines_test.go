package typed_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/internal/typed"
)

// small is a service with one rpc, whose message M has fields, and whose file has more declarations.
func small(t testing.TB, output, fields, inMessage, inFile string) *abi.TypeSpec {
	t.Helper()
	text := fmt.Sprintf(`{"file": [{"name": "a.proto", "package": "a", "syntax": "proto2", "dependency": ["google/protobuf/any.proto"],
		"messageType": [{"name": "M", "field": [%s] %s}] %s,
		"service": [{"name": "S", "method": [{"name": "Do", "inputType": ".a.M", "outputType": "%s"}]}]}]}`, fields, inMessage, inFile, output)
	return &abi.TypeSpec{Name: "T", Methods: []abi.MethodSpec{{Name: "Do"}}, Protobuf: abi.Protobuf{Service: "a.S", Descriptor: encoded(t, text)}}
}

// TestAllDeclarationsAreBounded: names in JSON, extensions, and the choices of oneofs count and are bounded as others are.
func TestAllDeclarationsAreBounded(t *testing.T) {
	long := strings.Repeat("n", 511)
	field := func(name, json string) string {
		return fmt.Sprintf(`{"name": %q, "jsonName": %q, "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_INT32"}`, name, json)
	}
	extension := func(name string, number int) string {
		return fmt.Sprintf(`{"name": %q, "number": %d, "label": "LABEL_OPTIONAL", "type": "TYPE_INT32", "extendee": ".a.M"}`, name, number)
	}
	const open = `, "extensionRange": [{"start": 100, "end": 100000}]`
	many := make([]string, 4096)
	for i := range many {
		many[i] = extension(fmt.Sprint("e", i), 100+i)
	}
	oneof := func(name string) string {
		return fmt.Sprintf(`, "oneofDecl": [{"name": %q}]`, name)
	}
	chosen := strings.Replace(field("f", "f"), `"number"`, `"oneofIndex": 0, "number"`, 1)
	for _, tt := range []struct {
		name, want string
		spec       *abi.TypeSpec
	}{
		{"short names", "", small(t, ".a.M", field("f", "f"), open, `, "extension": [`+extension("e", 100)+`]`)},
		{"a long name in JSON", "longer than 512 bytes", small(t, ".a.M", field("f", long), "", "")},
		{"an extension with a long name", "longer than 512 bytes", small(t, ".a.M", field("f", "f"), open, `, "extension": [`+extension(long, 100)+`]`)},
		{"too many extensions", "more than 4096", small(t, ".a.M", field("f", "f"), open, `, "extension": [`+strings.Join(many, ",")+`]`)},
		{"a oneof", "", small(t, ".a.M", chosen, oneof("o"), "")},
		{"a oneof with a long name", "longer than 512 bytes", small(t, ".a.M", chosen, oneof(long), "")},
	} {
		_, problems := typed.Parse(tt.spec)
		if got := strings.Join(problems, "\n"); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	ids := small(t, ".a.M", strings.Replace(strings.Replace(field("id", "id"), "INT32", "STRING", 1), "OPTIONAL", "REPEATED", 1), "", "")
	ids.Protobuf.IDField = "id"
	if _, problems := typed.Parse(ids); len(problems) != 1 || !strings.Contains(problems[0], "which has no field id of one string") {
		t.Errorf("several IDs: %q", problems)
	}
}

// TestWhatBreaksNothing: an actor's ID that comes to be in a field, and values of an enumeration that are gone and reserved.
func TestWhatBreaksNothing(t *testing.T) {
	before, after := cart(t), cart(t)
	before.Protobuf.IDField = ""
	if got := typed.Breaking(&before, &after); len(got) > 0 {
		t.Errorf("a field for the ID: %q", got)
	}
	enum := func(values string) *abi.TypeSpec {
		return small(t, ".a.M", `{"name": "e", "jsonName": "e", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_ENUM", "typeName": ".a.E"}`, "", `, "enumType": [{"name": "E", `+values+`}]`)
	}
	was := enum(`"value": [{"name": "NONE", "number": 0}, {"name": "ONE", "number": 1}]`)
	if got := typed.Breaking(was, enum(`"value": [{"name": "NONE", "number": 0}], "reservedRange": [{"start": 1, "end": 1}]`)); len(got) > 0 {
		t.Errorf("a reserved value: %q", got)
	}
	if got := typed.Breaking(was, enum(`"value": [{"name": "NONE", "number": 0}]`)); len(got) != 1 || !strings.Contains(got[0], "the value a.ONE, number 1, is gone; reserve its number") {
		t.Errorf("a value that is gone: %q", got)
	}
	if got := typed.Breaking(was, enum(`"value": [{"name": "NONE", "number": 0}, {"name": "UNO", "number": 1}]`)); len(got) != 1 || !strings.Contains(got[0], "the value a.ONE is called UNO instead") {
		t.Errorf("a value that is renamed: %q", got)
	}
}

// TestWeightCoversTheText: a response weighs as much as its text in JSON at least, also if that is much longer than the
// response: names of enumerations, and characters that are escaped.
func TestWeightCoversTheText(t *testing.T) {
	const n = 10_000
	name := strings.Repeat("V", 400)
	enums := small(t, ".a.M", `{"name": "e", "jsonName": "e", "number": 1, "label": "LABEL_REPEATED", "type": "TYPE_ENUM", "typeName": ".a.E", "options": {"packed": true}},
		{"name": "s", "jsonName": "s", "number": 2, "label": "LABEL_OPTIONAL", "type": "TYPE_STRING"}`, "", `, "enumType": [{"name": "E", "value": [{"name": "`+name+`", "number": 0}]}]`)
	s, problems := typed.Parse(enums)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for what, response := range map[string][]byte{
		"names":      protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), make([]byte, n)),
		"characters": protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), bytes.Repeat([]byte{1}, n)),
	} {
		m := s.Method("Do")
		text, err := m.ResponseToJSON(response)
		if err != nil {
			t.Fatal(err)
		}
		if weight, err := m.ResponseWeight(response); err != nil || weight < len(text) || len(text) < 3*n {
			t.Errorf("%s: %d bytes of text weigh %d, %v", what, len(text), weight, err)
		}
	}
	s, problems = typed.Parse(small(t, ".google.protobuf.Any", "", "", ""))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if weight, err := s.Method("Do").ResponseWeight(make([]byte, n)); err != nil || weight < 100*n {
		t.Errorf("%d bytes of any message weigh %d, %v", n, weight, err)
	}
}
