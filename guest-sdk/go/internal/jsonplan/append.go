package jsonplan

import (
	"encoding/base64"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"
)

// Append appends the JSON of the value at v, which is of the plan's type. It is
// not ok, and nothing is said of dst's spare capacity, if the value has no JSON
// form: encoding/json knows why.
func (p *Plan) Append(dst []byte, v unsafe.Pointer) (data []byte, ok bool) {
	switch p.kind {
	case kindBool:
		return strconv.AppendBool(dst, *(*bool)(v)), true
	case kindInt:
		return strconv.AppendInt(dst, int64(*(*int)(v)), 10), true
	case kindInt8:
		return strconv.AppendInt(dst, int64(*(*int8)(v)), 10), true
	case kindInt16:
		return strconv.AppendInt(dst, int64(*(*int16)(v)), 10), true
	case kindInt32:
		return strconv.AppendInt(dst, int64(*(*int32)(v)), 10), true
	case kindInt64:
		return strconv.AppendInt(dst, *(*int64)(v), 10), true
	case kindUint:
		return strconv.AppendUint(dst, uint64(*(*uint)(v)), 10), true
	case kindUint8:
		return strconv.AppendUint(dst, uint64(*(*uint8)(v)), 10), true
	case kindUint16:
		return strconv.AppendUint(dst, uint64(*(*uint16)(v)), 10), true
	case kindUint32:
		return strconv.AppendUint(dst, uint64(*(*uint32)(v)), 10), true
	case kindUint64:
		return strconv.AppendUint(dst, *(*uint64)(v), 10), true
	case kindFloat32:
		return appendFloat(dst, float64(*(*float32)(v)), 32)
	case kindFloat64:
		return appendFloat(dst, *(*float64)(v), 64)
	case kindString:
		return appendString(dst, *(*string)(v)), true
	case kindBytes:
		b := *(*[]byte)(v)
		if b == nil {
			return append(dst, "null"...), true
		}
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"'), true
	case kindSlice:
		return p.appendSlice(dst, (*slice)(v))
	case kindPointer:
		at := *(*unsafe.Pointer)(v)
		if at == nil {
			return append(dst, "null"...), true
		}
		return p.elem.Append(dst, at)
	case kindStruct:
		return p.appendStruct(dst, v)
	case kindTime:
		text, err := (*time.Time)(v).MarshalJSON()
		return append(dst, text...), err == nil
	case kindMapString:
		return appendMap(dst, *(*map[string]string)(v), appendString), true
	case kindMapInt:
		return appendMap(dst, *(*map[string]int)(v), func(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }), true
	case kindMapInt64:
		return appendMap(dst, *(*map[string]int64)(v), func(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }), true
	case kindMapFloat64:
		ok := true
		dst := appendMap(dst, *(*map[string]float64)(v), func(dst []byte, f float64) []byte {
			dst, finite := appendFloat(dst, f, 64)
			ok = ok && finite
			return dst
		})
		return dst, ok
	case kindMapBool:
		return appendMap(dst, *(*map[string]bool)(v), strconv.AppendBool), true
	case kindMap:
		return p.appendAnyMap(dst, v)
	}
	return dst, false
}

// slice is a slice of any type.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}

func (p *Plan) appendSlice(dst []byte, s *slice) ([]byte, bool) {
	if s.data == nil {
		return append(dst, "null"...), true
	}
	dst = append(dst, '[')
	for i := range s.len {
		if i > 0 {
			dst = append(dst, ',')
		}
		var ok bool
		if dst, ok = p.elem.Append(dst, unsafe.Add(s.data, uintptr(i)*p.elem.size)); !ok {
			return dst, false
		}
	}
	return append(dst, ']'), true
}

func (p *Plan) appendStruct(dst []byte, v unsafe.Pointer) ([]byte, bool) {
	next := byte('{')
	for i := range p.fields {
		f := &p.fields[i]
		at := unsafe.Add(v, f.offset)
		if f.omitEmpty && f.plan.empty(at) || f.omitZero && f.plan.zero(at) {
			continue
		}
		dst = append(append(dst, next), f.key...)
		next = ','
		var ok bool
		if dst, ok = f.plan.Append(dst, at); !ok {
			return dst, false
		}
	}
	if next == '{' {
		dst = append(dst, '{')
	}
	return append(dst, '}'), true
}

// empty is what omitempty leaves out.
func (p *Plan) empty(v unsafe.Pointer) bool {
	switch p.kind {
	case kindBool, kindInt8, kindUint8:
		return *(*uint8)(v) == 0
	case kindInt16, kindUint16:
		return *(*uint16)(v) == 0
	case kindInt32, kindUint32:
		return *(*uint32)(v) == 0
	case kindInt64, kindUint64:
		return *(*uint64)(v) == 0
	case kindInt, kindUint:
		return *(*uint)(v) == 0
	case kindFloat32:
		return *(*float32)(v) == 0 // -0 too
	case kindFloat64:
		return *(*float64)(v) == 0
	case kindString:
		return *(*string)(v) == ""
	case kindBytes, kindSlice:
		return (*slice)(v).len == 0
	case kindPointer:
		return *(*unsafe.Pointer)(v) == nil
	case kindMapString:
		return len(*(*map[string]string)(v)) == 0
	case kindMapInt:
		return len(*(*map[string]int)(v)) == 0
	case kindMapInt64:
		return len(*(*map[string]int64)(v)) == 0
	case kindMapFloat64:
		return len(*(*map[string]float64)(v)) == 0
	case kindMapBool:
		return len(*(*map[string]bool)(v)) == 0
	case kindMap:
		return p.mapAt(v).Len() == 0
	}
	return false
}

// zero reports whether a field with omitzero is left out: a value that is the zero value of
// its type.
func (p *Plan) zero(v unsafe.Pointer) bool {
	switch p.kind {
	case kindBytes, kindSlice, kindMapString, kindMapInt, kindMapInt64, kindMapFloat64, kindMapBool, kindMap:
		return *(*unsafe.Pointer)(v) == nil // a slice begins with its pointer, and a map is one
	case kindTime:
		return (*time.Time)(v).IsZero()
	case kindStruct:
		for i := range p.fields {
			if f := &p.fields[i]; !f.plan.zeroField(unsafe.Add(v, f.offset)) {
				return false
			}
		}
		return true
	}
	return p.empty(v)
}

// zeroField is zero without what a type says itself, which counts for the field with
// omitzero alone and not for those inside of it.
func (p *Plan) zeroField(v unsafe.Pointer) bool {
	if p.kind == kindTime {
		return *(*time.Time)(v) == time.Time{} //nolint:staticcheck // as reflect compares them: with the zone
	}
	return p.zero(v)
}

// mapAt returns the map at v. (TinyGo has no reflect.NewAt; a map is one pointer.)
func (p *Plan) mapAt(v unsafe.Pointer) reflect.Value {
	m := reflect.New(p.typ)
	*(*unsafe.Pointer)(m.UnsafePointer()) = *(*unsafe.Pointer)(v)
	return m.Elem()
}

func (p *Plan) appendAnyMap(dst []byte, v unsafe.Pointer) (data []byte, ok bool) {
	m := p.mapAt(v)
	if m.IsNil() {
		return append(dst, "null"...), true
	}
	type entry struct {
		key   string
		value reflect.Value // of a pointer
	}
	entries := make([]entry, 0, m.Len())
	key := reflect.New(p.typ.Key())
	for it := m.MapRange(); it.Next(); {
		key.Elem().Set(it.Key())
		value := reflect.New(p.typ.Elem())
		value.Elem().Set(it.Value())
		entries = append(entries, entry{p.key.mapKey(key.UnsafePointer()), value})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for i, e := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, ok = p.elem.Append(append(appendString(dst, e.key), ':'), e.value.UnsafePointer()); !ok {
			return dst, false
		}
	}
	return append(dst, '}'), true
}

// mapKey returns a key of a map as the name of a member.
func (p *Plan) mapKey(v unsafe.Pointer) string {
	if p.kind == kindString {
		return *(*string)(v)
	}
	digits, _ := p.Append(nil, v)
	return string(digits)
}

func appendMap[V any](dst []byte, m map[string]V, value func([]byte, V) []byte) []byte {
	if m == nil {
		return append(dst, "null"...)
	}
	next := byte('{')
	for _, key := range slices.Sorted(maps.Keys(m)) {
		dst = append(dst, next)
		dst = value(append(appendString(dst, key), ':'), m[key])
		next = ','
	}
	if next == '{' {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

// appendFloat writes a float as ECMAScript does, which is what encoding/json took.
func appendFloat(dst []byte, f float64, bits int) ([]byte, bool) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return dst, false
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 {
		small, large := abs < 1e-6, abs >= 1e21
		if bits == 32 {
			small, large = float32(abs) < 1e-6, float32(abs) >= 1e21
		}
		if small || large {
			format = 'e'
		}
	}
	dst = strconv.AppendFloat(dst, f, format, -1, bits)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && (dst[n-3] == '-' || dst[n-3] == '+') && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 is e-9
		dst = dst[:n-1]
	}
	return dst, true
}

const hexDigits = "0123456789abcdef"

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\b':
				dst = append(dst, `\b`...)
			case '\f':
				dst = append(dst, `\f`...)
			case '\n':
				dst = append(dst, `\n`...)
			case '\r':
				dst = append(dst, `\r`...)
			case '\t':
				dst = append(dst, `\t`...)
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			i++
			start = i
			continue
		case r == '\u2028' || r == '\u2029': // ends of lines in JavaScript
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&15])
			i += size
			start = i
			continue
		}
		i += size
	}
	return append(append(dst, s[start:]...), '"')
}
