package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	validate "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/jhump/protoreflect/v2/protoprint"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	apiproto "github.com/greenroom-run/greenroom/api/proto"
)

// descriptorSet is the file with all descriptors, for tools that read no sources.
const descriptorSet = "greenroom.binpb"

func protoCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "proto [DIR]",
		Short: "Write the API's protos, to generate clients from",
		Long: `Write the files that clients in other languages are generated from into DIR (default:
proto): the .proto files of the API with their imports, and ` + descriptorSet + `, a
FileDescriptorSet of all of them. They are part of this binary, so no server and no
network is needed. Existing files are overwritten.

google/protobuf/*.proto are not written, since every protobuf compiler has them.`,
		Example: `  greenroom proto
  buf generate proto
  grpcurl -protoset proto/greenroom.binpb list greenroom.v1.ActorService`,
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "proto"
			if len(args) > 0 {
				dir = args[0]
			}
			return writeProtos(c, dir)
		},
	}
}

func writeProtos(c *cli, dir string) error {
	files, err := protoFiles()
	if err != nil {
		return err
	}
	type written struct {
		Path  string `json:"path"`
		Bytes int    `json:"bytes"`
	}
	var list []written
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.content, 0o644); err != nil {
			return err
		}
		list = append(list, written{path, len(f.content)})
	}
	if c.wantsJSON() {
		return writeJSON(c.stdout, map[string]any{"files": list})
	}
	var rows [][]string
	for _, f := range list {
		rows = append(rows, []string{f.Path, size(int64(f.Bytes))})
	}
	c.table([]string{"FILE", "SIZE"}, rows)
	return nil
}

type protoFile struct {
	path    string // slashes, below the folder
	content []byte
}

// protoFiles returns the sources of the API, what they import beside
// google/protobuf, and the descriptor set, in the order of their paths.
func protoFiles() ([]protoFile, error) {
	var files []protoFile
	err := fs.WalkDir(apiproto.Sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(apiproto.Sources, path)
		files = append(files, protoFile{path, content})
		return err
	})
	if err != nil {
		return nil, err
	}
	// No module has its source: see RATIONALE.
	rules := validate.File_buf_validate_validate_proto
	var source bytes.Buffer
	if err := new(protoprint.Printer).PrintProtoFile(rules, &source); err != nil {
		return nil, fmt.Errorf("print %s: %w", rules.Path(), err)
	}
	files = append(files, protoFile{rules.Path(), source.Bytes()})

	var own []string
	for _, f := range files {
		own = append(own, f.path)
	}
	slices.Sort(own)
	set, err := describe(own)
	if err != nil {
		return nil, err
	}
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encode the descriptor set: %w", err)
	}
	files = append(files, protoFile{descriptorSet, content})
	slices.SortFunc(files, func(a, b protoFile) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

// describe returns the linked-in descriptors of files and of all that they
// import, imports first.
func describe(paths []string) (*descriptorpb.FileDescriptorSet, error) {
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	for _, path := range paths {
		f, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			return nil, fmt.Errorf("descriptor of %s: %w", path, err)
		}
		add(f)
	}
	return set, nil
}
