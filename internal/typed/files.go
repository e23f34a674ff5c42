package typed

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	// The files that descriptors may import without having them.
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// Bounds of a descriptor: SPEC.md section 3. Without those of names and depth, the full names of a
// small descriptor could take a thousand times its size.
const (
	maxDeclarations = 4096
	maxDepth        = 32 // of messages in messages
	maxFullName     = 512
	// maxRecursion is how deep the messages of a descriptor are nested: those of maxDepth, of the
	// set and the file around them, and of a field and its options inside.
	maxRecursion = maxDepth + 8
)

// readFiles reads a FileDescriptorSet, and counts its declarations.
func readFiles(descriptor []byte) (*protoregistry.Files, int, error) {
	var set descriptorpb.FileDescriptorSet
	if err := (proto.UnmarshalOptions{RecursionLimit: maxRecursion}).Unmarshal(descriptor, &set); err != nil {
		return nil, 0, fmt.Errorf("is no google.protobuf.FileDescriptorSet, or nests too deep: %w", err)
	}
	files := new(protoregistry.Files)
	var b bounds
	for _, f := range set.GetFile() {
		path := f.GetName()
		if strings.HasPrefix(path, "google/protobuf/") {
			continue // the host's own
		}
		if in := f.GetPackage(); in == googleProtobuf || strings.HasPrefix(in, googleProtobuf+".") {
			return nil, 0, fmt.Errorf("has the file %s in package %s, which is not for guests; rename the package", shorten(path), shorten(in))
		}
		if err := b.file(f); err != nil {
			return nil, 0, err
		}
		for _, imported := range f.GetDependency() {
			if err := addKnown(files, imported); err != nil {
				return nil, 0, fmt.Errorf("has the file %s, which imports %s: %w", shorten(path), shorten(imported), err)
			}
		}
		d, err := protodesc.NewFile(f, files)
		if err == nil {
			err = files.RegisterFile(d)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("has the file %s, which is not valid: %w", shorten(path), err)
		}
	}
	return files, b.declarations, nil
}

var errNotThere = errors.New("no file before it in the set has that name; put every import into the set, before the files that import it")

// addKnown adds to files one that is imported, with what that imports, if it is one of the host's.
func addKnown(files *protoregistry.Files, path string) error {
	if _, err := files.FindFileByPath(path); err == nil {
		return nil
	}
	if !strings.HasPrefix(path, "google/protobuf/") {
		return errNotThere
	}
	d, err := protoregistry.GlobalFiles.FindFileByPath(path)
	if err != nil {
		return errors.New("the host does not have it; use any, descriptor, duration, empty, field_mask, struct, timestamp or wrappers of google/protobuf")
	}
	for i := range d.Imports().Len() {
		if err := addKnown(files, d.Imports().Get(i).Path()); err != nil {
			return err
		}
	}
	return files.RegisterFile(d)
}

// bounds counts declarations.
type bounds struct{ declarations int }

// add counts declarations whose names are as long as name, behind a prefix of so many bytes.
func (b *bounds) add(prefix int, name string) error {
	b.declarations++
	switch {
	case b.declarations > maxDeclarations:
		return fmt.Errorf("has more than %d messages, fields, values, services and rpcs together; leave out files that the service does not need", maxDeclarations)
	case prefix+1+len(name) > maxFullName:
		return fmt.Errorf("has a declaration whose full name is longer than %d bytes, %s; shorten it", maxFullName, shorten(name))
	}
	return nil
}

func (b *bounds) file(f *descriptorpb.FileDescriptorProto) error {
	prefix := len(f.GetPackage())
	if err := b.add(0, f.GetPackage()); err != nil {
		return err
	}
	for _, m := range f.GetMessageType() {
		if err := b.message(prefix, 1, m); err != nil {
			return err
		}
	}
	if err := b.enums(prefix, f.GetEnumType()); err != nil {
		return err
	}
	for _, s := range f.GetService() {
		if err := b.add(prefix, s.GetName()); err != nil {
			return err
		}
		for _, m := range s.GetMethod() {
			if err := b.add(prefix+1+len(s.GetName()), m.GetName()); err != nil {
				return err
			}
		}
	}
	return b.fields(prefix, f.GetExtension())
}

func (b *bounds) message(prefix, depth int, m *descriptorpb.DescriptorProto) error {
	if depth > maxDepth {
		return fmt.Errorf("nests messages deeper than %d; move some out", maxDepth)
	}
	if err := b.add(prefix, m.GetName()); err != nil {
		return err
	}
	prefix += 1 + len(m.GetName())
	for _, inner := range m.GetNestedType() {
		if err := b.message(prefix, depth+1, inner); err != nil {
			return err
		}
	}
	for _, o := range m.GetOneofDecl() {
		if err := b.add(prefix, o.GetName()); err != nil {
			return err
		}
	}
	if err := b.enums(prefix, m.GetEnumType()); err != nil {
		return err
	}
	if err := b.fields(prefix, m.GetExtension()); err != nil {
		return err
	}
	return b.fields(prefix, m.GetField())
}

func (b *bounds) fields(prefix int, fields []*descriptorpb.FieldDescriptorProto) error {
	for _, f := range fields {
		longest := f.GetName()
		if len(f.GetJsonName()) > len(longest) {
			longest = f.GetJsonName()
		}
		if err := b.add(prefix, longest); err != nil {
			return err
		}
	}
	return nil
}

func (b *bounds) enums(prefix int, enums []*descriptorpb.EnumDescriptorProto) error {
	for _, e := range enums {
		if err := b.add(prefix, e.GetName()); err != nil {
			return err
		}
		for _, v := range e.GetValue() {
			if err := b.add(prefix+1+len(e.GetName()), v.GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}
