package guestgen

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// rust writes the declarations of a Rust module.
type rust struct {
	source
	pkg      protoreflect.FullName // whose types stand at the module's root
	root     rustModule
	seen     map[protoreflect.FullName]bool
	messages []protoreflect.MessageDescriptor
	taken    map[string]protoreflect.FullName // paths of types
}

// rustModule has the types of one package, or of one message.
type rustModule struct {
	name    string
	doc     string
	types   []protoreflect.Descriptor // messages, enumerations and oneofs
	modules []*rustModule
}

// collect gives a message, and all that is in it, a place in a module.
func (r *rust) collect(m protoreflect.MessageDescriptor) {
	if r.seen[m.FullName()] {
		return
	}
	r.seen[m.FullName()] = true
	r.messages = append(r.messages, m)
	r.place(m)
	for i := range m.Oneofs().Len() {
		if o := m.Oneofs().Get(i); !o.IsSynthetic() {
			r.place(o)
		}
	}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if err := unsupported(f); err != nil {
			r.fail("%w", err)
			continue
		}
		if f.IsMap() {
			f = f.MapValue()
		}
		switch e := f.Enum(); {
		case f.Message() != nil:
			r.collect(f.Message())
		case e != nil && !r.seen[e.FullName()]:
			r.seen[e.FullName()] = true
			r.place(e)
		}
	}
}

// place puts a type into its module, whose path no other type may have.
func (r *rust) place(d protoreflect.Descriptor) {
	path := r.path(d, nil)
	if other, ok := r.taken[path]; ok {
		r.fail("%s and %s are both %s in Rust; rename one", other, d.FullName(), path)
	}
	r.taken[path] = d.FullName()
	at := &r.root
	for _, name := range r.modulesOf(d) {
		at = at.child(name)
	}
	if parent, ok := d.Parent().(protoreflect.MessageDescriptor); ok {
		at.doc = "What the message " + string(parent.FullName()) + " declares."
	}
	at.types = append(at.types, d)
}

func (m *rustModule) child(name string) *rustModule {
	for _, c := range m.modules {
		if c.name == name {
			return c
		}
	}
	c := &rustModule{name: name}
	m.modules = append(m.modules, c)
	return c
}

// modulesOf returns the names of the modules, from the root, in which a type stands.
func (r *rust) modulesOf(d protoreflect.Descriptor) []string {
	var path []string
	for p := d.Parent(); p != nil; p = p.Parent() {
		switch p := p.(type) {
		case protoreflect.MessageDescriptor:
			path = append([]string{rustSnake(string(p.Name()))}, path...)
		case protoreflect.FileDescriptor:
			if p.Package() == r.pkg || p.Package() == "" {
				return path
			}
			var names []string
			for part := range strings.SplitSeq(string(p.Package()), ".") {
				names = append(names, rustSnake(part))
			}
			return append(names, path...)
		}
	}
	return path
}

// path returns the path of a type as it is written in a module.
func (r *rust) path(d protoreflect.Descriptor, in []string) string {
	to := r.modulesOf(d)
	same := 0
	for same < len(to) && same < len(in) && to[same] == in[same] {
		same++
	}
	return strings.Repeat("super::", len(in)-same) + strings.Join(append(to[same:len(to):len(to)], rustType(string(d.Name()))), "::")
}

// doc writes the comment of a declaration. Nothing in it becomes an example that is compiled.
func (r *rust) doc(d protoreflect.Descriptor, otherwise string) {
	text := comment(d)
	if text == "" {
		text = otherwise
	}
	if text == "" {
		return
	}
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			if fenced = !fenced; fenced {
				line = "```text"
			}
		}
		r.line("%s", strings.TrimRight("/// "+line, " "))
	}
	if fenced {
		r.line("/// ```")
	}
}

// The widths of rustfmt: of a line, and of the arguments of an attribute.
const (
	lineWidth      = 100
	attributeWidth = 70
)

// call writes a name with arguments, as rustfmt does: on one line, or each on its own if that line
// is too long.
func (r *rust) call(name string, args []string, end string) {
	if line := name + "(" + strings.Join(args, ", ") + ")" + end; 4*r.indent+len(line) <= lineWidth {
		r.line("%s", line)
		return
	}
	r.line("%s(", name)
	for _, a := range args {
		r.line("    %s,", a)
	}
	r.line(")%s", end)
}
