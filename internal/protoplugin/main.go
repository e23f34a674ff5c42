// Command protoplugin runs a protoc plugin over the API's protos, taken from the
// descriptors that are linked in: so that the test of a client in another
// language needs that language's plugin and nothing else.
//
//	protoplugin -out FOLDER [-opt OPTIONS] PLUGIN
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func main() {
	out := flag.String("out", "", "folder to write to; it is made anew")
	opt := flag.String("opt", "", "options for the plugin")
	flag.Parse()
	if *out == "" || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: protoplugin -out FOLDER [-opt OPTIONS] PLUGIN")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *opt, *out); err != nil {
		fmt.Fprintln(os.Stderr, "protoplugin:", err)
		os.Exit(1)
	}
}

func run(plugin, opt, out string) error {
	req, err := proto.Marshal(request(opt,
		greenroomv1.File_greenroom_v1_actor_proto,
		greenroomv1.File_greenroom_v1_error_proto,
		greenroomv1.File_greenroom_v1_module_proto,
		greenroomv1.File_greenroom_v1_log_proto,
		greenroomv1.File_greenroom_v1_settings_proto,
		greenroomv1.File_greenroom_v1_cluster_proto,
		greenroomv1.File_greenroom_v1_reminder_proto,
		greenroomv1.File_greenroom_v1_status_proto))
	if err != nil {
		return err
	}
	cmd := exec.Command(plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(req), os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", plugin, err)
	}
	var res pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &res); err != nil {
		return fmt.Errorf("%s answered no CodeGeneratorResponse: %w", plugin, err)
	}
	if res.GetError() != "" {
		return errors.New(res.GetError())
	}
	return write(out, res.GetFile())
}

// request asks for files and everything that they import, imports first. The
// options of protovalidate are generated as well: a generated file imports those
// of its imports.
func request(opt string, files ...protoreflect.FileDescriptor) *pluginpb.CodeGeneratorRequest {
	req := &pluginpb.CodeGeneratorRequest{Parameter: proto.String(opt)}
	seen := make(map[string]bool)
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		req.ProtoFile = append(req.ProtoFile, protodesc.ToFileDescriptorProto(f))
		if f.Package().Parent() != "google" {
			req.FileToGenerate = append(req.FileToGenerate, f.Path())
		}
	}
	for _, f := range files {
		add(f)
	}
	return req
}

func write(out string, files []*pluginpb.CodeGeneratorResponse_File) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for _, f := range files {
		if !filepath.IsLocal(f.GetName()) {
			return fmt.Errorf("the plugin wants to write %q, outside of the folder", f.GetName())
		}
		path := filepath.Join(out, f.GetName())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
