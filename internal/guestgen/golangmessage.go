package guestgen

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// message writes a message with its codec.
func (g *golang) message(m protoreflect.MessageDescriptor) {
	name := g.names[m.FullName()]
	otherwise := name + " is the message " + string(m.FullName()) + "."
	if m.IsMapEntry() {
		otherwise = name + " is an entry of a map."
	}
	g.comment(m, otherwise)
	g.line("type %s struct {", name)
	fields := map[string]bool{"AppendProtobuf": true, "DecodeProtobuf": true}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if fields[goName(string(f.Name()))] {
			g.fail("the field %s has the Go name of another one, %s; rename it", f.FullName(), goName(string(f.Name())))
		}
		fields[goName(string(f.Name()))] = true
		g.comment(f, "")
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
			g.line("// One of %s: at most one of these is not nil.", o.Name())
		}
		g.line("%s %s `json:\"%s,omitempty\"`", goName(string(f.Name())), g.fieldType(f), f.Name())
	}
	g.line("}\n")

	g.line("// AppendProtobuf implements [protobuf.Message].")
	g.line("func (m %s) AppendProtobuf(b []byte) []byte {", name)
	for i := range m.Fields().Len() {
		g.encode(m.Fields().Get(i))
	}
	g.line("return b")
	g.line("}\n")

	g.line("// DecodeProtobuf implements [protobuf.Decoder].")
	g.line("func (m *%s) DecodeProtobuf(r *protobuf.Reader) {", name)
	g.line("for r.Next() {")
	if m.Fields().Len() == 0 {
		g.line("r.Skip()")
	} else {
		g.line("switch r.Tag() {")
		for i := range m.Fields().Len() {
			g.decode(m.Fields().Get(i))
		}
		g.line("default:")
		g.line("r.Skip()")
		g.line("}")
	}
	g.line("}")
	g.line("}\n")
}

// fieldType is the Go type of a field.
func (g *golang) fieldType(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "map[" + g.valueType(f.MapKey()) + "]" + g.valueType(f.MapValue())
	case f.IsList():
		return "[]" + g.valueType(f)
	case f.Message() != nil, presence(f) && f.Kind() != protoreflect.BytesKind:
		return "*" + g.valueType(f)
	}
	return g.valueType(f)
}

// presence reports whether a struct knows that a field is not set. Keys and values of maps are always
// set, but proto2 says that they have presence.
func presence(f protoreflect.FieldDescriptor) bool {
	return f.HasPresence() && (f.Message() != nil || !f.ContainingMessage().IsMapEntry())
}

// scalar is how values of a kind are written.
type scalar struct {
	typ, wire      string
	append, decode string // with %s for the value, or for the type
	zero           string // a condition that a value, %s, is to be written
}

var scalars = map[protoreflect.Kind]scalar{
	protoreflect.BoolKind:     {"bool", "Varint", "protobuf.AppendBool(b, %s)", "r.Bool()", "%s"},
	protoreflect.Int32Kind:    {"int32", "Varint", "protobuf.AppendVarint(b, uint64(%s))", "int32(r.Varint())", "%s != 0"},
	protoreflect.Int64Kind:    {"int64", "Varint", "protobuf.AppendVarint(b, uint64(%s))", "int64(r.Varint())", "%s != 0"},
	protoreflect.Uint32Kind:   {"uint32", "Varint", "protobuf.AppendVarint(b, uint64(%s))", "uint32(r.Varint())", "%s != 0"},
	protoreflect.Uint64Kind:   {"uint64", "Varint", "protobuf.AppendVarint(b, %s)", "r.Varint()", "%s != 0"},
	protoreflect.Sint32Kind:   {"int32", "Varint", "protobuf.AppendZigzag(b, int64(%s))", "int32(r.Zigzag())", "%s != 0"},
	protoreflect.Sint64Kind:   {"int64", "Varint", "protobuf.AppendZigzag(b, %s)", "r.Zigzag()", "%s != 0"},
	protoreflect.Fixed32Kind:  {"uint32", "Fixed32", "protobuf.AppendFixed32(b, %s)", "r.Fixed32()", "%s != 0"},
	protoreflect.Sfixed32Kind: {"int32", "Fixed32", "protobuf.AppendFixed32(b, uint32(%s))", "int32(r.Fixed32())", "%s != 0"},
	protoreflect.Fixed64Kind:  {"uint64", "Fixed64", "protobuf.AppendFixed64(b, %s)", "r.Fixed64()", "%s != 0"},
	protoreflect.Sfixed64Kind: {"int64", "Fixed64", "protobuf.AppendFixed64(b, uint64(%s))", "int64(r.Fixed64())", "%s != 0"},
	protoreflect.FloatKind:    {"float32", "Fixed32", "protobuf.AppendFloat(b, %s)", "r.Float()", "math.Float32bits(%s) != 0"},
	protoreflect.DoubleKind:   {"float64", "Fixed64", "protobuf.AppendDouble(b, %s)", "r.Double()", "math.Float64bits(%s) != 0"},
	protoreflect.StringKind:   {"string", "Bytes", "protobuf.AppendString(b, %s)", "r.String()", `%s != ""`},
	protoreflect.BytesKind:    {"[]byte", "Bytes", "protobuf.AppendBytes(b, %s)", "r.Bytes()", "len(%s) > 0"},
	protoreflect.EnumKind:     {"", "Varint", "protobuf.AppendVarint(b, uint64(%s))", "", "%s != 0"},
	protoreflect.MessageKind:  {"", "Bytes", "protobuf.AppendMessage(b, %s)", "", ""},
}

// valueType is the Go type of one value of a field.
func (g *golang) valueType(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return g.names[f.Message().FullName()]
	case f.Enum() != nil:
		return g.names[f.Enum().FullName()]
	}
	return scalars[f.Kind()].typ
}

// read is an expression that reads one value of a field, which is no message.
func (g *golang) read(f protoreflect.FieldDescriptor) string {
	if f.Enum() != nil {
		return g.names[f.Enum().FullName()] + "(r.Varint())"
	}
	return scalars[f.Kind()].decode
}

func (g *golang) encode(f protoreflect.FieldDescriptor) {
	at := "m." + goName(string(f.Name()))
	s := scalars[f.Kind()]
	value := func(v string) string { return fmt.Sprintf(s.append, v) }
	tag := func(wire string) { g.line("b = protobuf.AppendTag(b, %d, protobuf.%s)", f.Number(), wire) }
	switch {
	case f.IsMap():
		entry := g.names[f.Message().FullName()]
		g.line("for _, k := range protobuf.SortedKeys(%s) {", at)
		v := at + "[k]"
		if f.MapValue().Message() != nil {
			g.line("v := %s", v)
			v = "&v"
		}
		tag("Bytes")
		g.line("b = protobuf.AppendMessage(b, %s{Key: k, Value: %s})", entry, v)
		g.line("}")
	case f.IsPacked():
		g.line("if len(%s) > 0 {", at)
		tag("Bytes")
		g.line("b = protobuf.AppendPacked(b, func(b []byte) []byte {")
		g.line("for _, v := range %s {", at)
		g.line("b = %s", value("v"))
		g.line("}")
		g.line("return b")
		g.line("})")
		g.line("}")
	case f.IsList():
		g.line("for i := range %s {", at)
		tag(s.wire)
		g.line("b = %s", value(at+"[i]"))
		g.line("}")
	case presence(f):
		g.line("if %s != nil {", at)
		tag(s.wire)
		v := at
		if f.Message() == nil && f.Kind() != protoreflect.BytesKind {
			v = "*" + at
		}
		g.line("b = %s", value(v))
		g.line("}")
	default:
		g.math = g.math || strings.HasPrefix(s.zero, "math.")
		g.line("if %s {", fmt.Sprintf(s.zero, at))
		tag(s.wire)
		g.line("b = %s", value(at))
		g.line("}")
	}
}

func (g *golang) decode(f protoreflect.FieldDescriptor) {
	at := "m." + goName(string(f.Name()))
	wire := scalars[f.Kind()].wire
	g.line("case %d<<3 | protobuf.%s:", f.Number(), wire)
	if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
		for i := range o.Fields().Len() {
			if other := o.Fields().Get(i); other != f {
				g.line("m.%s = nil", goName(string(other.Name())))
			}
		}
	}
	switch {
	case f.IsMap():
		g.line("var e %s", g.names[f.Message().FullName()])
		g.line("r.Message(&e)")
		g.line("if %s == nil {", at)
		g.line("%s = %s{}", at, g.fieldType(f))
		g.line("}")
		value := "e.Value"
		if f.MapValue().Message() != nil {
			g.line("if e.Value == nil {")
			g.line("e.Value = new(%s)", g.valueType(f.MapValue()))
			g.line("}")
			value = "*e.Value"
		}
		g.line("%s[e.Key] = %s", at, value)
	case f.IsList() && f.Message() != nil:
		g.line("%s = append(%s, %s{})", at, at, g.valueType(f))
		g.line("r.Message(&%s[len(%s)-1])", at, at)
	case f.IsList():
		g.line("%s = append(%s, %s)", at, at, g.read(f))
		if wire != "Bytes" {
			g.line("case %d<<3 | protobuf.Bytes:", f.Number())
			g.line("for end := r.Packed(); r.Before(end); {")
			g.line("%s = append(%s, %s)", at, at, g.read(f))
			g.line("}")
		}
	case f.Message() != nil:
		g.line("if %s == nil {", at)
		g.line("%s = new(%s)", at, g.valueType(f))
		g.line("}")
		g.line("r.Message(%s)", at)
	case presence(f) && f.Kind() != protoreflect.BytesKind:
		g.line("v := %s", g.read(f))
		g.line("%s = &v", at)
	default:
		g.line("%s = %s", at, g.read(f))
	}
}
