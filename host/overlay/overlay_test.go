package overlay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/overlay"
	"pgregory.net/rapid"
)

const limit = 4 << 10

// model is what an overlay should be: a map, copied at each commit.
type model struct {
	base, now map[string]envelope.Entry
}

func (m *model) sorted() []envelope.Entry {
	var out []envelope.Entry
	for _, k := range slices.Sorted(maps.Keys(m.now)) {
		out = append(out, m.now[k])
	}
	return out
}

func sameEntries(a, b []envelope.Entry) bool {
	return slices.EqualFunc(a, b, func(x, y envelope.Entry) bool {
		return x.Key == y.Key && x.Format == y.Format && bytes.Equal(x.Value, y.Value)
	})
}

func keys() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"a", "b", "ab", "a\"\\", "\x01\n", "ключ", "\u2028", "😀", "z"}),
		rapid.StringN(1, 8, abi.MaxStateKeyLen),
	)
}

func jsonValues() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{
		"1", "-0.5e3", `"x"`, `"\"}],{["`, "null", "true", "[]", "{}", `[1, {"a" : [ ]}]`, `{"b":{"c":"\\"}}`, `"é"`,
	})
}

// TestOverlayAgainstModel drives an overlay and a plain map with the same random
// turns, and compares everything that can be seen after each step.
func TestOverlayAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		revs := new(overlay.Revisions)
		state, m := &overlay.State{}, &model{base: map[string]envelope.Entry{}, now: map[string]envelope.Entry{}}
		var o overlay.Overlay
		seen := map[uint64]string{}
		rev := revs.Next()
		o.Reset(state, revs, rev, limit)

		// look compares all views, and checks that a revision names one state.
		look := func(t *rapid.T) {
			list, err := abi.DecodeKeyList(o.AppendKeys(nil, nil))
			if err != nil {
				t.Fatalf("key list: %v", err)
			}
			want := m.sorted()
			if len(list) != len(want) {
				t.Fatalf("keys %q, want %d entries", list, len(want))
			}
			var all strings.Builder
			object := map[string]json.RawMessage{}
			for i, e := range want {
				value, format, ok := o.Get([]byte(e.Key))
				if list[i] != e.Key || !ok || format != e.Format || !bytes.Equal(value, e.Value) {
					t.Fatalf("key %d %q: got %q %q %v %v, want %q", i, e.Key, list[i], value, format, ok, e.Value)
				}
				all.WriteString(e.Key + "\x00" + string(e.Value) + "\x00" + string(rune('0'+e.Format)))
				if e.Format == abi.FormatJSON {
					object[e.Key] = json.RawMessage(e.Value)
				}
			}
			var got map[string]json.RawMessage
			if err := json.Unmarshal(o.AppendJSON(nil), &got); err != nil || len(got) != len(object) {
				t.Fatalf("json %s: %v", o.AppendJSON(nil), err)
			}
			if was, ok := seen[o.Revision()]; ok && was != all.String() {
				t.Fatalf("revision %d names two states", o.Revision())
			}
			seen[o.Revision()] = all.String()
		}
		t.Repeat(map[string]func(*rapid.T){
			"": look,
			"set bytes": func(t *rapid.T) {
				k, v := keys().Draw(t, "key"), rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "value")
				if code := o.Set([]byte(k), v, abi.FormatBytes); code != 0 {
					t.Skip(code)
				}
				m.now[k] = envelope.Entry{Key: k, Format: abi.FormatBytes, Value: v}
			},
			"set json": func(t *rapid.T) {
				k, v := keys().Draw(t, "key"), jsonValues().Draw(t, "value")
				if code := o.Set([]byte(k), []byte(" \n"+v+"\t"), abi.FormatJSON); code != 0 {
					t.Skip(code)
				}
				m.now[k] = envelope.Entry{Key: k, Format: abi.FormatJSON, Value: []byte(v)}
			},
			"delete": func(t *rapid.T) {
				k := keys().Draw(t, "key")
				_, want := m.now[k]
				if existed, code := o.Delete([]byte(k)); existed != want || code != 0 {
					t.Fatalf("delete %q: %v %v, want %v", k, existed, code, want)
				}
				delete(m.now, k)
			},
			"delete all": func(t *rapid.T) {
				if n := o.DeleteAll(); n != len(m.now) {
					t.Fatalf("delete all: %d, want %d", n, len(m.now))
				}
				clear(m.now)
			},
			"patch": func(t *rapid.T) {
				object := rapid.MapOfN(keys(), jsonValues(), 0, 4)
				before, after := object.Draw(t, "before"), object.Draw(t, "after")
				if _, code := o.Patch(encode(before), encode(after)); code != 0 {
					t.Skip(code)
				}
				for k, v := range after {
					if was, ok := before[k]; !ok || was != v {
						m.now[k] = envelope.Entry{Key: k, Format: abi.FormatJSON, Value: []byte(v)}
					}
				}
				for k := range before {
					if _, ok := after[k]; !ok {
						delete(m.now, k)
					}
				}
			},
			"commit": func(t *rapid.T) {
				next, changed, err := o.Seal()
				var large *actor.StateTooLargeError
				if errors.As(err, &large) {
					t.Skip(large)
				}
				if err != nil {
					t.Fatal(err)
				}
				if !sameEntries(next.Entries(), m.sorted()) {
					t.Fatalf("sealed %q, want %q", next.Entries(), m.sorted())
				}
				same := sameEntries(state.Entries(), next.Entries())
				if changed == same && (changed || len(m.base) > 0) {
					t.Fatalf("changed %v, but the same: %v", changed, same)
				}
				if next.Size() != len(next.Encoded().Data) {
					t.Fatalf("size %d of %q", next.Size(), next.Encoded().Data)
				}
				stored, err := overlay.Decode(next.Encoded())
				if err != nil || !sameEntries(stored.Entries(), m.sorted()) {
					t.Fatalf("stored %q: %v", next.Encoded().Data, err)
				}
				rev = o.Revision()
				if changed {
					state, m.base = next, maps.Clone(m.now)
				}
				o.Reset(state, revs, rev, limit)
			},
			"roll back": func(t *rapid.T) {
				rev = revs.Next()
				o.Reset(state, revs, rev, limit)
				m.now = maps.Clone(m.base)
			},
		})
	})
}

// encode writes an object by hand: members are compared by their bytes, so they
// must come as they were drawn.
func encode(object map[string]string) []byte {
	if len(object) == 0 {
		return nil
	}
	out := []byte{'{'}
	for i, k := range slices.Sorted(maps.Keys(object)) {
		if i > 0 {
			out = append(out, ", "...)
		}
		quoted, _ := json.Marshal(k)
		out = append(append(append(out, quoted...), " : "...), object[k]...)
	}
	return append(out, '}')
}

// TestSnapshotIsNotTouched shows that a state stays as it was while a later turn
// changes every key of it.
func TestSnapshotIsNotTouched(t *testing.T) {
	revs := new(overlay.Revisions)
	old, err := overlay.Decode(actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"a":1,"b":2}`)})
	if err != nil {
		t.Fatal(err)
	}
	var reader, writer overlay.Overlay
	reader.Reset(old, revs, revs.Next(), limit)
	writer.Reset(old, revs, revs.Next(), limit)
	writer.Set([]byte("a"), []byte("9"), abi.FormatJSON)
	writer.Delete([]byte("b"))
	if _, changed, err := writer.Seal(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if got := string(reader.AppendJSON(nil)); got != `{"a":1,"b":2}` {
		t.Errorf("the reader sees %s", got)
	}
}

func TestEncodings(t *testing.T) {
	for _, tc := range []struct {
		name   string
		set    map[string]string // JSON; a value that begins with ! is bytes
		format actor.StateFormat
		data   string
	}{
		{"sorted", map[string]string{"b": "2", "a": "1", "B": "3"}, actor.FormatJSON, `{"B":3,"a":1,"b":2}`},
		{"escaped keys", map[string]string{"\"\\\x00": "1", "é/": "2"}, actor.FormatJSON, `{"\"\\\u0000":1,"é/":2}`},
		{"white space inside stays", map[string]string{"a": " [1, 2] "}, actor.FormatJSON, `{"a":[1, 2]}`},
		{"bytes", map[string]string{"a": "1", "b": "!x"}, actor.FormatEnvelope, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			revs := new(overlay.Revisions)
			var o overlay.Overlay
			o.Reset(&overlay.State{}, revs, revs.Next(), limit)
			for k, v := range tc.set {
				if bytesValue, ok := strings.CutPrefix(v, "!"); ok {
					o.Set([]byte(k), []byte(bytesValue), abi.FormatBytes)
				} else if code := o.Set([]byte(k), []byte(v), abi.FormatJSON); code != 0 {
					t.Fatal(code)
				}
			}
			s, _, err := o.Seal()
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Encoded(); got.Format != tc.format || tc.data != "" && string(got.Data) != tc.data {
				t.Errorf("got format %d, %q", got.Format, got.Data)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	revs := new(overlay.Revisions)
	var o overlay.Overlay
	o.Reset(&overlay.State{}, revs, revs.Next(), 100)
	long := strings.Repeat("k", abi.MaxStateKeyLen+1)
	for _, tc := range []struct {
		name, key, value string
		format           abi.Format
		code             abi.Code
	}{
		{"empty key", "", "1", abi.FormatJSON, abi.CodeInvalid},
		{"long key", long, "1", abi.FormatJSON, abi.CodeInvalid},
		{"key not UTF-8", "\xff", "1", abi.FormatJSON, abi.CodeInvalid},
		{"not JSON", "a", "{", abi.FormatJSON, abi.CodeInvalid},
		{"two texts", "a", "1 2", abi.FormatJSON, abi.CodeInvalid},
		{"nothing", "a", " ", abi.FormatJSON, abi.CodeInvalid},
		{"JSON not UTF-8", "a", "\"\xff\"", abi.FormatJSON, abi.CodeInvalid},
		{"format", "a", "1", 7, abi.CodeInvalid},
		{"far too large", "a", strings.Repeat("x", 500), abi.FormatBytes, abi.CodeTooLarge},
	} {
		if code := o.Set([]byte(tc.key), []byte(tc.value), tc.format); code != tc.code {
			t.Errorf("%s: code %d, want %d", tc.name, code, tc.code)
		}
	}
	for _, object := range []string{"[]", "1", `{"a":1`, `{"a":1,"a":2}`, `{"":1}`, `{"` + long + `":1}`, "{}{}"} {
		if _, code := o.Patch(nil, []byte(object)); code != abi.CodeInvalid {
			t.Errorf("patch with %.20s: code %d", object, code)
		}
	}
	if list := o.AppendKeys(nil, nil); len(list) != 0 {
		t.Errorf("something was set: %q", list)
	}
	// A great many tiny keys are bounded as well.
	for i := range 1000 {
		if o.Set([]byte{byte('a' + i%26), byte('a' + i/26)}, nil, abi.FormatBytes) == abi.CodeTooLarge {
			return
		}
	}
	t.Error("1000 keys fit into a state of 100 bytes")
}

func TestTooLarge(t *testing.T) {
	revs := new(overlay.Revisions)
	var o overlay.Overlay
	o.Reset(&overlay.State{}, revs, revs.Next(), 300)
	for i, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		o.Set([]byte(key), bytes.Repeat([]byte("x"), 40+i), abi.FormatBytes)
	}
	_, _, err := o.Seal()
	var large *actor.StateTooLargeError
	if !errors.As(err, &large) {
		t.Fatalf("got %v", err)
	}
	want := []actor.KeySize{
		{Key: "g", Size: 46}, {Key: "f", Size: 45}, {Key: "e", Size: 44}, {Key: "d", Size: 43}, {Key: "c", Size: 42},
	}
	if large.Limit != 300 || large.Size <= 300 || !slices.Equal(large.Largest, want) {
		t.Errorf("got %+v", large)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"", "{}", ` { "a" : [1,{"b":"}\""}] , "c":"\\" } `, `{"\u0061":1,"a":2}`, `{"a":1}x`, `{"a`, "[1]",
		`{"\ud800":1}`, string(envelope.Append(nil, []envelope.Entry{{Key: "a", Value: []byte("\x00")}})),
	} {
		for format := range 4 {
			f.Add(uint8(format), []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, format uint8, data []byte) {
		s, err := overlay.Decode(actor.EncodedState{Format: actor.StateFormat(format), Data: data})
		if err != nil {
			if !errors.Is(err, actor.ErrStateDamaged) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		// What was decoded is kept as it is by a turn that changes another key.
		revs := new(overlay.Revisions)
		var o overlay.Overlay
		o.Reset(s, revs, revs.Next(), 1<<30)
		const extra = "an extra key"
		if _, _, there := o.Get([]byte(extra)); there {
			return
		}
		o.Set([]byte(extra), []byte("1"), abi.FormatJSON)
		next, _, err := o.Seal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := overlay.Decode(next.Encoded())
		if err != nil {
			t.Fatalf("%q became %q: %v", data, next.Encoded().Data, err)
		}
		rest := slices.DeleteFunc(slices.Clone(again.Entries()), func(e envelope.Entry) bool { return e.Key == extra })
		if !sameEntries(rest, s.Entries()) {
			t.Fatalf("%q became %q", data, next.Encoded().Data)
		}
	})
}
