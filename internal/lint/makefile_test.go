package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeTestGoesOn checks that a failing module keeps neither the modules
// after it nor the Rust tests from running, and fails `make test` all the same.
func TestMakeTestGoesOn(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("Makefile", string(makefile))
	for name, body := range map[string]string{"bad": `t.Fatal("on purpose")`, "good": `t.Log("the good module ran")`} {
		write(name+"/go.mod", "module "+name+"\n\ngo 1.25\n")
		write(name+"/x_test.go", "package x\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { "+body+" }\n")
	}
	for _, setup := range []string{"curl", "postgres", "rust", "node", "python", "extism", "chromium"} {
		write("build/"+setup+"/setup.sh", "#!/bin/sh\n")
	}
	write("build/rust/test.sh", "#!/bin/sh\necho the Rust tests ran\n")
	script, err := os.ReadFile("../../build/go/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	write("build/go/test.sh", string(script))
	write("tools/grpcurl-v0", "")

	run := func(modules string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "make", "-C", dir, "test",
			"MODULES="+modules, "TESTFLAGS=-v", "TOOLS="+filepath.Join(dir, "tools"), "GRPCURL_VERSION=v0")
		cmd.Env = append(os.Environ(), "GOWORK=off", "MAKEFLAGS=", "MAKELEVEL=") // may run under make itself
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("bad good")
	if err == nil {
		t.Errorf("make test succeeded although a module failed:\n%s", out)
	}
	for _, want := range []string{"on purpose", "the good module ran", "the Rust tests ran", "failed: test-go"} {
		if !strings.Contains(out, want) {
			t.Errorf("make test does not say %q:\n%s", want, out)
		}
	}
	_, end, _ := strings.Cut(out, "== failed\n")
	for _, want := range []string{"--- FAIL: TestX", "FAIL\tbad", "tests failed in: bad\n"} {
		if !strings.Contains(end, want) {
			t.Errorf("the end of make test does not name %q:\n%s", want, out)
		}
	}
	if out, err := run("good"); err != nil {
		t.Errorf("make test failed although nothing did: %v\n%s", err, out)
	}
}
