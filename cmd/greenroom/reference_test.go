package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const (
	guide = "../../docs/cli.md"
	// referenceMark ends the part of the guide that people write.
	referenceMark = "writes it anew.\n\n"
)

func TestReferenceIsUpToDate(t *testing.T) {
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	head, have, ok := strings.Cut(string(text), referenceMark)
	if !ok {
		t.Fatalf("%s has no line that ends in %q", guide, strings.TrimSpace(referenceMark))
	}
	want := output(t, "reference")
	if have == want {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the commands say; run go test ./cmd/greenroom -update", guide)
	}
	if err := os.WriteFile(guide, []byte(head+referenceMark+want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// output runs a command line that must succeed.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, noEnv); status != exitOK {
		t.Fatalf("greenroom %q: status %d\n%s", args, status, stderr.String())
	}
	return stdout.String()
}

func noEnv(string) string { return "" }

// Every command says what it does and shows it.
func TestEveryCommandHasHelp(t *testing.T) {
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "completion" || cmd.Name() == "help" {
			return
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: Short is %q; want a phrase without a full stop", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if len([]rune(line)) > 110 {
				t.Errorf("%s: a line of the help is too long for a terminal: %q", cmd.CommandPath(), line)
			}
		}
		for _, child := range cmd.Commands() {
			check(child)
		}
	}
	check(rootCommand(&cli{console: console{getenv: noEnv}}))
}
