package sdk_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/greenroom-run/greenroom/guest-sdk/go"
)

func TestSourceIsComplete(t *testing.T) {
	list := func(fsys fs.FS) (names []string) {
		err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.Name() == "testdata" {
				return fs.SkipDir
			}
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				names = append(names, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if got, want := list(sdk.Source), list(os.DirFS(".")); !slices.Equal(got, want) {
		t.Errorf("sdk.go embeds %q, the module has %q", got, want)
	}
}

// TestWrittenSourceBuilds is what `greenroom new` relies on: a project beside the
// written modules builds and tests itself with nothing else, and its Wasm carries
// no copy of the sources.
func TestWrittenSourceBuilds(t *testing.T) {
	root := t.TempDir()
	if err := sdk.WriteTo(root); err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(root, "project")
	files := map[string]string{
		"go.mod": "module project\n\ngo 1.25\n\nrequire " + sdk.Module + " v0.1.0\n\nrequire " + sdk.ABIModule + " v0.1.0 // indirect\n\n" +
			"replace (\n\t" + sdk.ABIModule + " => ../" + sdk.ABIDir + "\n\t" + sdk.Module + " => ../" + sdk.Dir + "\n)\n",
		"main.go": `package main

import "` + sdk.Module + `/actor"

type Hello struct{ Calls int }

func (h *Hello) Greet(ctx *actor.Context, name string) (string, error) {
	h.Calls++
	return "Hello " + name, nil
}

func init() { actor.Register("Hello", actor.Method("Greet", (*Hello).Greet)) }

func main() {}
`,
		"main_test.go": `package main

import (
	"testing"

	"` + sdk.Module + `/actortest"
)

func TestGreet(t *testing.T) {
	var out string
	if err := actortest.New(t).Call("Hello", "a", "Greet", "Ada", &out); err != nil || out != "Hello Ada" {
		t.Fatal(out, err)
	}
}
`,
	}
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(project, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	offline := []string{"GOWORK=off", "GOPROXY=off", "GOFLAGS=-mod=mod"}
	run := func(env []string, args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = project
		cmd.Env = append(append(os.Environ(), offline...), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run(nil, "test", "./...")
	wasm := []string{"GOOS=wasip1", "GOARCH=wasm"}
	run(wasm, "build", "-buildmode=c-shared", "-o", "guest.wasm", ".")
	deps := strings.Fields(run(wasm, "list", "-deps", "."))
	if slices.Contains(deps, "embed") || slices.Contains(deps, "os/exec") {
		t.Errorf("the guest depends on %q", deps)
	}
	if err := sdk.WriteTo(root); !errors.Is(err, fs.ErrExist) {
		t.Errorf("writing again: got %v, want ErrExist", err)
	}
}
