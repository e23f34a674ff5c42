package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxDepth bounds how deep in a state a value is read: each level reads its bytes once more.
const maxDepth = 100

// text is a value of JSON, as it is stored. It was checked when it was written: what follows
// needs only that it is not read beyond its end.
type text []byte

// parse returns the value of t, which is so deep in a state.
func (t text) parse(depth int) ref.Val {
	if len(t) == 0 {
		return types.NewErr("the state is not JSON")
	}
	switch t[0] {
	case '{', '[':
		if depth == maxDepth {
			return types.NewErr("the state is nested deeper than %d", maxDepth)
		}
		if t[0] == '{' {
			o := &object{}
			o.read(t, depth)
			return o
		}
		return parseList(t, depth)
	case '"':
		return types.String(t.unquoted())
	case 't':
		return types.True
	case 'f':
		return types.False
	case 'n':
		return types.NullValue
	}
	return t.number()
}

func (t text) number() ref.Val {
	if !bytes.ContainsAny(t, ".eE") {
		if n, err := strconv.ParseInt(string(t), 10, 64); err == nil {
			return types.Int(n)
		}
		if n, err := strconv.ParseUint(string(t), 10, 64); err == nil {
			return types.Uint(n)
		}
	}
	f, _ := strconv.ParseFloat(string(t), 64) // infinite if it is out of range
	return types.Double(f)
}

// unquoted returns the string that t is.
func (t text) unquoted() string {
	if len(t) >= 2 && bytes.IndexByte(t, '\\') < 0 {
		return string(t[1 : len(t)-1])
	}
	var s string
	_ = json.Unmarshal(t, &s) // it is a string
	return s
}

// next returns where the value at the beginning of t ends.
func (t text) next() int {
	if len(t) == 0 {
		return 0
	}
	switch t[0] {
	case '"':
		return t.endOfString()
	case '{', '[':
	default:
		for i, c := range t {
			switch c {
			case ',', '}', ']', ' ', '\t', '\r', '\n':
				return i
			}
		}
		return len(t)
	}
	depth := 0
	for i := 0; i < len(t); i++ {
		switch t[i] {
		case '"':
			i += t[i:].endOfString() - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(t)
}

// endOfString returns where the string at the beginning of t ends: at a quote with an even
// number of backslashes before it.
func (t text) endOfString() int {
	for i := 1; i < len(t); i++ {
		n := bytes.IndexByte(t[i:], '"')
		if n < 0 {
			break
		}
		i += n
		slashes := i - 1
		for t[slashes] == '\\' {
			slashes--
		}
		if (i-slashes)%2 == 1 {
			return i + 1
		}
	}
	return len(t)
}

// trimmed returns t without the white space before it.
func (t text) trimmed() text {
	for len(t) > 0 && (t[0] == ' ' || t[0] == '\t' || t[0] == '\n' || t[0] == '\r') {
		t = t[1:]
	}
	return t
}

// items calls each with the values of an array, or with the names and values of an object.
func (t text) items(each func(name, value text)) {
	named := t[0] == '{'
	for t = t[1:].trimmed(); len(t) > 0 && t[0] != '}' && t[0] != ']'; {
		var name text
		if named {
			end := t.endOfString()
			name, t = t[:end], t[end:].trimmed()
			if len(t) == 0 {
				return
			}
			t = t[1:].trimmed() // the colon
		}
		end := t.next()
		each(name, t[:end:end])
		if t = t[end:].trimmed(); len(t) > 0 && t[0] == ',' {
			t = t[1:].trimmed()
		}
	}
}

// lazy is a value that is parsed when it is asked for.
type lazy struct {
	text  text
	value ref.Val
}

func (l *lazy) get(depth int) ref.Val {
	if l.value == nil {
		l.value = l.text.parse(depth)
	}
	return l.value
}

// object is an object of JSON: a map of CEL whose values are parsed when they are asked for.
type object struct {
	text    text
	depth   int
	members []member
	// byName has the last member of each name, if there are many members.
	byName map[string]int
}

type member struct {
	name text // as it is written, with its quotes
	lazy
}

var _ traits.Mapper = (*object)(nil)

// manyMembers is from how many members on a map finds one sooner than the eye does.
const manyMembers = 24

// read makes o the object that t is.
func (o *object) read(t text, depth int) {
	o.text, o.depth, o.members, o.byName = t, depth, o.members[:0], nil
	t.items(func(name, value text) { o.members = append(o.members, member{name, lazy{text: value}}) })
	if len(o.members) >= manyMembers {
		o.index()
	}
}

func (o *object) index() {
	o.byName = make(map[string]int, len(o.members))
	for i := range o.members {
		o.byName[o.members[i].name.unquoted()] = i
	}
}

// Find implements [traits.Mapper].
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	if o.byName != nil {
		i, ok := o.byName[string(name)]
		if !ok {
			return nil, false
		}
		return o.members[i].get(o.depth + 1), true
	}
	for i := len(o.members) - 1; i >= 0; i-- {
		if m := &o.members[i]; m.is(string(name)) {
			return m.get(o.depth + 1), true
		}
	}
	return nil, false
}

func (m *member) is(name string) bool {
	if n := len(m.name); n == len(name)+2 {
		return string(m.name[1:n-1]) == name && bytes.IndexByte(m.name, '\\') < 0
	}
	return bytes.IndexByte(m.name, '\\') >= 0 && m.name.unquoted() == name
}

// Get implements [traits.Indexer].
func (o *object) Get(key ref.Val) ref.Val {
	if v, ok := o.Find(key); ok {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

// Contains implements [traits.Container].
func (o *object) Contains(key ref.Val) ref.Val {
	_, ok := o.Find(key)
	return types.Bool(ok)
}

// Size implements [traits.Sizer].
func (o *object) Size() ref.Val {
	if o.byName == nil {
		o.index()
	}
	return types.Int(len(o.byName))
}

// Iterator implements [traits.Iterable]: names, in the order in which they are written.
func (o *object) Iterator() traits.Iterator {
	if o.byName == nil {
		o.index()
	}
	names := make([]string, 0, len(o.byName))
	for i := range o.members {
		if name := o.members[i].name.unquoted(); o.byName[name] == i {
			names = append(names, name)
		}
	}
	return types.NewStringList(types.DefaultTypeAdapter, names).Iterator()
}

// Equal implements [ref.Val].
func (o *object) Equal(other ref.Val) ref.Val {
	if same, ok := other.(*object); ok && bytes.Equal(o.text, same.text) {
		return types.True
	}
	m, ok := other.(traits.Mapper)
	if !ok || m.Size() != o.Size() {
		return types.False
	}
	for name, i := range o.byName {
		v, ok := m.Find(types.String(name))
		if !ok {
			return types.False
		}
		if equal := types.Equal(o.members[i].get(o.depth+1), v); equal != types.True {
			return equal
		}
	}
	return types.True
}

// ConvertToNative implements [ref.Val]: there is no other form.
func (o *object) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("a state is not a %s", to)
}

// ConvertToType implements [ref.Val].
func (o *object) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case types.MapType:
		return o
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("a map is not a %s", to.TypeName())
}

// Type implements [ref.Val].
func (o *object) Type() ref.Type { return types.MapType }

// Value implements [ref.Val].
func (o *object) Value() any { return o }

// list is an array of JSON. Its values are parsed, and the values of those when they are asked for.
type list struct {
	traits.Lister
	text text
}

// parseList returns the list that t is, or the error of one of its values.
func parseList(t text, depth int) ref.Val {
	values := []ref.Val{}
	var failed ref.Val
	t.items(func(_, value text) {
		v := value.parse(depth + 1)
		if types.IsError(v) && failed == nil {
			failed = v
		}
		values = append(values, v)
	})
	if failed != nil {
		return failed
	}
	return &list{types.NewRefValList(types.DefaultTypeAdapter, values), t}
}

// Equal implements [ref.Val].
func (l *list) Equal(other ref.Val) ref.Val {
	if same, ok := other.(*list); ok && bytes.Equal(l.text, same.text) {
		return types.True
	}
	o, ok := other.(traits.Lister)
	if !ok || l.Size() != o.Size() {
		return types.False
	}
	for a, b := l.Iterator(), o.Iterator(); a.HasNext() == types.True; {
		if equal := types.Equal(a.Next(), b.Next()); equal != types.True {
			return equal
		}
	}
	return types.True
}

// appendJSON appends v as a text of JSON. What is of the state stays as it is stored, but for
// white space; what JSON lacks becomes a string.
func appendJSON(dst []byte, v ref.Val) ([]byte, error) {
	var of any
	switch v := v.(type) {
	case *object:
		return appendCompact(dst, v.text)
	case *list:
		return appendCompact(dst, v.text)
	case types.Int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case types.Uint:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case types.Null:
		return append(dst, "null"...), nil
	case types.Double:
		if of = float64(v); math.IsInf(float64(v), 0) || math.IsNaN(float64(v)) {
			of = strconv.FormatFloat(float64(v), 'g', -1, 64)
		}
	case types.Bool, types.String, types.Bytes:
		of = v.Value()
	case types.Timestamp:
		of = v.UTC().Format(time.RFC3339Nano)
	case types.Duration:
		of = v.Duration.String()
	case ref.Type:
		of = v.TypeName()
	case traits.Mapper:
		return appendMap(dst, v)
	case traits.Lister:
		dst = append(dst, '[')
		for i, it := 0, v.Iterator(); it.HasNext() == types.True; i++ {
			var err error
			if dst, err = appendJSON(separated(dst, i), it.Next()); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	default:
		return nil, fmt.Errorf("a value of type %s has no form in JSON", v.Type().TypeName())
	}
	return appendValue(dst, of)
}

func separated(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

func appendCompact(dst []byte, t text) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := json.Compact(b, t)
	return b.Bytes(), err
}

// appendMap appends a map in order of its keys.
func appendMap(dst []byte, m traits.Mapper) ([]byte, error) {
	values := map[string]ref.Val{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		values[fmt.Sprint(key.Value())] = m.Get(key)
	}
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(values)) {
		var err error
		if dst, err = appendValue(separated(dst, i), name); err != nil {
			return nil, err
		}
		if dst, err = appendJSON(append(dst, ':'), values[name]); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendValue(dst []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
