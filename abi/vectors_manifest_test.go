package abi_test

import (
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
)

func manifestVectors() []manifestVector {
	ok := func(name, text string, types ...abi.TypeSpec) manifestVector {
		return manifestVector{Name: name, Text: text, Manifest: &abi.Manifest{ABI: 1, Types: types}}
	}
	bad := func(name, text string, codes ...string) manifestVector {
		return manifestVector{Name: name, Text: text, Refused: codes}
	}
	// with puts members into the only type of an otherwise good manifest.
	with := func(members string) string {
		return `{"abi":1,"types":[{"name":"T","methods":[{"name":"M"}]` + members + `}]}`
	}
	m := []abi.MethodSpec{{Name: "M"}}
	full := manifestVector{
		Name: "every member",
		Text: `{"abi": 1, "sdk": "greenroom-go/0.1.0", "types": [
  {"name": "Counter", "placement": "any", "instance": "dedicated", "pool": "batch", "state_schema": 4294967295, "migrate": true, "reentrant": true,
   "methods": [{"name": "Add", "atomic": "required"}, {"name": "View", "read_only": true, "idempotent": true, "reentrant": true}],
   "limits": {"state_bytes": 1, "payload_bytes": 2, "mailbox": 3, "turn_ms": 4, "memory_bytes": 9223372036854775807, "fuel": 5, "idempotency_window_ms": 6},
   "capabilities": {"http": ["api.example.com", "https://*.Example.org:443"], "config": ["region"], "secrets": ["stripe.key"]}}
]}`,
		Manifest: &abi.Manifest{ABI: 1, SDK: "greenroom-go/0.1.0", Types: []abi.TypeSpec{{
			Name: "Counter", Placement: "any", Instance: "dedicated", Pool: "batch", StateSchema: 4294967295, Migrate: true, Reentrant: true,
			Methods:      []abi.MethodSpec{{Name: "Add", Reentrant: true, Atomic: "required"}, {Name: "View", ReadOnly: true, Idempotent: true, Reentrant: true}},
			Limits:       abi.Limits{StateBytes: 1, PayloadBytes: 2, Mailbox: 3, TurnMillis: 4, MemoryBytes: 9223372036854775807, Fuel: 5, IdempotencyMillis: 6},
			Capabilities: abi.Capabilities{HTTP: []string{"api.example.com", "*.example.org"}, Config: []string{"region"}, Secrets: []string{"stripe.key"}},
		}}},
	}
	private := abi.TypeSpec{Name: "T", Placement: "ring", Instance: "shared", Pool: "user", Methods: []abi.MethodSpec{{Name: "M", Private: true}}}
	ring := abi.TypeSpec{Name: "T", Placement: "ring", Instance: "shared", Pool: "user", Methods: m}
	sticky := abi.TypeSpec{Name: "T", Placement: "sticky", Instance: "dedicated", Pool: "user", Methods: m}
	stickyShared := abi.TypeSpec{Name: "T", Placement: "sticky", Instance: "shared", Pool: "user", Methods: m}
	window := ring
	window.Limits.IdempotencyMillis = 9223372036854775807
	repeat := func(n int, elem func(i int) string) string {
		elems := make([]string, n)
		for i := range elems {
			elems[i] = elem(i)
		}
		return strings.Join(elems, ",")
	}
	warned := ring
	warned.Warnings = []string{"unexported fields are not state: cache"}
	grouped := func(c abi.CoLocate) abi.TypeSpec {
		t := ring
		t.CoLocate = c
		return t
	}
	// pair is two types of one group, with members each.
	pair := func(a, b string) string {
		return `{"abi":1,"types":[{"name":"A","methods":[{"name":"M"}],"co_locate":{"group":"g"}` + a + `},{"name":"B","methods":[{"name":"M"}],"co_locate":{"group":"g"}` + b + `}]}`
	}
	pairTypes := []abi.TypeSpec{grouped(abi.CoLocate{Group: "g"}), grouped(abi.CoLocate{Group: "g"})}
	pairTypes[0].Name, pairTypes[1].Name = "A", "B"
	return []manifestVector{
		ok("the least", with(""), ring),
		ok("sticky types are dedicated", with(`,"placement":"sticky"`), sticky),
		ok("unless they say shared", with(`,"placement":"sticky","instance":"shared"`), stickyShared),
		ok("limits of zero are the host's", with(`,"limits":{"mailbox":0}`), ring),
		full,
		ok("only a window for idempotency keys", with(`,"limits":{"idempotency_window_ms":9223372036854775807}`), window),

		ok("a private method", `{"abi":1,"types":[{"name":"T","methods":[{"name":"M","private":true}]}]}`, private),
		ok("a warning", with(`,"warnings":["unexported fields are not state: cache"]`), warned),

		ok("placed with a group, by the whole ID", with(`,"co_locate":{"group":"orders"}`), grouped(abi.CoLocate{Group: "orders"})),
		ok("placed with a group, by the part before a separator", with(`,"co_locate":{"group":"orders","separator":"/"}`), grouped(abi.CoLocate{Group: "orders", Separator: "/", Parts: 1})),
		ok("placed with a group, by two parts", with(`,"co_locate":{"group":"orders","separator":"::","parts":2}`), grouped(abi.CoLocate{Group: "orders", Separator: "::", Parts: 2})),
		ok("two types of a group", pair("", `,"placement":"ring"`), pairTypes...),
		bad("two types of a group with different placements", pair("", `,"placement":"sticky"`), "manifest_bad_value"),
		bad("a group of any types", with(`,"placement":"any","co_locate":{"group":"g"}`), "manifest_bad_value"),
		bad("a group of stateless types", with(`,"placement":"stateless","co_locate":{"group":"g"}`), "manifest_bad_value"),
		bad("a group without a name", with(`,"co_locate":{"separator":"/"}`), "manifest_missing_member"),
		bad("a group that is a text", with(`,"co_locate":"orders"`), "manifest_wrong_type"),
		bad("a group with a bad name", with(`,"co_locate":{"group":"@orders"}`), "manifest_bad_name"),
		bad("a group with an empty separator", with(`,"co_locate":{"group":"g","separator":""}`), "manifest_bad_value"),
		bad("a group with a separator of 17 bytes", with(`,"co_locate":{"group":"g","separator":"`+strings.Repeat("/", 17)+`"}`), "manifest_bad_value"),
		bad("a group with a separator that is a control character", with(`,"co_locate":{"group":"g","separator":"\u000a"}`), "manifest_bad_value"),
		bad("a group of no parts", with(`,"co_locate":{"group":"g","separator":"/","parts":0}`), "manifest_bad_value"),
		bad("a group of 17 parts", with(`,"co_locate":{"group":"g","separator":"/","parts":17}`), "manifest_bad_value"),
		bad("parts without a separator", with(`,"co_locate":{"group":"g","parts":2}`), "manifest_bad_value"),
		bad("a group with an unknown member", with(`,"co_locate":{"group":"g","key":"id"}`), "manifest_unknown_member"),
		bad("a warning of nothing", with(`,"warnings":[""]`), "manifest_bad_value"),
		bad("a warning of 513 bytes", with(`,"warnings":["`+strings.Repeat("w", 513)+`"]`), "manifest_bad_value"),
		bad("a warning that is no text", with(`,"warnings":[1]`), "manifest_wrong_type"),
		bad("17 warnings", with(`,"warnings":[`+repeat(17, func(i int) string { return `"w` + strconv.Itoa(i) + `"` })+`]`), "manifest_bad_value"),
		bad("an unknown capability", with(`,"capabilities":{"files":["/etc"]}`), "manifest_unknown_member"),
		bad("a capability of nothing", with(`,"capabilities":{"http":[]}`), "manifest_bad_value"),
		bad("all hosts in a word", with(`,"capabilities":{"http":"*"}`), "manifest_wrong_type"),
		bad("a host that is a URL", with(`,"capabilities":{"http":["https://a.example/path"]}`), "manifest_bad_value"),
		bad("a host in decimal", with(`,"capabilities":{"http":["2130706433"]}`), "manifest_bad_value"),
		bad("one host twice", with(`,"capabilities":{"http":["a.example","https://A.example:443"]}`), "manifest_duplicate_name"),
		bad("a secret with a bad name", with(`,"capabilities":{"secrets":["a b",""]}`), "manifest_bad_name", "manifest_bad_name"),
		bad("empty", "", "manifest_not_json"),
		bad("cut short", `{"abi":1,"types":[`, "manifest_not_json"),
		bad("something after it", with("")+"x", "manifest_not_json"),
		bad("an array", `[]`, "manifest_wrong_type"),
		bad("null", `null`, "manifest_wrong_type"),
		bad("nothing in it", `{}`, "manifest_missing_member", "manifest_missing_member"),
		bad("too large", `{"abi":1,"types":[]`+strings.Repeat(" ", 64<<10)+"}", "manifest_too_large"),
		bad("nested beyond sense", strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000), "manifest_not_json"),
		bad("ABI 2", `{"abi":2,"types":[{"name":"T","methods":[{"name":"M"}]}]}`, "manifest_abi_version"),
		bad("an ABI in words", `{"abi":"1","types":[{"name":"T","methods":[{"name":"M"}]}]}`, "manifest_wrong_type"),
		bad("an ABI with a fraction", `{"abi":1.0,"types":[{"name":"T","methods":[{"name":"M"}]}]}`, "manifest_wrong_type"),
		bad("sdk too long", `{"abi":1,"sdk":"`+strings.Repeat("s", 65)+`","types":[{"name":"T","methods":[{"name":"M"}]}]}`, "manifest_bad_value"),
		bad("no types", `{"abi":1,"types":[]}`, "manifest_bad_value"),
		bad("types null", `{"abi":1,"types":null}`, "manifest_wrong_type"),
		bad("65 types", `{"abi":1,"types":[`+repeat(65, func(i int) string { return `{"name":"T` + strconv.Itoa(i) + `","methods":[{"name":"M"}]}` })+`]}`, "manifest_bad_value"),
		bad("257 methods", `{"abi":1,"types":[{"name":"T","methods":[`+repeat(257, func(i int) string { return `{"name":"M` + strconv.Itoa(i) + `"}` })+`]}]}`, "manifest_bad_value"),
		bad("two types of one name", `{"abi":1,"types":[{"name":"T","methods":[{"name":"M"}]},{"name":"T","methods":[{"name":"M"}]}]}`, "manifest_duplicate_name"),
		bad("two methods of one name", `{"abi":1,"types":[{"name":"T","methods":[{"name":"M"},{"name":"M"}]}]}`, "manifest_duplicate_name"),
		bad("an unknown member", with(`,"color":"green"`), "manifest_unknown_member"),
		bad("a member in capitals", `{"ABI":1,"types":[{"name":"T","methods":[{"name":"M"}]}]}`, "manifest_unknown_member", "manifest_missing_member"),
		bad("a member twice", with(`,"pool":"user","pool":"batch"`), "manifest_duplicate_member"),
		bad("an unknown placement", with(`,"placement":"moon"`), "manifest_bad_value"),
		bad("a migrate of 1", with(`,"migrate":1`), "manifest_wrong_type"),
		bad("a reentrant of 1", with(`,"reentrant":1`), "manifest_wrong_type"),
		bad("a schema below zero", with(`,"state_schema":-1`), "manifest_bad_value"),
		bad("a schema beyond 32 bits", with(`,"state_schema":4294967296`), "manifest_bad_value"),
		bad("a limit below zero", with(`,"limits":{"mailbox":-1}`), "manifest_bad_value"),
		bad("a limit beyond 64 bits", with(`,"limits":{"mailbox":9223372036854775808}`), "manifest_bad_value"),
		bad("an unknown limit", with(`,"limits":{"disk":1}`), "manifest_unknown_member"),
		bad("a type that is null", `{"abi":1,"types":[null]}`, "manifest_wrong_type"),
		bad("names against the grammar", `{"abi":1,"types":[{"name":"","methods":[{"name":"a b"},{"name":"`+strings.Repeat("m", 65)+`"},{"name":"é"},{"name":7},{}]}]}`,
			"manifest_bad_name", "manifest_bad_name", "manifest_bad_name", "manifest_bad_name", "manifest_wrong_type", "manifest_missing_member"),
		bad("every fault, not the first", `{"abi":3,"types":[{"name":"a/b","placement":"x","instance":"y","pool":"z","methods":[],"limits":[]}],"more":0}`,
			"manifest_unknown_member", "manifest_abi_version", "manifest_bad_name", "manifest_bad_value", "manifest_bad_value", "manifest_bad_value", "manifest_bad_value", "manifest_wrong_type"),
	}
}
