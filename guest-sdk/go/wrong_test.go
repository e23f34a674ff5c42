package sdk_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestWrongSignatures holds what the compiler says of a method that is none to
// what a reader can act on: which method it is, and what it should look like.
func TestWrongSignatures(t *testing.T) {
	text, err := os.ReadFile("testdata/wrong/main.go")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "build", "-gcflags=-e", "-o", os.DevNull, "./testdata/wrong").CombinedOutput()
	if err == nil {
		t.Fatal("it compiles")
	}
	wanted := 0
	for n, line := range strings.Split(string(text), "\n") {
		_, want, ok := strings.Cut(line, "// want ")
		if !ok {
			continue
		}
		wanted++
		at := fmt.Sprintf("main.go:%d:", n+1)
		found := false
		for _, said := range strings.Split(string(out), "\n") {
			found = found || strings.Contains(said, at) && strings.Contains(said, "in call to actor.Method") && strings.Contains(said, want)
		}
		if !found {
			t.Errorf("%s the compiler does not say %q", at, want)
		}
	}
	if wanted == 0 || t.Failed() {
		t.Logf("%d wanted; it says:\n%s", wanted, out)
	}
}
