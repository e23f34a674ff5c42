package guestgen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/internal/typed"
)

// Request says what to generate from.
type Request struct {
	// Files are the .proto files, as paths below one of ImportPaths. Required.
	Files []string
	// ImportPaths are the folders in which files and imports are looked for. Required.
	ImportPaths []string
	// Service is the full name of the service. Defaults to the only one of the files.
	Service string
	// IDField is the field of every request that has the actor's ID. Defaults to none.
	IDField string
}

// Service is a service that was compiled.
type Service struct {
	desc       protoreflect.ServiceDescriptor
	idField    string
	descriptor []byte // a FileDescriptorSet
}

// Name returns the full name of the service.
func (s *Service) Name() string { return string(s.desc.FullName()) }

// Load compiles files and finds the service. Its errors say what to change in the files.
func Load(ctx context.Context, req Request) (*Service, error) {
	var faults []error
	c := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: req.ImportPaths}),
		Reporter: reporter.NewReporter(func(err reporter.ErrorWithPos) error {
			faults = append(faults, err)
			return nil
		}, nil),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(ctx, req.Files...)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if err != nil {
		return nil, err
	}
	var found []protoreflect.ServiceDescriptor
	var names []string
	for _, f := range files {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			if names = append(names, string(s.FullName())); req.Service == "" || req.Service == string(s.FullName()) {
				found = append(found, s)
			}
		}
	}
	switch {
	case len(names) == 0:
		return nil, errors.New("the files have no service; write one, with an rpc for each method")
	case len(found) == 0:
		return nil, fmt.Errorf("the files have no service %s; they have %s", req.Service, strings.Join(names, ", "))
	case len(found) > 1:
		return nil, fmt.Errorf("the files have the services %s; choose one with --service", strings.Join(names, ", "))
	}
	s := &Service{desc: found[0], idField: req.IDField}
	if s.descriptor, err = describe(s.desc.ParentFile()); err != nil {
		return nil, err
	}
	// What a host refuses at upload is refused here, but for methods, which will be there.
	t := abi.TypeSpec{Name: string(s.desc.Name()), Protobuf: abi.Protobuf{Service: s.Name(), Descriptor: s.descriptor, IDField: req.IDField}}
	for _, m := range s.methods() {
		t.Methods = append(t.Methods, abi.MethodSpec{Name: string(m.Name()), ReadOnly: readOnly(m)})
	}
	if s.desc.Methods().Len() == 0 {
		return nil, fmt.Errorf("the service %s has no rpc; write one for each method", s.Name())
	}
	if _, problems := typed.Parse(&t); len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "\n"))
	}
	// As it is in a manifest, in base64 and beside the types.
	if most := abi.MaxManifestBytes / 2; len(s.descriptor) > most {
		return nil, fmt.Errorf("the descriptor of %s takes %d bytes, and at most %d fit into a manifest; move what the service does not use into other files", s.Name(), len(s.descriptor), most)
	}
	return s, nil
}

// methods returns the rpcs that are methods of the type, in the order of the file.
func (s *Service) methods() []protoreflect.MethodDescriptor { return s.rpcs(false) }

// streams returns the rpcs that the events of their names serve, in the order of the file.
func (s *Service) streams() []protoreflect.MethodDescriptor { return s.rpcs(true) }

func (s *Service) rpcs(streaming bool) (list []protoreflect.MethodDescriptor) {
	for i := range s.desc.Methods().Len() {
		if m := s.desc.Methods().Get(i); m.IsStreamingServer() == streaming {
			list = append(list, m)
		}
	}
	return list
}

// readOnly reports whether the method of an rpc is read-only.
func readOnly(m protoreflect.MethodDescriptor) bool {
	return idempotency(m) == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

func idempotency(m protoreflect.MethodDescriptor) descriptorpb.MethodOptions_IdempotencyLevel {
	o, _ := m.Options().(*descriptorpb.MethodOptions)
	return o.GetIdempotencyLevel()
}

// describe returns the FileDescriptorSet of a file: without comments, options of others, and files
// that only have options.
func describe(f protoreflect.FileDescriptor) ([]byte, error) {
	set := new(descriptorpb.FileDescriptorSet)
	seen := make(map[string]bool)
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] || strings.HasPrefix(f.Path(), "google/protobuf/") {
			return
		}
		seen[f.Path()] = true
		p := protodesc.ToFileDescriptorProto(f)
		p.SourceCodeInfo, p.PublicDependency, p.WeakDependency, p.OptionDependency, p.Dependency = nil, nil, nil, nil, nil
		strip(p.ProtoReflect())
		for _, used := range imports(f) {
			add(used)
			p.Dependency = append(p.Dependency, used.Path())
		}
		set.File = append(set.File, p)
	}
	add(f)
	return proto.MarshalOptions{Deterministic: true}.Marshal(set)
}

// strip removes extensions, and options that are extensions.
func strip(m protoreflect.Message) {
	m.SetUnknown(nil)
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsExtension(), f.Name() == "extension" && f.Message() != nil:
			m.Clear(f)
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				strip(v.List().Get(i).Message())
			}
		case f.Message() != nil && !f.IsMap():
			strip(v.Message())
		}
		return true
	})
}

// imports returns the files that have the types of a file's fields and rpcs, in the order of their paths.
func imports(f protoreflect.FileDescriptor) []protoreflect.FileDescriptor {
	used := make(map[string]protoreflect.FileDescriptor)
	use := func(d protoreflect.Descriptor) {
		if in := d.ParentFile(); in.Path() != f.Path() {
			used[in.Path()] = in
		}
	}
	var messages func(protoreflect.MessageDescriptors)
	messages = func(ms protoreflect.MessageDescriptors) {
		for i := range ms.Len() {
			for j := range ms.Get(i).Fields().Len() {
				if f := ms.Get(i).Fields().Get(j); f.Message() != nil {
					use(f.Message())
				} else if f.Enum() != nil {
					use(f.Enum())
				}
			}
			messages(ms.Get(i).Messages())
		}
	}
	messages(f.Messages())
	for i := range f.Services().Len() {
		for j := range f.Services().Get(i).Methods().Len() {
			use(f.Services().Get(i).Methods().Get(j).Input())
			use(f.Services().Get(i).Methods().Get(j).Output())
		}
	}
	var list []protoreflect.FileDescriptor
	for _, in := range used {
		list = append(list, in)
	}
	slices.SortFunc(list, func(a, b protoreflect.FileDescriptor) int { return strings.Compare(a.Path(), b.Path()) })
	return list
}

// Paths returns files as paths below import paths: without any, the folder of the first file is one. As
// with protoc, a file may also be named as others import it.
func Paths(files, importPaths []string) (relative, paths []string, err error) {
	if len(importPaths) == 0 {
		importPaths = []string{filepath.Dir(files[0])}
	}
	for _, f := range files {
		at := slices.IndexFunc(importPaths, func(dir string) bool {
			rel, err := filepath.Rel(dir, f)
			return err == nil && filepath.IsLocal(rel)
		})
		if at < 0 && filepath.IsLocal(f) && slices.ContainsFunc(importPaths, func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, f))
			return err == nil
		}) {
			relative = append(relative, filepath.ToSlash(filepath.Clean(f)))
			continue
		}
		if at < 0 {
			return nil, nil, fmt.Errorf("%s is below none of the import paths %s; add one with -I", f, strings.Join(importPaths, ", "))
		}
		rel, _ := filepath.Rel(importPaths[at], f)
		relative = append(relative, filepath.ToSlash(rel))
	}
	return relative, importPaths, nil
}
