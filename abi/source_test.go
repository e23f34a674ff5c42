//go:build !wasm

package abi_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
)

// A file that is missing here would break the projects that `greenroom new`
// makes, not this build.
func TestSourceIsComplete(t *testing.T) {
	var want, got []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			want = append(want, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(abi.Source, ".", func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") {
			got = append(got, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("source.go embeds %q, the module has %q", got, want)
	}
	for _, name := range []string{"go.mod", "SPEC.md"} {
		embedded, err := fs.ReadFile(abi.Source, name)
		if err != nil {
			t.Fatal(err)
		}
		if onDisk, err := os.ReadFile(name); err != nil || string(onDisk) != string(embedded) {
			t.Errorf("%s: embedded copy differs (read: %v)", name, err)
		}
	}
}
