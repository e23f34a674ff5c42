package manifest_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
)

// The vectors in abi/testdata/vectors pin what is refused; these tests are about
// what people read, and what no list of examples can show.

func TestMessagesSayWhereAndWhatToChange(t *testing.T) {
	const text = `{"abi": 2, "sdk": "x", "types": [
		{"name": "Cart", "placement": "moon", "methods": [{"name": "Add"}, {"name": "Add"}, {"name": "a b"}, {"read_only": 1}], "limits": {"mailbox": -1, "fuel": 1.5, "idempotency_window_ms": "24h"}},
		{"name": "Cart", "methods": [], "colour": 1, "capabilities": {"http": ["ftp://x"], "config": ["a", "a"]}},
		7
	]}`
	want := []string{
		`abi: is 2; this host speaks version 1, build the module with an SDK of that version`,
		`type Cart.placement: "moon" is no placement policy; choose one of any, ring, ring:SERVERS, sticky, stateless, static:HOST,HOST,… or checkout:PARTITIONS`,
		`type Cart.methods[2].name: "a b" has the character ' ' at byte 1; only A-Z a-z 0-9 . _ - are allowed`,
		`type Cart.methods[3]: lacks the member "name"`,
		`type Cart.methods[3].read_only: is 1; it must be true or false`,
		`type Cart.methods: 0 and 1 are both named "Add"; rename one`,
		`type Cart.limits.mailbox: is -1; allowed are 0 to 9223372036854775807`,
		`type Cart.limits.fuel: is 1.5; it must be a whole number`,
		`type Cart.limits.idempotency_window_ms: is "24h"; it must be a whole number`,
		`types[1]: has the unknown member "colour"; known are name, placement, instance, pool, state_schema, migrate, reentrant, methods, limits, co_locate, capabilities, hooks, messages, events, spawn, outside_set, protobuf, warnings (a newer SDK may need a newer host)`,
		`type Cart.methods: is empty; register at least one method`,
		`type Cart.capabilities.http[0]: "ftp://x" names the scheme ftp; https and http are known`,
		`type Cart.capabilities.config: 0 and 1 are both named "a"; rename one`,
		`types[2]: is 7; it must be an object`,
		`types: 0 and 1 are both named "Cart"; rename one`,
	}
	m, faults := manifest.Parse([]byte(text))
	var got []string
	for _, f := range faults {
		got = append(got, f.Message)
	}
	if m != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got manifest %v and\n%s\nwant\n%s", m, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFaultsAreBounded(t *testing.T) {
	_, faults := manifest.Parse([]byte(`{` + strings.Repeat(`"x":0,`, 10_000) + `"y":0}`))
	if len(faults) != 101 || faults[100].Code != manifest.CodeManyFaults {
		t.Fatalf("%d faults, the last is %v", len(faults), faults[len(faults)-1])
	}
	_, faults = manifest.Parse([]byte(`{"abi":1,"types":["` + strings.Repeat("é", 30_000) + `"]}`))
	if len(faults) != 1 || len(faults[0].Message) > 200 {
		t.Errorf("got %v", faults)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"abi":1,"types":[{"name":"T","methods":[{"name":"M"}]}]}`))
	f.Add([]byte(`{"abi":1,"sdk":"s","types":[{"name":"T","placement":"sticky","instance":"shared","pool":"batch","state_schema":7,` +
		`"migrate":true,"methods":[{"name":"M","read_only":true,"idempotent":true,"reentrant":true,"private":true}],"limits":{"state_bytes":1,"payload_bytes":2,` +
		`"mailbox":3,"turn_ms":4,"memory_bytes":5,"fuel":6,"idempotency_window_ms":7},"capabilities":{"http":["*","http://[::1]:*"],"config":["a"],"secrets":["b"]}}]}`))
	f.Add([]byte(`{"abi":[],"types":{},"x":null}`))
	f.Add([]byte(`{"abi":1,"abi":1e999,"types":[{"name":"\u0000","limits":{"mailbox":01}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, faults := manifest.Parse(data)
		if (m == nil) == (len(faults) == 0) {
			t.Fatalf("manifest %v with faults %v", m, faults)
		}
		for _, f := range faults {
			if f.Code == "" || f.Message == "" {
				t.Fatalf("fault %+v", f)
			}
		}
		if m == nil {
			return
		}
		if m.ABI != abi.Version || len(m.Types) == 0 || len(m.Types[0].Methods) == 0 || m.Types[0].Placement == "" {
			t.Fatalf("accepted %+v", m)
		}
		encoded, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if again, faults := manifest.Parse(encoded); !reflect.DeepEqual(again, m) {
			t.Fatalf("%s: got %+v, %v", encoded, again, faults)
		}
	})
}

// The fault of a module without types says, to guests of the Go SDK, that main does not run.
func TestNoTypes(t *testing.T) {
	for sdk, want := range map[string]string{
		"greenroom-go/0.1.0":   "types: is empty; register at least one actor type, with actor.Register in an init function: a guest's main does not run",
		"greenroom-rust/0.1.0": "types: is empty; register at least one actor type",
	} {
		_, faults := manifest.Parse([]byte(`{"abi":1,"sdk":"` + sdk + `","types":[]}`))
		if len(faults) != 1 || faults[0].Message != want {
			t.Errorf("%s: %+v", sdk, faults)
		}
	}
}
