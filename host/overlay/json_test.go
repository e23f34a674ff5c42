package overlay

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
)

// reference splits an object as the standard library does.
func reference(data []byte) (members map[string]string, ok bool) {
	if !utf8.Valid(data) || !json.Valid(data) || !bytes.HasPrefix(trimJSON(data), []byte("{")) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	members = map[string]string{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil, false
		}
		name, _ := key.(string)
		if _, twice := members[name]; twice || name == "" || len(name) > abi.MaxStateKeyLen {
			return nil, false
		}
		members[name] = string(value)
	}
	return members, true
}

func checkMembers(t *testing.T, data []byte, known []envelope.Entry) {
	t.Helper()
	if strings.Count(string(data), "[")+strings.Count(string(data), "{") > 9_000 {
		return // the standard library counts the object itself among the levels
	}
	want, ok := reference(data)
	got, err := appendMembers(nil, data, known)
	if ok != (err == nil) || len(got) != len(want) {
		t.Fatalf("%q: got %v, %v; want %q, %v", data, got, err, want, ok)
	}
	for n, e := range got {
		if value, there := want[e.Key]; !there || value != string(e.Value) || e.Format != abi.FormatJSON {
			t.Fatalf("%q: %q is %q, want %q", data, e.Key, e.Value, value)
		}
		if n > 0 && got[n-1].Key >= e.Key {
			t.Fatalf("%q: out of order", data)
		}
	}
}

var knownMembers = []envelope.Entry{
	{Key: "a", Format: abi.FormatJSON, Value: []byte("12")},
	{Key: "b", Format: abi.FormatJSON, Value: []byte(`{"x":[1,"}"]}`)},
	{Key: "bytes", Format: abi.FormatBytes, Value: []byte(`nonsense`)},
	{Key: "s", Format: abi.FormatJSON, Value: []byte(`"text"`)},
}

var objects = []string{
	``, ` `, `{}`, ` { } `, `{}}`, `{`, `[]`, `1`, `{"a"}`, `{"a":}`, `{"a":12}`, `{"a":123}`, `{"a":12 }`, `{"a":12`, `{"a":12x}`, `{"a":12,}`,
	`{"a":12}x`, `{"a":1 2}`, `{"a":12,"b":{"x":[1,"}"]},"s":"text"}`, `{"s":"text","a":12}`, `{"s":"text""a":12}`, `{"s":"tex"}`, `{"s":"text}`,
	`{"b":{"x":[1,"}"]}]}`, `{"b":{"x":[1,"}"]},}`, `{"b":[}`, `{"b":]}`, `{"bytes":nonsense}`, `{"bytes":1}`, `{"a":12,"a":12}`, `{"a":12,"\u0061":12}`,
	`{"\u0061":12}`, `{"":1}`, `{"\ud800":1}`, "{\"\xff\":1}", "{\"a\":\"\xff\"}", "{\"a\n\":1}", `{"\q":1}`, `{a:12}`, `{"a" : 12 , "c" : [ 1 , 2 ] }`, `{,}`,
	`{"c":"\"},"}`, `{"c":tru}`, `{"c":"`, `{"c":"\`, `{"c":[[[[`, `{"c":0012}`,
}

// Members are those that the standard library finds, whatever is known already.
func TestMembers(t *testing.T) {
	for _, s := range objects {
		checkMembers(t, []byte(s), nil)
		checkMembers(t, []byte(s), knownMembers)
	}
}

func FuzzMembers(f *testing.F) {
	for _, s := range objects {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkMembers(t, data, nil)
		checkMembers(t, data, knownMembers)
	})
}

// A member that is as it was stored costs a comparison.
func BenchmarkMembers(b *testing.B) {
	known := []envelope.Entry{
		{Key: "ballast", Format: abi.FormatJSON, Value: []byte(`"` + strings.Repeat("B", 180) + `"`)},
		{Key: "count", Format: abi.FormatJSON, Value: []byte("123")},
	}
	object := appendJSON(nil, known)
	for name, known := range map[string][]envelope.Entry{"stored": known, "new": nil} {
		b.Run(name, func(b *testing.B) {
			var buffer []envelope.Entry
			for b.Loop() {
				var err error
				if buffer, err = appendMembers(buffer[:0], object, known); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
