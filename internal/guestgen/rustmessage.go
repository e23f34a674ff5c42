package guestgen

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// message writes a message, in the module whose path is in.
func (r *rust) message(m protoreflect.MessageDescriptor, in []string) {
	name := rustType(string(m.Name()))
	r.doc(m, "The message "+string(m.FullName())+".")
	r.line("#[derive(Clone, PartialEq, ::prost::Message)]")
	if m.Fields().Len() == 0 {
		r.line("pub struct %s {}", name)
		return
	}
	r.line("pub struct %s {", name)
	r.indent++
	fields := make(map[string]protoreflect.FullName)
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		var d protoreflect.Descriptor = f
		o := f.ContainingOneof()
		if o != nil && o.IsSynthetic() {
			o = nil
		}
		if o != nil {
			if o.Fields().Get(0) != f {
				continue
			}
			d = o
		}
		field := rustSnake(string(d.Name()))
		if other, ok := fields[field]; ok {
			r.fail("%s and %s are both the field %s in Rust; rename one", other, d.FullName(), field)
		}
		fields[field] = d.FullName()
		r.doc(d, "")
		if o != nil {
			path := r.path(o, in)
			r.attribute(fmt.Sprintf("oneof = %q", path), "tags = \""+strings.Join(tags(o), ", ")+"\"")
			r.declare(field, "::core::option::Option<"+path+">")
			continue
		}
		typ, attributes := r.field(f, in)
		r.attribute(append(attributes, fmt.Sprintf("tag = \"%d\"", f.Number()))...)
		r.declare(field, typ)
	}
	r.indent--
	r.line("}")
}

// declare writes a field of a struct.
func (r *rust) declare(field, typ string) {
	if line := "pub " + field + ": " + typ + ","; 4*r.indent+len(line) <= lineWidth {
		r.line("%s", line)
		return
	}
	r.line("pub %s:", field)
	r.line("    %s,", typ)
}

// attribute writes #[prost(…)].
func (r *rust) attribute(args ...string) {
	if list := strings.Join(args, ", "); len(list) > attributeWidth {
		r.line("#[prost(")
		for i, a := range args {
			if i+1 < len(args) {
				a += ","
			}
			r.line("    %s", a)
		}
		r.line(")]")
	} else {
		r.line("#[prost(%s)]", list)
	}
}

func tags(o protoreflect.OneofDescriptor) []string {
	var tags []string
	for i := range o.Fields().Len() {
		tags = append(tags, fmt.Sprint(o.Fields().Get(i).Number()))
	}
	return tags
}

// oneof writes the values of a oneof.
func (r *rust) oneof(o protoreflect.OneofDescriptor, in []string) {
	r.doc(o, "One of the fields of "+string(o.FullName())+".")
	r.line("#[derive(Clone, PartialEq, ::prost::Oneof)]")
	r.line("pub enum %s {", rustType(string(o.Name())))
	r.indent++
	variants := make(map[string]protoreflect.FullName)
	for i := range o.Fields().Len() {
		f := o.Fields().Get(i)
		variant := rustType(string(f.Name()))
		if other, ok := variants[variant]; ok {
			r.fail("%s and %s are both the variant %s in Rust; rename one", other, f.FullName(), variant)
		}
		variants[variant] = f.FullName()
		typ, kind := r.value(f, in)
		if recursive(f) {
			typ = "::prost::alloc::boxed::Box<" + typ + ">"
		}
		r.doc(f, "")
		r.attribute(kind, fmt.Sprintf("tag = \"%d\"", f.Number()))
		r.line("%s(%s),", variant, typ)
	}
	r.indent--
	r.line("}")
}

// enum writes an enumeration. Fields have its numbers, so that unknown ones are kept.
func (r *rust) enum(e protoreflect.EnumDescriptor) {
	name := rustType(string(e.Name()))
	r.doc(e, "The enumeration "+string(e.FullName())+".")
	const derived = "Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration"
	if r.indent < 2 {
		r.line("#[derive(%s)]", derived)
	} else { // as rustfmt does
		r.line("#[derive(")
		r.line("    %s,", derived)
		r.line(")]")
	}
	r.line("#[repr(i32)]")
	r.line("pub enum %s {", name)
	r.indent++
	variants := make(map[string]protoreflect.FullName)
	numbers := make(map[protoreflect.EnumNumber]bool)
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		if numbers[v.Number()] {
			continue // another name of a value, which Rust's enumerations do not have
		}
		numbers[v.Number()] = true
		variant := rustVariant(name, string(v.Name()))
		if other, ok := variants[variant]; ok {
			r.fail("%s and %s are both the variant %s in Rust; rename one", other, v.FullName(), variant)
		}
		variants[variant] = v.FullName()
		r.doc(v, "")
		r.line("%s = %d,", variant, v.Number())
	}
	r.indent--
	r.line("}")
}

// rustVariant returns the name of an enumeration's value: Red of COLOUR_RED of Colour.
func rustVariant(enum, value string) string {
	name := rustType(value)
	if rest, ok := strings.CutPrefix(name, enum); ok && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' {
		return rustIdent(rest)
	}
	return name
}

// field returns the type of a field that is in no oneof, and what prost has to know of it.
func (r *rust) field(f protoreflect.FieldDescriptor, in []string) (typ string, attributes []string) {
	if f.IsMap() {
		key, kind := r.value(f.MapKey(), in)
		value, valueKind := r.value(f.MapValue(), in)
		switch {
		case f.MapValue().Enum() != nil:
			valueKind = "enumeration(" + r.path(f.MapValue().Enum(), in) + ")"
		case f.MapValue().Kind() == protoreflect.BytesKind:
			valueKind = "bytes"
		}
		return "::prost::alloc::collections::BTreeMap<" + key + ", " + value + ">", []string{`btree_map = "` + kind + ", " + valueKind + `"`}
	}
	typ, kind := r.value(f, in)
	attributes = []string{kind}
	switch {
	case f.IsList():
		attributes = append(attributes, "repeated")
		if packable := f.Message() == nil && f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind; packable && !f.IsPacked() {
			attributes = append(attributes, `packed = "false"`)
		}
		return "::prost::alloc::vec::Vec<" + typ + ">", attributes
	case f.Cardinality() == protoreflect.Required:
		attributes = append(attributes, "required")
	case f.HasPresence():
		attributes = append(attributes, "optional")
	}
	if recursive(f) {
		attributes = append(attributes, "boxed")
		typ = "::prost::alloc::boxed::Box<" + typ + ">"
	}
	if slices.Contains(attributes, "optional") {
		typ = "::core::option::Option<" + typ + ">"
	}
	return typ, attributes
}

// value returns the type of one value of a field, and prost's name for it.
func (r *rust) value(f protoreflect.FieldDescriptor, in []string) (typ, kind string) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return r.path(f.Message(), in), "message"
	case protoreflect.EnumKind:
		return "i32", fmt.Sprintf("enumeration = %q", r.path(f.Enum(), in))
	case protoreflect.StringKind:
		return "::prost::alloc::string::String", "string"
	case protoreflect.BytesKind:
		return "::prost::alloc::vec::Vec<u8>", `bytes = "vec"`
	case protoreflect.BoolKind:
		return "bool", "bool"
	case protoreflect.FloatKind:
		return "f32", "float"
	case protoreflect.DoubleKind:
		return "f64", "double"
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return "u32", f.Kind().String()
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return "u64", f.Kind().String()
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return "i32", f.Kind().String()
	default:
		return "i64", f.Kind().String()
	}
}

// recursive reports whether a value of a field can have a value of the field's message in it, and
// no list or map is between them: a struct of Rust cannot contain itself.
func recursive(f protoreflect.FieldDescriptor) bool {
	if f.Message() == nil {
		return false
	}
	seen := make(map[protoreflect.FullName]bool)
	var reaches func(m protoreflect.MessageDescriptor) bool
	reaches = func(m protoreflect.MessageDescriptor) bool {
		if m.FullName() == f.ContainingMessage().FullName() {
			return true
		}
		if seen[m.FullName()] {
			return false
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			if f := m.Fields().Get(i); f.Message() != nil && f.Cardinality() != protoreflect.Repeated && reaches(f.Message()) {
				return true
			}
		}
		return false
	}
	return reaches(f.Message())
}
