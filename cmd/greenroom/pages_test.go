package main

import (
	"encoding/json"
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
	root := rootCommand(&cli{console: console{getenv: noEnv}})
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

var (
	deployFlag = regexp.MustCompile(`[ "]--([a-z][a-z-]*)`)
	variable   = regexp.MustCompile(`GREENROOM_[A-Z_]+`)
)

// TestDeploySaysWhatThereIs: every flag of serve and every variable that the files of
// deploy name exists.
func TestDeploySaysWhatThereIs(t *testing.T) {
	serve := serveCommand(&cli{console: console{getenv: noEnv}})
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variable.FindAllString(string(text), -1) {
			read[name] = true
		}
	}
	for _, file := range []string{"compose/compose.yaml", "systemd/greenroom.service", "helm/greenroom/templates/statefulset.yaml", "helm/greenroom/values.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		flags := 0
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "cockroach") && !strings.Contains(line, "--store=") || strings.Contains(line, "docker") {
				continue // another program's
			}
			for _, flag := range deployFlag.FindAllStringSubmatch(line, -1) {
				flags++
				if serve.Flags().Lookup(flag[1]) == nil {
					t.Errorf("deploy/%s gives serve the flag --%s, which it does not have", file, flag[1])
				}
			}
			for _, name := range variable.FindAllString(line, -1) {
				if !read[name] {
					t.Errorf("deploy/%s sets %s, which greenroom does not read", file, name)
				}
			}
		}
		if flags == 0 {
			t.Errorf("deploy/%s: no flags were found", file)
		}
	}
}

var (
	imageEnv = regexp.MustCompile(`(?m)^ENV (\S+)=(\S+)$`)
	imageCmd = regexp.MustCompile(`(?m)^CMD (\[.*\])$`)
)

// TestImageTakesAStore: the command of the Dockerfile runs on the embedded store, and on a
// database that GREENROOM_STORE names.
func TestImageTakesAStore(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"GREENROOM_TOKEN": "secret"}
	for _, v := range imageEnv.FindAllStringSubmatch(string(text), -1) {
		env[v[1]] = v[2]
	}
	var args []string
	if cmd := imageCmd.FindStringSubmatch(string(text)); cmd == nil || json.Unmarshal([]byte(cmd[1]), &args) != nil || args[0] != "serve" {
		t.Fatalf("CMD of the Dockerfile is %q", cmd)
	}
	for _, store := range []string{"", "postgres://db/greenroom"} {
		env["GREENROOM_STORE"] = store
		cfg, err := serveConfig(t, args[1:], env)
		if err != nil || cfg.StoreURL != store || (cfg.DataDir == "") != (store != "") || cfg.Server.Addr != "0.0.0.0:8080" {
			t.Errorf("with GREENROOM_STORE=%q it listens on %s, store %q, folder %q, %v", store, cfg.Server.Addr, cfg.StoreURL, cfg.DataDir, err)
		}
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
