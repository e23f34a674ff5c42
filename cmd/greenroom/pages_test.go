package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// shown are the command lines that a page shows: in blocks of code and in text.
var (
	shown    = regexp.MustCompile("(?m)(?:^[ $]*|[`/(]|&& )greenroom ([a-z][^`\n]*)")
	codeMark = regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]+`")
	word     = regexp.MustCompile(`^[a-z][a-z-]*$`)
	endsHere = regexp.MustCompile(`[|;&#>)…]| '| "|\]`)
	flagName = regexp.MustCompile(`(?:^|[ \[(])--([a-z][a-z-]*)`)
)

// TestPagesShowWhatThereIs: every command and flag that a page shows exists.
func TestPagesShowWhatThereIs(t *testing.T) {
	root := (&cli{getenv: noEnv}).rootCommand()
	root.InitDefaultCompletionCmd()
	commands := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../examples/*/README.md", "../../guest-sdk/*/README.md", "../../bench/README.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("pages %q, %v", pages, err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, code := range codeMark.FindAllString(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
				for _, line := range shown.FindAllStringSubmatch(code, -1) {
					commands++
					if problem := problemOf(root, line[1]); problem != "" {
						t.Errorf("%s shows `greenroom %s`: there is no %s", page, line[1], problem)
					}
				}
			}
		}
	}
	if commands < 100 {
		t.Errorf("%d commands were found", commands)
	}
}

// problemOf returns what a command line names that there is not; empty if there is all.
func problemOf(root *cobra.Command, line string) string {
	cmd := root
	for _, w := range strings.Fields(endsHere.Split(line, 2)[0]) {
		if !cmd.HasSubCommands() || !word.MatchString(w) {
			break
		}
		next, _, err := cmd.Find([]string{w})
		if err != nil || next == cmd {
			return "command " + cmd.CommandPath() + " " + w
		}
		cmd = next
	}
	for _, f := range flagName.FindAllStringSubmatch(strings.Split(line, " # ")[0], -1) {
		if cmd.Flags().Lookup(f[1]) == nil && cmd.InheritedFlags().Lookup(f[1]) == nil && f[1] != "help" {
			return "flag --" + f[1] + " of " + cmd.CommandPath()
		}
	}
	return ""
}
