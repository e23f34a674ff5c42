package guestgen

import "google.golang.org/protobuf/reflect/protoreflect"

// Input returns the message that an rpc takes.
func (s *Service) Input(rpc protoreflect.Name) protoreflect.MessageDescriptor {
	return s.desc.Methods().ByName(rpc).Input()
}

// Descriptor returns the FileDescriptorSet of the service.
func (s *Service) Descriptor() []byte { return s.descriptor }

// RustType and RustSnake are names of Protobuf in Rust; RustVariant is that of an enumeration's value.
var (
	RustType    = rustType
	RustSnake   = rustSnake
	RustVariant = rustVariant
)
