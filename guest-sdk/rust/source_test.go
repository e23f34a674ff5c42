package rustsdk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rustsdk "github.com/greenroom-run/greenroom/guest-sdk/rust"
)

// TestProjectIsComplete: a project that new makes has every file of the template
// with nothing left to fill in, and the crate where it says. build/rust/test.sh
// builds and tests one.
func TestProjectIsComplete(t *testing.T) {
	dir := t.TempDir()
	if err := rustsdk.WriteProject(dir, "shop", "sdk/rust"); err != nil {
		t.Fatal(err)
	}
	if err := rustsdk.WriteSDK(filepath.Join(dir, "sdk/rust")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"Cargo.toml", "README.md", ".gitignore", ".cargo/config.toml", "src/lib.rs",
		"sdk/rust/Cargo.toml", "sdk/rust/build.rs", "sdk/rust/macros/src/lib.rs", "sdk/rust/src/lib.rs", "sdk/rust/src/testing/overlay.rs",
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "Cargo.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`name = "shop"`, `path = "sdk/rust", default-features = false`} {
		if !strings.Contains(string(manifest), want) {
			t.Errorf("Cargo.toml lacks %s:\n%s", want, manifest)
		}
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "/sdk/") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "{{") {
			t.Errorf("%s still has a placeholder", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	if err := rustsdk.WriteProject(dir, "shop", "sdk"); err != nil {
		t.Fatal(err)
	}
	if err := rustsdk.WriteProject(dir, "shop", "sdk"); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second project: got %v, want an error that wraps os.ErrExist", err)
	}
	if err := rustsdk.WriteSDK(dir); !errors.Is(err, os.ErrExist) {
		t.Errorf("the SDK over a project: got %v, want an error that wraps os.ErrExist", err)
	}
}
