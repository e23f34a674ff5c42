package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// TestClientsPage runs what docs/clients.md shows, each example as a project of
// its own against a server of its own. make setup installs what they need.
func TestClientsPage(t *testing.T) {
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page := snippets(t, filepath.Join(repo, "docs", "clients.md"))
	snippet := func(t *testing.T, name string) string {
		t.Helper()
		text, ok := page[name]
		if !ok {
			t.Fatalf("docs/clients.md has no code that begins with a comment %q", name)
		}
		return text
	}
	nodeLinks := map[string]string{"node_modules": "build/node/client/node_modules"}
	protos := t.TempDir()
	command(t, repo, "go", "run", "./cmd/greenroom", "proto", protos)

	// The protoc of Python's packages does for all.
	command(t, repo, "build/python/setup.sh")
	command(t, repo, "build/node/setup.sh")
	bin := t.TempDir()
	protoc := fmt.Sprintf("#!/bin/sh\nexec '%s' -m grpc_tools.protoc \"$@\"\n", filepath.Join(repo, ".cache", "python", "bin", "python"))
	if err := os.WriteFile(filepath.Join(bin, "protoc"), []byte(protoc), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))

	module := example(t, "counter", guestbuild.Go)

	for _, test := range []struct {
		name     string
		links    map[string]string // into the project, from the repository
		generate string            // the snippet that generates, if any
		files    []string          // snippets that are files
		run      []string          // the last argument may be a snippet that is a script
		want     string            // a regular expression
	}{
		{name: "go", files: []string{"client.go"}, run: []string{"go", "run", "client.go"}, want: `5\n`},
		{name: "connect-go", files: []string{"connect.go"}, run: []string{"go", "run", "connect.go"}, want: `{"count":5}\n`},
		{
			name: "node", links: nodeLinks,
			generate: "generate for Node", files: []string{"call.mjs"},
			run: []string{"node", "call.mjs"}, want: `5\nmethod_not_found\n`,
		},
		{
			name: "browser", links: nodeLinks,
			generate: "generate for Node", files: []string{"browser.mjs"},
			run: []string{"node", "browser.mjs"}, want: `5\n`,
		},
		{
			name: "python", links: map[string]string{"venv": ".cache/python"},
			generate: "generate for Python", files: []string{"call.py"},
			run: []string{"venv/bin/python", "call.py"}, want: `5\nmethod_not_found\n`,
		},
		{name: "curl", run: []string{"bash", "-ec", "call with curl"}, want: `{.*"json": ?{"count": ?5}.*}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t, node.Config{})
			r.deploy(t, "default", module)
			here := func(text string) string {
				return strings.ReplaceAll(text, "127.0.0.1:8080", strings.TrimPrefix(r.URL, "http://"))
			}

			project := t.TempDir()
			link(t, protos, filepath.Join(project, "proto"))
			for name, target := range test.links {
				link(t, filepath.Join(repo, target), filepath.Join(project, name))
			}
			for _, name := range test.files {
				if err := os.WriteFile(filepath.Join(project, name), []byte(here(snippet(t, name))), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if test.generate != "" {
				command(t, project, "bash", "-ec", snippet(t, test.generate))
			}
			dir, args := project, append([]string{}, test.run...)
			last := &args[len(args)-1]
			switch args[0] {
			case "go": // in the module, which has what the program imports
				dir, *last = repo, filepath.Join(project, *last)
			case "bash":
				*last = here(snippet(t, *last))
			}
			if got := command(t, dir, args...); !regexp.MustCompile("^(?:" + test.want + ")$").MatchString(got) {
				t.Errorf("it printed %q, want %q", got, test.want)
			}
		})
	}
}

// fenced is a block of code that begins with a comment.
var fenced = regexp.MustCompile("(?ms)^```[a-z]+\n(?://|#) ([^\n]+)\n(.*?)^```$")

// snippets returns the blocks of a page by the comment they begin with.
func snippets(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
		if _, twice := found[m[1]]; twice {
			t.Fatalf("%s has two blocks %q", path, m[1])
		}
		found[m[1]] = m[2]
	}
	return found
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// command runs a program that must succeed, and returns its standard output.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	var stdout, stderr strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v (make setup installs what this needs)\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}
