package guestgen

import (
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// source collects source text, and what forbids it.
type source struct {
	strings.Builder
	indent int // of lines, in steps of four spaces
	err    error
}

// fail keeps the first error.
func (s *source) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

func (s *source) line(format string, args ...any) {
	if format != "" {
		_, _ = io.WriteString(s, strings.Repeat("    ", s.indent))
	}
	if len(args) == 0 {
		_, _ = io.WriteString(s, format+"\n")
		return
	}
	fmt.Fprintf(s, format+"\n", args...)
}

// comment returns the comment before a declaration, for the language's comments.
func comment(d protoreflect.Descriptor) string {
	return strings.TrimSpace(d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments)
}

// unsupported returns what is wrong with a field that no language's messages have.
func unsupported(f protoreflect.FieldDescriptor) error {
	switch {
	case f.Kind() == protoreflect.GroupKind:
		return fmt.Errorf("the field %s is a group; make it a message", f.FullName())
	case f.HasDefault():
		return fmt.Errorf("the field %s has a default, which guests do not know; use proto3", f.FullName())
	}
	return nil
}
