package jsonplan

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"
)

type Inner struct {
	Name  string    `json:"name"`
	Score float64   `json:"score,omitempty"`
	At    time.Time `json:"at"`
}

// Part is embedded.
type Part struct {
	P1 int    `json:"p1,omitempty"`
	P2 string `json:"p2,omitempty"`
}

// All has every kind that a plan knows.
type All struct {
	Bool   bool              `json:"bool"`
	Int    int               `json:"int"`
	Int8   int8              `json:"int8,omitempty"`
	Int16  int16             `json:"int16,omitempty"`
	Int32  int32             `json:"int32,omitempty"`
	Int64  int64             `json:"int64"`
	Uint   uint              `json:"uint,omitempty"`
	Uint8  uint8             `json:"uint8"`
	Uint16 uint16            `json:"uint16"`
	Uint32 uint32            `json:"uint32,omitempty"`
	Uint64 uint64            `json:"uint64"`
	F32    float32           `json:"f32"`
	F64    float64           `json:"f64,omitempty"`
	Text   string            `json:"text"`
	Maybe  string            `json:",omitempty"`
	Raw    []byte            `json:"raw"`
	In     Inner             `json:"in"`
	Ptr    *Inner            `json:"ptr,omitempty"`
	IntPtr *int              `json:"int_ptr"`
	Slice  []Inner           `json:"slice"`
	Deep   [][]string        `json:"deep,omitempty"`
	Map    map[string]string `json:"map"`
	Ints   map[string]int    `json:"ints,omitempty"`
	Longs  map[string]int64  `json:"longs"`
	Floats map[string]float64
	Flags  map[string]bool `json:"flags,omitempty"`
	Empty  struct{}        `json:"empty,omitempty"`
	Part
	Gone   func() `json:"-"`
	hidden int
}

func planned[T any](t testing.TB) *Plan {
	t.Helper()
	p := For(reflect.TypeFor[T]())
	if p == nil {
		t.Fatalf("%s has no plan", reflect.TypeFor[T]())
	}
	return p
}

// encode is what a plan must write.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func checkEncode[T any](t testing.TB, v *T) {
	t.Helper()
	want, err := encode(v)
	got, ok := planned[T](t).Append([]byte("x"), reflect.ValueOf(v).UnsafePointer())
	if ok != (err == nil) {
		t.Fatalf("%+v: ok is %t, encoding/json says %v", v, ok, err)
	}
	if ok && string(got) != "x"+string(want) {
		t.Fatalf("got  %s\nwant %s", got[1:], want)
	}
}

// checkDecode reads text both ways, and reports whether the plan could.
func checkDecode[T any](t testing.TB, text string) bool {
	t.Helper()
	var got, want T
	data := []byte(text)
	ok := planned[T](t).Decode(data, reflect.ValueOf(&got).UnsafePointer())
	if string(data) != text {
		t.Fatalf("the plan wrote to %q", text)
	}
	if !ok {
		return false
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatalf("%q into %T: read as %+v, but encoding/json says %v", text, got, got, err)
	}
	for i := range data {
		data[i] = 'X' // what was read is not of the text
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q into %T:\ngot  %+v\nwant %+v", text, got, got, want)
	}
	return true
}

func TestEncodeRandomValues(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 3000 {
		v, ok := quick.Value(reflect.TypeFor[plain](), r)
		if !ok {
			t.Fatal("no value")
		}
		a := v.Interface().(plain).all()
		checkEncode(t, &a)
		if text, err := encode(a); err == nil && !checkDecode[All](t, string(text)) && !bytes.Contains(text, []byte(`\ufffd`)) {
			t.Fatalf("the plan declines %s", text)
		}
	}
}

// plain is All without what package quick cannot make.
type plain struct {
	Bool   bool
	Int    int
	Int8   int8
	Int64  int64
	Uint64 uint64
	F32    float32
	F64    float64
	Text   string
	Raw    []byte
	Name   string
	Score  float64
	Sec    int32
	IntPtr *int
	Many   uint8
	Deep   [][]string
	Map    map[string]string
	Ints   map[string]int
	Floats map[string]float64
	Flags  map[string]bool
}

func (p plain) all() All {
	in := Inner{p.Name, p.Score, time.Unix(int64(p.Sec), int64(p.Sec&0xffff)).UTC()}
	a := All{Bool: p.Bool, Int: p.Int, Int8: p.Int8, Int64: p.Int64, Uint64: p.Uint64, F32: p.F32, F64: p.F64, Text: p.Text, Maybe: p.Name,
		Raw: p.Raw, In: in, IntPtr: p.IntPtr, Deep: p.Deep, Map: p.Map, Ints: p.Ints, Floats: p.Floats, Flags: p.Flags, hidden: 1, Part: Part{p.Int, p.Name}}
	if p.Many%3 > 0 {
		a.Ptr, a.Slice = &in, make([]Inner, p.Many%3)
	}
	return a
}

func TestEncodeEdges(t *testing.T) {
	for _, f := range []float64{0, math.Copysign(0, -1), 1, -1.5, 1e20, 1e21, -1e21, 1e-6, 1e-7, 9.999e-7, 1e-10, 1e-100, 1e100, math.MaxFloat64, math.SmallestNonzeroFloat64,
		math.Inf(1), math.NaN(), float64(math.MaxFloat32), 0.1, 1.0 / 3} {
		checkEncode(t, &All{F64: f, F32: float32(f), Floats: map[string]float64{"x": f}})
	}
	for _, s := range []string{"", "a", `"\`, "\x00\x01\x1f \x7f", "\b\f\n\r\t", "<a>&'", "é🎭", "\u2028\u2029\u202a", "\xff", "a\xc3", "\xed\xa0\x80", "\ufffd", strings.Repeat("x", 300)} {
		checkEncode(t, &All{Text: s, Map: map[string]string{s: s, "b": ""}, Deep: [][]string{nil, {}, {s}}})
	}
	checkEncode(t, &All{Raw: []byte{}, Map: map[string]string{}, Slice: []Inner{}, Longs: map[string]int64{"a": math.MinInt64}})
	checkEncode(t, &All{In: Inner{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}) // has no JSON form
	checkEncode(t, &All{In: Inner{At: time.Date(2024, 2, 29, 23, 59, 59, 999, time.FixedZone("", 5*3600+1800))}})
	for _, n := range []int64{math.MinInt64, math.MaxInt64, -1} {
		checkEncode(t, &All{Int64: n, Int: int(n), Int8: int8(n), Int16: int16(n), Int32: int32(n), Uint: uint(n), Uint16: uint16(n), Uint32: uint32(n), Uint64: uint64(n)})
	}
}

// What a plan must read by itself, so that the speed is there; and what it reads
// must be what encoding/json reads.
func TestDecodeReads(t *testing.T) {
	for _, text := range []string{
		`{}`, ` { } `, `null`, `{"int":1}`, "{\n\t\"int\" : -12 ,\r\n \"text\" : \"a\" }", `{"INT":1,"Text":"x"}`, `{"unknown":[1,{"a":[null,true,false,"\u00e9"]},-1.5e+3],"int":2}`,
		`{"int8":-128,"int16":32767,"int32":-2147483648,"int64":-9223372036854775808,"uint8":255,"uint64":18446744073709551615}`,
		`{"text":"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83c\udfad"}`, `{"text":"é🎭\u2028"}`, `{"raw":"aGk="}`, `{"raw":""}`, `{"raw":null}`,
		`{"in":{"name":"n","score":1.5,"at":"2024-02-29T23:59:59.5+05:30"}}`, `{"in":null,"ptr":null,"int_ptr":null,"slice":null,"map":null,"text":null,"int":null,"bool":null}`,
		`{"ptr":{"name":"p"},"int_ptr":7}`, `{"slice":[]}`, `{"slice":[{"name":"a"},null,{}]}`, `{"deep":[[],["a",null],null]}`,
		`{"map":{"a":"b","":"c","a":null},"ints":{"a":-1},"longs":{},"Floats":{"x":1e3},"flags":{"t":true,"f":false}}`,
		`{"f64":1e308,"f32":-0.0,"int":-0}`, `{"empty":{"x":1},"p1":2,"p2":"x"}`, `{"-":1,"hidden":2,"Gone":3}`,
	} {
		if !checkDecode[All](t, text) {
			t.Errorf("declined: %s", text)
		}
	}
	for text, ok := range map[string]bool{`"a"`: checkDecode[string](t, `"a"`), `7`: checkDecode[int](t, `7`), `[1,2]`: checkDecode[[]int](t, `[1,2]`), `{"a":"b"}`: checkDecode[map[string]string](t, `{"a":"b"}`)} {
		if !ok {
			t.Errorf("declined: %s", text)
		}
	}
}

// What encoding/json refuses, or reads by rules of its own, is left to it.
func TestDecodeDeclines(t *testing.T) {
	for _, text := range []string{
		``, ` `, `{`, `}`, `{"int"}`, `{"int":}`, `{"int":1,}`, `{"int":1 "text":""}`, `{"int":1}}`, `{"int":1} x`, `[]`, `1`, `"a"`, `nul`, `{"int":01}`, `{"int":+1}`, `{"int":1.0}`, `{"int":1e2}`,
		`{"int8":128}`, `{"int64":9223372036854775808}`, `{"uint8":-1}`, `{"uint64":18446744073709551616}`, `{"uint64":184467440737095516150}`, `{"int":"1"}`, `{"text":1}`, `{"bool":"true"}`,
		`{"f64":1e400}`, `{"f32":1e39}`, `{"f64":.5}`, `{"f64":5.}`, `{"f64":1e}`, "{\"text\":\"\n\"}", `{"text":"\x"}`, `{"text":"\u12"}`, `{"text":"\ud800"}`, `{"text":"\ud800\u0041"}`, "{\"text\":\"\xff\"}",
		`{"text":"a`, `{"text":"\`, "{\"t\\u0065xt\":\"a\"}", `{"bo` + "\u1e9e" + `l":true}`, `{"int":1,"int":2}`, `{"int":1,"INT":2}`, `{"slice":[1]}`, `{"slice":[{}`, `{"slice":[{},]}`, `{"raw":"?"}`, `{"raw":[1]}`,
		`{"in":{"at":"yesterday"}}`, `{"map":{"a":1}}`, `{"map":["a"]}`, `{"x":[1,]}`, `{"x":{1:2}}`, `{"x":tru}`, `{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "{\"x\":\"\\\xff\"}", "\x00",
	} {
		if checkDecode[All](t, text) {
			t.Errorf("read: %s", text)
		}
	}
}

type (
	custom1 struct{ N int }
	custom2 struct{ N int }
	node    struct{ Next *node }
	embeds  struct{ *Inner }
	embeds2 struct {
		Inner
		Name string `json:"NAME"`
	}
	embeds3 struct {
		Inner `json:"in"`
	}
	embeds4  struct{ Inner2 }
	Inner2   int
	twice    struct{ A, a int } //nolint:unused // what is not exported is no field
	folds    struct{ AB, Ab int }
	bytesLit []byte
	keyed    string
	never    struct{ N int }
)

func (keyed) MarshalText() ([]byte, error) { return []byte("k"), nil }
func (never) IsZero() bool                 { return false }

func (custom1) MarshalJSON() ([]byte, error)  { return []byte("1"), nil }
func (*custom2) UnmarshalText(_ []byte) error { return nil }

func TestTypesWithoutAPlan(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[any](), reflect.TypeFor[error](), reflect.TypeFor[func()](), reflect.TypeFor[chan int](), reflect.TypeFor[[2]int](), reflect.TypeFor[complex64](), reflect.TypeFor[uintptr](),
		reflect.TypeFor[custom1](), reflect.TypeFor[custom2](), reflect.TypeFor[*custom1](), reflect.TypeFor[struct{ C []custom2 }](), reflect.TypeFor[node](), reflect.TypeFor[embeds](), reflect.TypeFor[embeds2](), reflect.TypeFor[embeds3](), reflect.TypeFor[embeds4](),
		reflect.TypeFor[folds](), reflect.TypeFor[bytesLit](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[json.Number](), reflect.TypeFor[map[float64]int](), reflect.TypeFor[map[string]any](), reflect.TypeFor[map[keyed]int](), reflect.TypeFor[map[string]custom2](),
		reflect.TypeFor[struct {
			N int `json:",string"`
		}](), reflect.TypeFor[struct {
			N int `json:"a b"`
		}](), reflect.TypeFor[struct {
			N never `json:"n,omitzero"` // which says itself when it is zero
		}](), reflect.TypeFor[struct {
			N twice `json:"n,omitzero"` // of which a is looked at too
		}](), reflect.TypeFor[struct {
			N int `json:"n,omitnever"` //nolint:staticcheck // an option that is not known
		}](),
	} {
		if For(typ) != nil {
			t.Errorf("%s has a plan", typ)
		}
	}
	planned[twice](t) // a is no field of it
}

// Omits has what is left out when it is zero, and maps of all types.
type Omits struct {
	Int    int                `json:"int,omitzero"`
	F64    float64            `json:"f64,omitzero"`
	Text   string             `json:"text,omitzero"`
	At     time.Time          `json:"at,omitzero"`
	In     Inner              `json:"in,omitzero"`
	Ptr    *Inner             `json:"ptr,omitzero"`
	Slice  []int              `json:"slice,omitzero"`
	Both   []int              `json:"both,omitempty,omitzero"`
	Raw    []byte             `json:"raw,omitzero"`
	Ints   map[string]int     `json:"ints,omitzero"`
	Items  map[string]Inner   `json:"items,omitzero"`
	Empty  map[string]*Inner  `json:"empty,omitempty"`
	Named  map[label][]string `json:"named"`
	Codes  map[int16]string   `json:"codes"`
	Sizes  map[uint64]bool    `json:"sizes"`
	Nested map[string]map[int]float64
}

type label string

func TestMapsAndZeroValues(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	inner := Inner{Name: "n", At: at}
	for _, v := range []Omits{
		{},
		{Int: 1, F64: math.Copysign(0, -1), Text: "t", At: at, In: inner, Ptr: &Inner{}},
		{At: time.Time{}.In(time.FixedZone("x", 3600))}, // zero, with a zone
		{In: Inner{At: time.Time{}.In(time.FixedZone("x", 3600))}},
		{In: Inner{Score: math.Copysign(0, -1)}},
		{Slice: []int{}, Both: []int{}, Raw: []byte{}, Ints: map[string]int{}, Items: map[string]Inner{}, Empty: map[string]*Inner{}, Named: map[label][]string{}},
		{Items: map[string]Inner{"b": inner, "a": {}, "": inner, "é\"": inner}, Empty: map[string]*Inner{"n": nil, "i": &inner}},
		{Named: map[label][]string{"y": nil, "x": {}, "z": {"1", "2"}}, Codes: map[int16]string{-1: "a", 10: "b", 9: "c", math.MinInt16: ""}},
		{Sizes: map[uint64]bool{math.MaxUint64: true, 0: false}, Nested: map[string]map[int]float64{"a": {1: 1.5}, "n": nil}},
	} {
		checkEncode(t, &v)
		if text, err := encode(v); err != nil || !checkDecode[Omits](t, string(text)) {
			t.Errorf("declined: %s, %v", text, err)
		}
	}
	for _, text := range []string{
		`{"items":{}}`, `{"items":null,"named":null,"codes":null}`, `{"items":{"a":null,"b":{"name":"x"},"b":{"score":1}}}`, `{"codes":{"-0":"a"}, "Nested" : { "a" : { "1" : 2 } } }`,
	} {
		if !checkDecode[Omits](t, text) {
			t.Errorf("declined: %s", text)
		}
	}
	for _, text := range []string{
		`{"codes":{"x":"a"}}`, `{"codes":{"":"a"}}`, `{"codes":{"null":"a"}}`, `{"codes":{"40000":"a"}}`, `{"codes":{"1 ":"a"}}`, `{"codes":{"1.5":"a"}}`, `{"sizes":{"-1":true}}`, `{"codes":{"1":2}}`,
		`{"items":[]}`, `{"items":{"a"}}`, `{"items":{"a":{},}}`, `{"items":{"a":1}}`,
	} {
		if checkDecode[Omits](t, text) {
			t.Errorf("read: %s", text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{`{"int":1,"text":"a\u00e9","slice":[{"name":"x"}],"map":{"a":"b"}}`, `{"INT":1,"int":2}`, `[[1],[2,3]]`, `{"f64":1.5e-7}`, `{"raw":"aGk=","in":{"at":"2024-01-01T00:00:00Z"}}`, `{"items":{"a":{"name":"x"}},"codes":{"-1":"a"},"Nested":{"a":{"1":2}}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkDecode[All](t, text)
		checkDecode[Inner](t, text)
		checkDecode[[][]int8](t, text)
		checkDecode[map[string]float64](t, text)
		checkDecode[Omits](t, text)
		var o Omits
		if json.Unmarshal([]byte(text), &o) == nil {
			checkEncode(t, &o)
		}
		checkDecode[string](t, text)
		var a All
		if json.Unmarshal([]byte(text), &a) == nil {
			checkEncode(t, &a)
		}
		checkEncode(t, &All{Text: text, Map: map[string]string{text: text}})
	})
}

type benchState struct {
	Count int64  `json:"count"`
	Label string `json:"label,omitempty"`
}

// BenchmarkState reads and writes a small state, as a turn does.
func BenchmarkState(b *testing.B) {
	data := []byte(`{"count":12345,"label":"a counter"}`)
	b.Run("plan", func(b *testing.B) {
		p := planned[benchState](b)
		var out []byte
		b.ReportAllocs()
		for b.Loop() {
			var s benchState
			at := reflect.ValueOf(&s).UnsafePointer()
			if !p.Decode(data, at) {
				b.Fatal("declined")
			}
			out, _ = p.Append(out[:0], at)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		b.ReportAllocs()
		for b.Loop() {
			var s benchState
			if err := json.Unmarshal(data, &s); err != nil {
				b.Fatal(err)
			}
			buf.Reset()
			_ = enc.Encode(&s)
		}
	})
}
