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
   "methods": [{"name": "Add", "atomic": "required"}, {"name": "View", "read_only": true, "idempotent": true, "reentrant": true, "sets": ["open", "closed"]}, {"name": "OnCreated", "private": true}],
   "hooks": {"created": "OnCreated"}, "messages": {"attempts": 7, "interval_ms": 8, "max_ms": 9, "age_ms": 10}, "spawn": "only",
   "limits": {"state_bytes": 1, "payload_bytes": 2, "mailbox": 3, "turn_ms": 4, "memory_bytes": 9223372036854775807, "fuel": 5, "idempotency_window_ms": 6},
   "capabilities": {"http": ["api.example.com", "https://*.Example.org:443"], "config": ["region"], "secrets": ["stripe.key"]}}
]}`,
		Manifest: &abi.Manifest{ABI: 1, SDK: "greenroom-go/0.1.0", Types: []abi.TypeSpec{{
			Name: "Counter", Placement: "any", Instance: "dedicated", Pool: "batch", StateSchema: 4294967295, Migrate: true, Reentrant: true,
			Methods: []abi.MethodSpec{{Name: "Add", Reentrant: true, Atomic: "required"}, {Name: "View", ReadOnly: true, Idempotent: true, Reentrant: true, Sets: []string{"open", "closed"}}, {Name: "OnCreated", Private: true, Reentrant: true}},
			Hooks:   abi.Hooks{Created: "OnCreated"}, Messages: abi.MessagePolicy{Attempts: 7, IntervalMillis: 8, MaxMillis: 9, AgeMillis: 10}, Spawn: "only",
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
	hooked, impatient, patient := ring, ring, ring
	patient.Methods, patient.OutsideSet = []abi.MethodSpec{{Name: "M", Sets: []string{"a"}}}, abi.OutsideSetWait
	hooked.Hooks = abi.Hooks{Created: "M", Activated: "M", Leaving: "M"}
	impatient.Messages.AgeMillis = 60000
	warned := ring
	warned.Warnings = []string{"unexported fields are not state: cache"}
	served := ring
	served.Protobuf = abi.Protobuf{Service: "shop.v1.Cart", Descriptor: []byte{10, 0}, IDField: "cart_id"}
	// serving is a type named name with a service of these members.
	serving := func(name, members string) string {
		return `{"name":"` + name + `","methods":[{"name":"M"}],"protobuf":{` + members + `}}`
	}
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

		ok("all hooks", with(`,"hooks":{"created":"M","activated":"M","leaving":"M"}`), hooked),
		ok("no hooks", with(`,"hooks":{}`), ring),
		bad("a hook that is no method", with(`,"hooks":{"leaving":"Gone"}`), "manifest_bad_value"),
		bad("a hook that is read-only", `{"abi":1,"types":[{"name":"T","methods":[{"name":"M","read_only":true}],"hooks":{"activated":"M"}}]}`, "manifest_bad_value"),
		bad("a hook of any types that cannot run", with(`,"placement":"any","hooks":{"created":"M","activated":"M"}`), "manifest_bad_value"),
		bad("a hook of stateless types", with(`,"placement":"stateless","hooks":{"created":"M"}`), "manifest_bad_value"),
		bad("an unknown hook", with(`,"hooks":{"deleted":"M"}`), "manifest_unknown_member"),
		bad("a hook with a bad name", with(`,"hooks":{"created":""}`), "manifest_bad_name"),
		ok("a message policy", with(`,"messages":{"age_ms":60000}`), impatient),
		bad("a message policy of 1001 attempts", with(`,"messages":{"attempts":1001}`), "manifest_bad_value"),
		bad("a message policy in words", with(`,"messages":{"age_ms":"3 days"}`), "manifest_wrong_type"),
		bad("a message policy of more than ten years", with(`,"messages":{"age_ms":315360000001}`), "manifest_bad_value"),
		bad("a message policy whose longest interval is shorter than the first", with(`,"messages":{"interval_ms":2,"max_ms":1}`), "manifest_bad_value"),
		bad("an unknown message policy", with(`,"messages":{"age":1}`), "manifest_unknown_member"),
		bad("an unknown way to spawn", with(`,"spawn":"always"`), "manifest_bad_value"),
		bad("stateless actors that are spawned", with(`,"placement":"stateless","spawn":"only"`), "manifest_bad_value"),
		ok("calls outside a set that wait", `{"abi":1,"types":[{"name":"T","methods":[{"name":"M","sets":["a"]}],"outside_set":"wait"}]}`, patient),
		bad("an unknown way outside a set", with(`,"outside_set":"refuse"`), "manifest_bad_value"),
		bad("calls outside a set that wait without one", with(`,"outside_set":"wait"`), "manifest_bad_value"),
		bad("calls outside a set of any types that wait", `{"abi":1,"types":[{"name":"T","placement":"any","methods":[{"name":"M","sets":["a"]}],"outside_set":"wait"}]}`, "manifest_bad_value"),
		bad("one set twice", `{"abi":1,"types":[{"name":"T","methods":[{"name":"M","sets":["a","a"]}]}]}`, "manifest_duplicate_name"),
		bad("no sets", `{"abi":1,"types":[{"name":"T","methods":[{"name":"M","sets":[]}]}]}`, "manifest_bad_value"),
		bad("a set with a bad name", `{"abi":1,"types":[{"name":"T","methods":[{"name":"M","sets":["a b"]}]}]}`, "manifest_bad_name"),
		bad("17 sets", `{"abi":1,"types":[{"name":"T","methods":[{"name":"M","sets":[`+repeat(17, func(i int) string { return `"s` + strconv.Itoa(i) + `"` })+`]}]}]}`, "manifest_bad_value"),
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
		ok("a service of Protobuf", with(`,"protobuf":{"service":"shop.v1.Cart","descriptor":"CgA=","id_field":"cart_id"}`), served),
		bad("a service without a descriptor", with(`,"protobuf":{"service":"shop.v1.Cart"}`), "manifest_missing_member"),
		bad("a descriptor of no service", with(`,"protobuf":{"descriptor":"CgA="}`), "manifest_missing_member"),
		bad("an empty descriptor", with(`,"protobuf":{"service":"shop.v1.Cart","descriptor":""}`), "manifest_bad_value"),
		bad("a descriptor that is not base64", with(`,"protobuf":{"service":"shop.v1.Cart","descriptor":"{}"}`), "manifest_bad_value"),
		bad("a descriptor that is no text", with(`,"protobuf":{"service":"shop.v1.Cart","descriptor":[10,0]}`), "manifest_wrong_type"),
		bad("a service with a bad name", with(`,"protobuf":{"service":"/shop.v1.Cart","descriptor":"CgA="}`), "manifest_bad_name"),
		bad("a service with an empty part of a name", with(`,"protobuf":{"service":"shop..Cart","descriptor":"CgA="}`), "manifest_bad_name"),
		bad("a service with a name of 256 bytes", with(`,"protobuf":{"service":"`+strings.Repeat("s", 256)+`","descriptor":"CgA="}`), "manifest_bad_name"),
		bad("an ID field that is a path", with(`,"protobuf":{"service":"shop.v1.Cart","descriptor":"CgA=","id_field":"cart.id"}`), "manifest_bad_name"),
		bad("an ID field without a name", with(`,"protobuf":{"service":"shop.v1.Cart","descriptor":"CgA=","id_field":""}`), "manifest_bad_name"),
		bad("one service of two types", `{"abi":1,"types":[`+serving("A", `"service":"s.S","descriptor":"CgA="`)+","+serving("B", `"service":"s.S","descriptor":"CgA="`)+"]}", "manifest_duplicate_name"),
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
