package guestgen_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/greenroom-run/greenroom/internal/guestgen"
)

// folder returns a new folder with files of proto3, by their paths.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("syntax = \"proto3\";\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A descriptor has each file that the service needs once, behind those that the file imports.
func TestDescriptorHasTheFilesThatAreUsed(t *testing.T) {
	dir := folder(t, map[string]string{
		"a.proto": `package a; import "b.proto"; import "c.proto"; import "out.proto"; import "unused.proto"; import "google/protobuf/descriptor.proto";
			message M { message Inner { b.B b = 1; c.C c = 2; } Inner inner = 1; }
			extend google.protobuf.FieldOptions { string note = 50001; }
			service S { rpc Do(M) returns (out.Out); }`,
		"b.proto":      `package b; import "d.proto"; message B { d.D d = 1; }`,
		"c.proto":      `package c; import "d.proto"; import "kind.proto"; message C { d.D d = 1; kind.Kind k = 2; }`,
		"d.proto":      `package d; message D {}`,
		"kind.proto":   `package kind; enum Kind { K = 0; }`,
		"out.proto":    `package out; message Out {}`,
		"unused.proto": `package unused; message Unused {}`,
	})
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(load(t, dir, "a.proto", "").Descriptor(), set); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range set.GetFile() {
		names = append(names, f.GetName())
	}
	if want := []string{"d.proto", "b.proto", "kind.proto", "c.proto", "out.proto", "a.proto"}; !slices.Equal(names, want) {
		t.Errorf("got the files %q, want %q", names, want)
	}
	if a := set.GetFile()[len(names)-1]; len(a.GetExtension()) > 0 || len(a.GetDependency()) != 3 {
		t.Errorf("a.proto has extensions %v, and depends on %q", a.GetExtension(), a.GetDependency())
	}
}

func TestLargeDescriptorIsRefused(t *testing.T) {
	var fields strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&fields, "string %s_%d = %d;\n", strings.Repeat("long", 110), i, i+1)
	}
	dir := folder(t, map[string]string{"a.proto": "message M {\n" + fields.String() + "}\nservice S { rpc Do(M) returns (M); }"})
	_, err := guestgen.Load(t.Context(), guestgen.Request{Files: []string{"a.proto"}, ImportPaths: []string{dir}})
	if err == nil || !strings.Contains(err.Error(), "fit into a manifest") {
		t.Errorf("got %v", err)
	}
}

func TestPaths(t *testing.T) {
	for name, tt := range map[string]struct{ files, paths, relative, used []string }{
		"the first file's folder":     {[]string{"x/y/a.proto", "x/y/z/b.proto"}, nil, []string{"a.proto", "z/b.proto"}, []string{"x/y"}},
		"the folder that has it":      {[]string{"x/a.proto", "y/b.proto"}, []string{"y", "x"}, []string{"a.proto", "b.proto"}, []string{"y", "x"}},
		"named as it is imported":     {[]string{"sink/sink.proto"}, []string{"y", "gen"}, []string{"sink/sink.proto"}, []string{"y", "gen"}},
		"none has it":                 {[]string{"x/a.proto"}, []string{"y", "x/z"}, nil, nil},
		"the first file's, not above": {[]string{"x/y/a.proto", "x/b.proto"}, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			relative, used, err := guestgen.Paths(tt.files, tt.paths)
			if !slices.Equal(relative, tt.relative) || !slices.Equal(used, tt.used) || (err == nil) != (tt.relative != nil) {
				t.Errorf("got %q below %q, %v", relative, used, err)
			}
		})
	}
}

// The first of several faults is the one that is reported.
func TestFirstFaultIsReported(t *testing.T) {
	dir := folder(t, map[string]string{"a.proto": "message M { N n = 1; O o = 2; }\nmessage N { map<bool, string> first = 1; }\nmessage O { map<bool, string> second = 1; }\nservice S { rpc Do(M) returns (M); }"})
	if _, err := guestgen.Go(load(t, dir, "a.proto", ""), "p"); err == nil || !strings.Contains(err.Error(), "N.first") {
		t.Errorf("got %v", err)
	}
}

// Comments of Go have one space before the text, and none behind it; names of Go begin with a letter.
func TestGoSource(t *testing.T) {
	dir := folder(t, map[string]string{"a.proto": "\n//M is a message.  \n// It has fields.\n//\n//   Indented.\nmessage M { int32 _n = 1; int32 _2 = 2; }\nservice S { rpc Do(M) returns (M); }"})
	code, err := guestgen.Go(load(t, dir, "a.proto", ""), "p")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n// M is a message.\n// It has fields.\n//\n//\tIndented.\ntype M struct {\n", "\tN  int32 `json:\"_n,omitempty\"`", "\tX2 int32 `json:\"_2,omitempty\"`"} {
		if !strings.Contains(string(code), want) {
			t.Errorf("it lacks %q:\n%s", want, code)
		}
	}
}

// Types of other packages are in modules of these, and those without a package at the root.
func TestRustModulesOfPackages(t *testing.T) {
	dir := folder(t, map[string]string{
		"a.proto":     `package a.b; import "bare.proto"; import "typed.proto"; import "below.proto"; message M { Bare bare = 1; a.type.T t = 2; a.b.c.C c = 3; } service S { rpc Do(M) returns (M); }`,
		"bare.proto":  `message Bare {}`,
		"typed.proto": `package a.type; message T {}`,
		"below.proto": `package a.b.c; import "typed.proto"; message C { a.type.T t = 1; }`,
	})
	code, err := guestgen.Rust(load(t, dir, "a.proto", ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"pub bare: ::core::option::Option<Bare>,", "pub t: ::core::option::Option<a::r#type::T>,", "pub c: ::core::option::Option<a::b::c::C>,",
		"pub t: ::core::option::Option<super::super::r#type::T>,", "\npub struct Bare {}\n", "\npub mod a {\n    pub mod r#type {\n", "    a::r#type::T = \"a.type.T\",\n",
	} {
		if !strings.Contains(string(code), want) {
			t.Errorf("it lacks %q:\n%s", want, code)
		}
	}
}
