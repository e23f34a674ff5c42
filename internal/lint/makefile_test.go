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
	bad := `for i := range 100 { t.Log("line", i, "end") }; t.Fatal("on purpose") }; func TestY(t *testing.T) { t.Log("another passed")`
	for name, body := range map[string]string{"bad": bad, "good": `t.Log("the good module ran")`} {
		write(name+"/go.mod", "module "+name+"\n\ngo 1.25\n")
		write(name+"/x_test.go", "package x\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { "+body+" }\n")
	}
	write("bad/unbuilt/x_test.go", "package x\n\nvar X int = \"no number\"\n")
	for _, setup := range []string{"curl", "postgres", "rust", "node", "python", "extism", "chromium"} {
		write("build/"+setup+"/setup.sh", "#!/bin/sh\n")
	}
	write("build/rust/test.sh", "#!/bin/sh\necho the Rust tests ran\n")
	for _, name := range []string{"build/go/test.sh", "build/go/failures.awk"} {
		script, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(script))
	}
	write("tools/grpcurl-v0", "")

	run := func(modules, flags string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "make", "-C", dir, "test",
			"MODULES="+modules, "TESTFLAGS="+flags, "TOOLS="+filepath.Join(dir, "tools"), "GRPCURL_VERSION=v0")
		cmd.Env = append(os.Environ(), "GOWORK=off", "MAKEFLAGS=", "MAKELEVEL=") // may run under make itself
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, flags := range []string{"", "-v"} {
		out, err := run("bad good", flags)
		if err == nil {
			t.Errorf("make test succeeded although a module failed:\n%s", out)
		}
		tests, end, _ := strings.Cut(out, "the Rust tests ran\n")
		if flags == "-v" && !strings.Contains(tests, "the good module ran") {
			t.Errorf("the module after the one that failed did not run:\n%s", out)
		}
		for _, want := range []string{"--- FAIL: TestX", "on purpose", "FAIL\tbad", "line 0 end", "x_test.go:3:", "FAIL\tbad/unbuilt", "tests failed in: bad\n", "failed: test-go\n"} {
			if !strings.Contains(end, want) {
				t.Errorf("the end of make test, after the Rust tests, does not say %q:\n%s", want, out)
			}
		}
		for _, no := range []string{"another passed", "line 50 end", "the good module ran"} {
			if strings.Contains(end, no) {
				t.Errorf("the end of make test says %q, which is not about a failure or beyond the bound:\n%s", no, out)
			}
		}
	}
	if out, err := run("good", "-v"); err != nil {
		t.Errorf("make test failed although nothing did: %v\n%s", err, out)
	}
}
