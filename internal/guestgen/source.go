package guestgen

import (
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// source collects source text.
type source struct{ strings.Builder }

func (s *source) line(format string, args ...any) {
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
