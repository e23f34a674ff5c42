package main

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// The descriptor set needs nothing beside it, and has the same files as the
// sources.
func TestDescriptorSetIsSelfContained(t *testing.T) {
	dir := t.TempDir()
	output(t, "proto", dir)
	content, err := os.ReadFile(filepath.Join(dir, descriptorSet))
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(content, &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set) // refuses what does not resolve
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"greenroom/v1/*.proto", "buf/validate/*.proto"} {
		sources, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(sources) == 0 {
			t.Fatalf("%s: %v, %v", pattern, sources, err)
		}
		for _, source := range sources {
			path, err := filepath.Rel(dir, source)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := files.FindFileByPath(filepath.ToSlash(path)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if _, err := files.FindDescriptorByName("greenroom.v1.ActorService"); err != nil {
		t.Error(err)
	}
}
