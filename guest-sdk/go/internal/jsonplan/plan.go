package jsonplan

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"
)

// Plan is how values of one type are written and read. It is immutable.
type Plan struct {
	kind kind
	size uintptr      // of a value, for the elements of a slice
	typ  reflect.Type // of a slice, a pointer or a map
	elem *Plan        // of a slice, a pointer or a map
	key  *Plan        // of a map; a string or a whole number
	// partial: the struct has fields that its plan leaves out, which count for omitzero.
	partial bool
	// fields are those of a struct, in the order in which they are written.
	fields []field
}

type kind uint8

const (
	kindBool kind = iota + 1
	kindInt
	kindInt8
	kindInt16
	kindInt32
	kindInt64
	kindUint
	kindUint8
	kindUint16
	kindUint32
	kindUint64
	kindFloat32
	kindFloat64
	kindString
	kindBytes // base64
	kindSlice
	kindPointer
	kindStruct
	kindTime
	kindMapString // map[string]string, and the like
	kindMapInt
	kindMapInt64
	kindMapFloat64
	kindMapBool
	kindMap // any other map
)

type field struct {
	name      string
	key       string // "name": with its quotes
	offset    uintptr
	omitEmpty bool
	omitZero  bool
	plan      *Plan
}

// maxFields is how many fields a struct may have: reading remembers which it met
// in one word.
const maxFields = 64

var (
	mu    sync.Mutex
	plans = map[reflect.Type]*Plan{} // nil: has none
)

// For returns the plan of a type, nil if it is none that has one. Plans are kept,
// those of inner types too.
func For(t reflect.Type) *Plan {
	mu.Lock()
	defer mu.Unlock()
	return planOf(t, nil)
}

// planOf is For under the lock. outer are the types that are being planned: one of
// them inside itself has no plan.
func planOf(t reflect.Type, outer []reflect.Type) *Plan {
	if p, ok := plans[t]; ok {
		return p
	}
	for _, o := range outer {
		if o == t {
			return nil
		}
	}
	p := makePlan(t, append(outer, t))
	plans[t] = p
	return p
}

var (
	timeType  = reflect.TypeFor[time.Time]()
	bytesType = reflect.TypeFor[[]byte]()
	mapTypes  = map[reflect.Type]kind{
		reflect.TypeFor[map[string]string]():  kindMapString,
		reflect.TypeFor[map[string]int]():     kindMapInt,
		reflect.TypeFor[map[string]int64]():   kindMapInt64,
		reflect.TypeFor[map[string]float64](): kindMapFloat64,
		reflect.TypeFor[map[string]bool]():    kindMapBool,
	}
	scalars = map[reflect.Kind]kind{
		reflect.Bool: kindBool, reflect.String: kindString,
		reflect.Int: kindInt, reflect.Int8: kindInt8, reflect.Int16: kindInt16, reflect.Int32: kindInt32, reflect.Int64: kindInt64,
		reflect.Uint: kindUint, reflect.Uint8: kindUint8, reflect.Uint16: kindUint16, reflect.Uint32: kindUint32, reflect.Uint64: kindUint64,
		reflect.Float32: kindFloat32, reflect.Float64: kindFloat64,
	}
	numberType = reflect.TypeFor[json.Number]()
)

func makePlan(t reflect.Type, outer []reflect.Type) *Plan {
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer, reflect.Struct, reflect.Map:
	default:
		if scalars[t.Kind()] == 0 {
			return nil
		}
	}
	switch {
	case t == timeType:
		return &Plan{kind: kindTime, size: t.Size()}
	case t == numberType || custom(t):
		return nil
	case t == bytesType:
		return &Plan{kind: kindBytes, size: t.Size()}
	}
	if k, ok := scalars[t.Kind()]; ok {
		return &Plan{kind: k, size: t.Size()}
	}
	if k, ok := mapTypes[t]; ok {
		return &Plan{kind: k, size: t.Size()}
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil // bytes under another name
		}
		if elem := planOf(t.Elem(), outer); elem != nil {
			return &Plan{kind: kindSlice, size: t.Size(), typ: t, elem: elem}
		}
	case reflect.Pointer:
		if elem := planOf(t.Elem(), outer); elem != nil {
			return &Plan{kind: kindPointer, size: t.Size(), typ: t.Elem(), elem: elem}
		}
	case reflect.Map:
		key, elem := planOf(t.Key(), outer), planOf(t.Elem(), outer)
		if key != nil && elem != nil && (key.kind == kindString || key.kind >= kindInt && key.kind <= kindUint64) {
			return &Plan{kind: kindMap, size: t.Size(), typ: t, key: key, elem: elem}
		}
	case reflect.Struct:
		return structPlan(t, outer)
	}
	return nil
}

// custom reports whether encoding/json would run methods of the type. It asks
// a value, since TinyGo cannot ask a type.
func custom(t reflect.Type) bool {
	v := reflect.New(t).Interface()
	switch v.(type) {
	case json.Marshaler, json.Unmarshaler, encoding.TextMarshaler, encoding.TextUnmarshaler:
		return true
	}
	return false
}

// decidesZero reports whether the type says itself what its zero value is.
func decidesZero(t reflect.Type) bool {
	_, ok := reflect.New(t).Interface().(interface{ IsZero() bool })
	return ok
}

func structPlan(t reflect.Type, outer []reflect.Type) *Plan {
	p := &Plan{kind: kindStruct, size: t.Size()}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		switch {
		case f.Anonymous && tag == "" && f.IsExported():
			// Its fields are ours, unless two have one name.
			inner := planOf(f.Type, outer)
			if inner == nil || inner.kind != kindStruct {
				return nil
			}
			p.partial = p.partial || inner.partial
			for _, promoted := range inner.fields {
				promoted.offset += f.Offset
				if !p.add(promoted) {
					return nil
				}
			}
			continue
		case f.Anonymous:
			return nil
		case !f.IsExported() || tag == "-":
			p.partial = true
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		inner := planOf(f.Type, outer)
		if inner == nil || !plainName(name) {
			return nil
		}
		field := field{name: name, key: `"` + name + `":`, offset: f.Offset, plan: inner}
		for option := range strings.SplitSeq(options, ",") {
			switch {
			case option == "":
			case option == "omitempty":
				field.omitEmpty = true
			case option == "omitzero" && !inner.partial && (inner.kind == kindTime || !decidesZero(f.Type)):
				field.omitZero = true
			default:
				return nil
			}
		}
		if !p.add(field) {
			return nil
		}
	}
	return p
}

// add appends a field, unless there are too many, or one of its name is there
// already: which of them is meant has rules of its own.
func (p *Plan) add(f field) bool {
	for i := range p.fields {
		if strings.EqualFold(p.fields[i].name, f.name) {
			return false
		}
	}
	if len(p.fields) == maxFields {
		return false
	}
	p.fields = append(p.fields, f)
	return true
}

// plainName reports whether a name is written as it is and folds like ASCII.
func plainName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return name != ""
}
