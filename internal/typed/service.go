package typed

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/greenroom-run/greenroom/abi"
)

// Service is the Protobuf service of an actor type. It is immutable.
type Service struct {
	Name string
	// Files are the service's file and those that it imports.
	Files   *protoregistry.Files
	methods map[string]*Method
	// Size is how many declarations the descriptor has: what keeping it takes.
	Size int
}

// Method returns the rpc of a name; nil if there is none.
func (s *Service) Method(name string) *Method { return s.methods[name] }

// maxProblems bounds what Parse says of one service.
const maxProblems = 20

// Parse reads the service of a type that has one. Without one the problems, in words for the
// type's author, say what to change.
func Parse(t *abi.TypeSpec) (service *Service, problems []string) {
	defer func() {
		if r := recover(); r != nil { // protodesc trusts its input more than a host may
			service, problems = nil, []string{fmt.Sprintf("the descriptor cannot be read: %v; make it with protoc, buf or greenroom generate", r)}
		}
	}()
	name := t.Protobuf.Service
	if i := slices.IndexFunc(reserved, func(prefix string) bool { return strings.HasPrefix(name, prefix) }); i >= 0 {
		return nil, []string{fmt.Sprintf("the service %s is in a package that is not for guests, %s; rename the package", name, strings.TrimSuffix(reserved[i], "."))}
	}
	files, size, err := readFiles(t.Protobuf.Descriptor)
	if err != nil {
		return nil, []string{"the descriptor of " + name + " " + err.Error()}
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(name))
	desc, ok := found.(protoreflect.ServiceDescriptor)
	if err != nil || !ok {
		return nil, []string{fmt.Sprintf("the descriptor has no service %s%s; give the descriptor of that service, or name another one", name, known(files))}
	}
	s := &Service{Name: name, Files: files, Size: size, methods: make(map[string]*Method)}
	types := dynamicpb.NewTypes(files)
	for i := range desc.Methods().Len() {
		rpc := desc.Methods().Get(i)
		m := &Method{Name: string(rpc.Name()), input: rpc.Input(), output: rpc.Output(), types: types, Streaming: rpc.IsStreamingServer()}
		m.scalars = hasScalars(m.input, make(map[protoreflect.FullName]bool))
		if opts, ok := rpc.Options().(*descriptorpb.MethodOptions); ok {
			m.NoSideEffects = opts.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
		}
		if problem := m.check(t, rpc); problem != "" && len(problems) < maxProblems {
			problems = append(problems, fmt.Sprintf("rpc %s of %s %s", shorten(m.Name), name, problem))
		}
		s.methods[m.Name] = m
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return s, nil
}

// known names the services of files, for who misspelt one.
func known(files *protoregistry.Files) string {
	var names []string
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			names = append(names, shorten(string(f.Services().Get(i).FullName())))
		}
		return true
	})
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return ""
	case len(names) > 5:
		names = append(names[:5], "…")
	}
	return " (it has " + strings.Join(names, ", ") + ")"
}
