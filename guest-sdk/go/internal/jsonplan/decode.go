package jsonplan

import (
	"encoding/base64"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// maxDepth is how deep what is not kept may be nested. encoding/json allows more,
// on a stack that grows.
const maxDepth = 64

// Decode reads JSON into the value at v, which is of the plan's type and zero. If
// it is not ok, the value may be half read: make it zero again, and ask
// encoding/json, which may well have no objection.
func (p *Plan) Decode(data []byte, v unsafe.Pointer) (ok bool) {
	d := decoder{data: data}
	d.space()
	if !d.value(p, v) {
		return false
	}
	d.space()
	return d.pos == len(d.data)
}

// decoder reads a text from its start to its end. Its methods return false for
// what they have no rule for, and the whole decoding then ends.
type decoder struct {
	data []byte
	pos  int
}

func (d *decoder) peek() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

func (d *decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\r', '\n':
			d.pos++
		default:
			return
		}
	}
}

func (d *decoder) literal(s string) bool {
	if len(d.data)-d.pos < len(s) || string(d.data[d.pos:d.pos+len(s)]) != s {
		return false
	}
	d.pos += len(s)
	return true
}

// after moves past a separator: it returns true at the next member, and done at
// the end of the list.
func (d *decoder) after(end byte) (more, ok bool) {
	d.space()
	switch d.peek() {
	case ',':
		d.pos++
		d.space()
		return true, d.peek() != end
	case end:
		d.pos++
		return false, true
	}
	return false, false
}

func (d *decoder) value(p *Plan, v unsafe.Pointer) bool {
	if d.peek() == 'n' {
		// Nothing changes, and nil is what a zero value has.
		return d.literal("null")
	}
	switch p.kind {
	case kindBool:
		if d.literal("true") {
			*(*bool)(v) = true
			return true
		}
		return d.literal("false")
	case kindInt, kindInt8, kindInt16, kindInt32, kindInt64:
		return d.signed(p.kind, v)
	case kindUint, kindUint8, kindUint16, kindUint32, kindUint64:
		return d.unsigned(p.kind, v)
	case kindFloat32:
		f, ok := d.float(32)
		*(*float32)(v) = float32(f)
		return ok
	case kindFloat64:
		f, ok := d.float(64)
		*(*float64)(v) = f
		return ok
	case kindString:
		s, ok := d.text()
		*(*string)(v) = s
		return ok
	case kindBytes:
		s, ok := d.text()
		if !ok {
			return false
		}
		b, err := base64.StdEncoding.DecodeString(s)
		*(*[]byte)(v) = b
		return err == nil
	case kindSlice:
		return d.slice(p, (*slice)(v))
	case kindPointer:
		inner := reflect.New(p.typ).UnsafePointer()
		*(*unsafe.Pointer)(v) = inner
		return d.value(p.elem, inner)
	case kindStruct:
		return d.object(p, v)
	case kindTime:
		start := d.pos
		if d.peek() != '"' || !d.skip(0) {
			return false
		}
		return (*time.Time)(v).UnmarshalJSON(d.data[start:d.pos]) == nil
	case kindMapString:
		return decodeMap(d, (*map[string]string)(v), d.text)
	case kindMapInt:
		return decodeMap(d, (*map[string]int)(v), func() (n int, ok bool) { ok = d.signed(kindInt, unsafe.Pointer(&n)); return n, ok })
	case kindMapInt64:
		return decodeMap(d, (*map[string]int64)(v), func() (n int64, ok bool) { ok = d.signed(kindInt64, unsafe.Pointer(&n)); return n, ok })
	case kindMapFloat64:
		return decodeMap(d, (*map[string]float64)(v), func() (float64, bool) { return d.float(64) })
	case kindMapBool:
		return decodeMap(d, (*map[string]bool)(v), func() (bool, bool) {
			if d.literal("true") {
				return true, true
			}
			return false, d.literal("false")
		})
	case kindMap:
		return d.anyMap(p, v)
	}
	return false
}

// number returns the text of a number, and whether it is a whole one.
func (d *decoder) number() (text []byte, whole, ok bool) {
	start := d.pos
	if d.peek() == '-' {
		d.pos++
	}
	digits := func() int {
		n := 0
		for c := d.peek(); c >= '0' && c <= '9'; c = d.peek() {
			d.pos++
			n++
		}
		return n
	}
	first := d.peek()
	if n := digits(); n == 0 || n > 1 && first == '0' {
		return nil, false, false
	}
	whole = true
	if d.peek() == '.' {
		d.pos++
		whole = false
		if digits() == 0 {
			return nil, false, false
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		d.pos++
		whole = false
		if c := d.peek(); c == '+' || c == '-' {
			d.pos++
		}
		if digits() == 0 {
			return nil, false, false
		}
	}
	return d.data[start:d.pos], whole, true
}

// magnitude reads a whole number that fits 64 bits without its sign.
func (d *decoder) magnitude() (n uint64, negative, ok bool) {
	text, whole, ok := d.number()
	if !ok || !whole {
		return 0, false, false
	}
	if text[0] == '-' {
		negative, text = true, text[1:]
	}
	for _, c := range text {
		digit := uint64(c - '0')
		if n > (math.MaxUint64-digit)/10 {
			return 0, false, false
		}
		n = n*10 + digit
	}
	return n, negative, true
}

func (d *decoder) signed(k kind, v unsafe.Pointer) bool {
	m, negative, ok := d.magnitude()
	if !ok || m > 1<<63 || m == 1<<63 && !negative {
		return false
	}
	n := int64(m)
	if negative {
		n = -n
	}
	switch k {
	case kindInt:
		*(*int)(v) = int(n)
		return int64(int(n)) == n
	case kindInt8:
		*(*int8)(v) = int8(n)
		return int64(int8(n)) == n
	case kindInt16:
		*(*int16)(v) = int16(n)
		return int64(int16(n)) == n
	case kindInt32:
		*(*int32)(v) = int32(n)
		return int64(int32(n)) == n
	}
	*(*int64)(v) = n
	return true
}

func (d *decoder) unsigned(k kind, v unsafe.Pointer) bool {
	n, negative, ok := d.magnitude()
	if !ok || negative {
		return false
	}
	switch k {
	case kindUint:
		*(*uint)(v) = uint(n)
		return uint64(uint(n)) == n
	case kindUint8:
		*(*uint8)(v) = uint8(n)
		return uint64(uint8(n)) == n
	case kindUint16:
		*(*uint16)(v) = uint16(n)
		return uint64(uint16(n)) == n
	case kindUint32:
		*(*uint32)(v) = uint32(n)
		return uint64(uint32(n)) == n
	}
	*(*uint64)(v) = n
	return true
}

func (d *decoder) float(bits int) (float64, bool) {
	text, _, ok := d.number()
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(text), bits)
	return f, err == nil
}

// text reads a string, as a copy.
func (d *decoder) text() (string, bool) {
	raw, escaped, ok := d.quoted()
	if !ok {
		return "", false
	}
	if !escaped {
		return string(raw), true
	}
	return unescape(raw)
}

// quoted returns what is between the quotes of a string, which is UTF-8.
func (d *decoder) quoted() (raw []byte, escaped, ok bool) {
	if d.peek() != '"' {
		return nil, false, false
	}
	start := d.pos + 1
	ascii := true
	for i := start; i < len(d.data); i++ {
		switch c := d.data[i]; {
		case c == '"':
			raw = d.data[start:i]
			d.pos = i + 1
			return raw, escaped, ascii || utf8.Valid(raw)
		case c == '\\':
			escaped = true
			i++
			if i < len(d.data) && d.data[i] >= utf8.RuneSelf {
				return nil, false, false
			}
		case c < ' ':
			return nil, false, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false, false
}

func unescape(raw []byte) (string, bool) {
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			b.WriteByte(raw[i])
			continue
		}
		i++ // quoted has seen to it that there is one more
		switch raw[i] {
		case '"', '\\', '/':
			b.WriteByte(raw[i])
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			r, ok := hex4(raw[i+1:])
			if !ok {
				return "", false
			}
			i += 4
			if utf16.IsSurrogate(r) {
				if i+2 >= len(raw) || raw[i+1] != '\\' || raw[i+2] != 'u' {
					return "", false // alone
				}
				low, ok := hex4(raw[i+3:])
				if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
					return "", false
				}
				i += 6
			}
			b.WriteRune(r)
		default:
			return "", false
		}
	}
	return b.String(), true
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// slice reads an array into a slice that has just its size: it counts first.
func (d *decoder) slice(p *Plan, s *slice) bool {
	if d.peek() != '[' {
		return false
	}
	d.pos++
	d.space()
	if d.peek() == ']' {
		d.pos++
		s.data = reflect.MakeSlice(p.typ, 0, 0).UnsafePointer()
		return true
	}
	start, n := d.pos, 0
	for more := true; more; n++ {
		ok := d.skip(0)
		if more, ok = d.afterIf(ok, ']'); !ok {
			return false
		}
	}
	*s = slice{data: reflect.MakeSlice(p.typ, n, n).UnsafePointer(), len: n, cap: n}
	d.pos = start
	for i := range n {
		if !d.value(p.elem, unsafe.Add(s.data, uintptr(i)*p.elem.size)) {
			return false
		}
		if _, ok := d.after(']'); !ok {
			return false
		}
	}
	return true
}

func (d *decoder) afterIf(ok bool, end byte) (more, good bool) {
	if !ok {
		return false, false
	}
	return d.after(end)
}

// key reads the name of a member and the colon after it. Names with escapes or
// beyond ASCII may fold in ways of their own.
func (d *decoder) key() (raw []byte, ok bool) {
	raw, escaped, ok := d.quoted()
	if !ok || escaped {
		return nil, false
	}
	for _, c := range raw {
		if c >= utf8.RuneSelf {
			return nil, false
		}
	}
	return raw, d.colon()
}

func (d *decoder) colon() bool {
	d.space()
	if d.peek() != ':' {
		return false
	}
	d.pos++
	d.space()
	return true
}

func (d *decoder) object(p *Plan, v unsafe.Pointer) bool {
	if d.peek() != '{' {
		return false
	}
	d.pos++
	d.space()
	if d.peek() == '}' {
		d.pos++
		return true
	}
	var met uint64 // fields
	expected := 0  // the field after the last one: objects are usually in order
	for more := true; more; {
		name, ok := d.key()
		if !ok {
			return false
		}
		i := p.field(name, expected)
		if i >= 0 {
			if met&(1<<i) != 0 {
				return false // again: the two are merged
			}
			met |= 1 << i
			expected = i + 1
			f := &p.fields[i]
			ok = d.value(f.plan, unsafe.Add(v, f.offset))
		} else {
			ok = d.skip(0)
		}
		if more, ok = d.afterIf(ok, '}'); !ok {
			return false
		}
	}
	return true
}

// field returns the index of the field of that name, -1 if there is none. Names
// that differ in case alone are the same; no two fields have such.
func (p *Plan) field(name []byte, expected int) int {
	if expected < len(p.fields) && p.fields[expected].name == string(name) {
		return expected
	}
	for i := range p.fields {
		if p.fields[i].name == string(name) {
			return i
		}
	}
	for i := range p.fields {
		if f := p.fields[i].name; len(f) == len(name) && strings.EqualFold(f, string(name)) {
			return i
		}
	}
	return -1
}

func decodeMap[V any](d *decoder, m *map[string]V, value func() (V, bool)) bool {
	*m = map[string]V{}
	return d.members(func(name string) bool {
		var v V
		var ok bool
		if d.peek() == 'n' {
			ok = d.literal("null")
		} else {
			v, ok = value()
		}
		(*m)[name] = v
		return ok
	})
}

// anyMap reads a map that decodeMap has no type for.
func (d *decoder) anyMap(p *Plan, v unsafe.Pointer) bool {
	m := reflect.New(p.typ)
	m.Elem().Set(reflect.MakeMap(p.typ))
	*(*unsafe.Pointer)(v) = *(*unsafe.Pointer)(m.UnsafePointer())
	return d.members(func(name string) bool {
		key, value := reflect.New(p.typ.Key()), reflect.New(p.typ.Elem())
		if !p.key.readKey(name, key.UnsafePointer()) || !d.value(p.elem, value.UnsafePointer()) {
			return false
		}
		m.Elem().SetMapIndex(key.Elem(), value.Elem())
		return true
	})
}

// members reads an object whose names are keys of a map, and has member read each value.
func (d *decoder) members(member func(name string) bool) bool {
	if d.peek() != '{' {
		return false
	}
	d.pos++
	d.space()
	if d.peek() == '}' {
		d.pos++
		return true
	}
	for more := true; more; {
		name, ok := d.text()
		if !ok || !d.colon() {
			return false
		}
		if more, ok = d.afterIf(member(name), '}'); !ok {
			return false
		}
	}
	return true
}

// readKey reads the name of a member as a key of a map.
func (p *Plan) readKey(name string, v unsafe.Pointer) bool {
	if p.kind == kindString {
		*(*string)(v) = name
		return true
	}
	digits := decoder{data: []byte(name)}
	read := digits.signed
	if p.kind >= kindUint {
		read = digits.unsigned
	}
	return read(p.kind, v) && digits.pos == len(name)
}

// skip moves past one value of any kind, which must be well formed.
func (d *decoder) skip(depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch d.peek() {
	case '"':
		raw, escaped, ok := d.quoted()
		if ok && escaped {
			_, ok = unescape(raw)
		}
		return ok
	case 't':
		return d.literal("true")
	case 'f':
		return d.literal("false")
	case 'n':
		return d.literal("null")
	case '[', '{':
		open := d.peek()
		end := open + 2 // the closing bracket, of either kind
		d.pos++
		d.space()
		if d.peek() == end {
			d.pos++
			return true
		}
		for more := true; more; {
			ok := true
			if open == '{' {
				ok = d.skip(depth+1) && d.data[d.pos-1] == '"' && d.colon()
			}
			if more, ok = d.afterIf(ok && d.skip(depth+1), end); !ok {
				return false
			}
		}
		return true
	}
	_, _, ok := d.number()
	return ok
}
