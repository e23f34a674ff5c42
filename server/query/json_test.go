package query

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/traits"
)

// FuzzState: a state reads as encoding/json reads it, and nothing that is no JSON ends the reader.
func FuzzState(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1,"b":[1,2,{"c":null}],"a":"x"}`, ` { "\u0061\"\\" : [ true , false ] } `, `{"x":1e999,"y":-0.0,"z":18446744073709551616}`,
		`{"a`, `{"a":`, `{"a":[`, `{"a" 1`, `{,}`, `{"a":"\`, `{"a":}`, `{"a"`, `{]`, `{"a":tru}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.TrimSpace(data)
		if len(data) == 0 || data[0] != '{' {
			return
		}
		var o object
		o.read(text(data), 0)
		size := o.Size()
		for it := o.Iterator(); it.HasNext() == types.True; {
			walk(o.Get(it.Next()), 0)
		}
		if !json.Valid(data) || !utf8.Valid(data) {
			return
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil {
			return
		}
		if size != types.Int(len(want)) {
			t.Fatalf("%s has %v members, want %d", data, size, len(want))
		}
		for name, raw := range want {
			got, ok := o.Find(types.String(name))
			if !ok {
				t.Fatalf("%s has no member %q", data, name)
			}
			if o.members[o.byName[name]].text == nil || !bytes.Equal(o.members[o.byName[name]].text, raw) {
				t.Fatalf("%s: member %q is %s, want %s", data, name, o.members[o.byName[name]].text, raw)
			}
			if s, isString := got.(types.String); isString {
				var w string
				if json.Unmarshal(raw, &w) != nil || string(s) != w {
					t.Fatalf("%s: member %q is %q, want %q", data, name, s, w)
				}
			}
		}
	})
}

// walk looks at all of a value.
func walk(v any, depth int) {
	if l, ok := v.(traits.Lister); ok && depth < maxDepth {
		for it := l.Iterator(); it.HasNext() == types.True; {
			walk(it.Next(), depth+1)
		}
	}
}
