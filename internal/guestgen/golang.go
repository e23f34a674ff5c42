package guestgen

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// golang writes the declarations of a Go package.
type golang struct {
	source
	names    map[protoreflect.FullName]string
	taken    map[string]protoreflect.FullName
	messages []protoreflect.MessageDescriptor
	enums    []protoreflect.EnumDescriptor
	math     bool // it is imported
}

// collect names a message and all that is in it.
func (g *golang) collect(m protoreflect.MessageDescriptor) {
	if !g.name(m) {
		return
	}
	g.messages = append(g.messages, m)
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if err := unsupported(f); err != nil {
			g.fail("%w", err)
			continue
		}
		switch {
		case f.IsMap() && f.MapKey().Kind() == protoreflect.BoolKind:
			g.fail("the field %s is a map with bool keys; use a message with two fields", f.FullName())
		case f.Message() != nil:
			g.collect(f.Message())
		case f.Enum() != nil && g.name(f.Enum()):
			g.enums = append(g.enums, f.Enum())
		}
	}
}

// name gives a type its name in Go, and reports whether it had none.
func (g *golang) name(d protoreflect.Descriptor) bool {
	if _, ok := g.names[d.FullName()]; ok {
		return false
	}
	path := strings.TrimPrefix(string(d.FullName()), string(d.ParentFile().Package())+".")
	name := goName(strings.ReplaceAll(path, ".", "_"))
	if other, ok := g.taken[name]; ok {
		g.fail("%s and %s are both called %s in Go; rename one", other, d.FullName(), name)
	}
	g.names[d.FullName()], g.taken[name] = name, d.FullName()
	return true
}

func (g *golang) comment(d protoreflect.Descriptor, otherwise string) {
	text := comment(d)
	if text == "" {
		text = otherwise
	}
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		g.line("//%s", strings.TrimRight(" "+strings.TrimPrefix(line, " "), " "))
	}
}

func (g *golang) service(s *Service, name string) {
	which := ""
	if len(s.streams()) > 0 {
		which = " that returns one message"
	}
	g.line("// %sActor has a method for each rpc of %s%s. The pointer to an actor's state is one.", name, s.Name(), which)
	g.line("type %sActor interface {", name)
	for _, m := range s.methods() {
		g.comment(m, "")
		g.line("%s(ctx *actor.Context, in %s) (%s, error)", goName(string(m.Name())), g.names[m.Input().FullName()], g.names[m.Output().FullName()])
	}
	g.line("}\n")

	g.line("// Register%s declares an actor type with a state, whose methods are the rpcs of", name)
	g.line("// %s, and with further methods and settings. Call it from an init function.", s.Name())
	// In lower case: no message is called so.
	g.line("func Register%s[state any, pointer interface{*state; %sActor}](name string, parts ...actor.Part) {", name, name)
	g.line("actor.Register(name, append([]actor.Part{")
	g.line("actor.Protobuf(%q, descriptor, %q),", s.Name(), s.idField)
	for _, m := range s.methods() {
		kind, options := "Method", ""
		switch idempotency(m) {
		case descriptorpb.MethodOptions_NO_SIDE_EFFECTS:
			kind = "ReadOnly"
		case descriptorpb.MethodOptions_IDEMPOTENT:
			options = ", actor.Idempotent()"
		}
		g.line("actor.%s(%q, func(s *state, ctx *actor.Context, in %s) (%s, error) { return pointer(s).%s(ctx, in) }%s),", kind, m.Name(),
			g.names[m.Input().FullName()], g.names[m.Output().FullName()], goName(string(m.Name())), options)
	}
	g.line("}, parts...)...)")
	g.line("}\n")

	g.line("// %sRef calls the methods of another actor that serves %s.", name, s.Name())
	g.line("type %sRef struct{ actor.Ref }\n", name)
	for _, m := range s.methods() {
		out := g.names[m.Output().FullName()]
		g.line("// %s is [actor.Call] of the method.", goName(string(m.Name())))
		g.line("func (r %sRef) %s(ctx *actor.Context, in %s, options ...actor.CallOption) (%s, error) {", name, goName(string(m.Name())), g.names[m.Input().FullName()], out)
		g.line("return actor.Call[%s](ctx, r.Ref, %q, in, options...)", out, m.Name())
		g.line("}\n")
	}

	g.line("// descriptor is a FileDescriptorSet of the service.")
	g.line("const descriptor = \"\" +")
	const chunk = 48
	for rest := s.descriptor; len(rest) > 0; {
		n := min(chunk, len(rest))
		end := " +"
		if n == len(rest) {
			end = ""
		}
		g.line("%s%s", strconv.QuoteToASCII(string(rest[:n])), end)
		rest = rest[n:]
	}
	g.line("")
}

func (g *golang) enum(e protoreflect.EnumDescriptor) {
	name := g.names[e.FullName()]
	g.comment(e, name+" is the enumeration "+string(e.FullName())+".")
	g.line("type %s int32\n", name)
	// The values of an enumeration stand beside it, not in it.
	prefix := name
	if at := strings.LastIndex(name, "_"); at >= 0 {
		prefix = name[:at]
	}
	g.line("// The values of %s.", name)
	g.line("const (")
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		g.comment(v, "")
		constant := prefix + "_" + string(v.Name())
		if other, ok := g.taken[constant]; ok {
			g.fail("%s and %s are both called %s in Go; rename one", other, v.FullName(), constant)
		}
		g.taken[constant] = v.FullName()
		g.line("%s %s = %d", constant, name, v.Number())
	}
	g.line(")\n")
}

// goName is a name of Protobuf in Go: in capitals where an underscore was, and at its beginning.
func goName(name string) string {
	var b strings.Builder
	upper := true
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_' && i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z':
			upper = true
			continue
		case c == '_' && i == 0:
			b.WriteByte('X')
			continue
		case upper && c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		}
		upper = false
		b.WriteByte(c)
	}
	return b.String()
}
