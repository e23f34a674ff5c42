//go:build unix

package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/scheduler"
)

// older makes a server one of the version before this one: of the last commit whose
// servers spoke the protocol before this one's.
//
// Where the history, or what it was built from, is not there, as in a shallow clone, it is
// this version, which is told to speak as that one did, and present says why.
func older(t *testing.T) (change func(o *crash.Options), present error) {
	t.Helper()
	commit, err := olderCommit(t)
	var path string
	if err == nil {
		path, err = buildCommit(t, commit)
	}
	if err != nil {
		return func(o *crash.Options) {
			o.Env = []string{"GREENROOM_CLUSTER_PROTOCOL=" + strconv.Itoa(scheduler.MaxProtocol-1)}
		}, err
	}
	t.Logf("the older servers are of %s", git(t, "log", "-1", "--format=%h, %cs, %s", commit))
	return func(o *crash.Options) { o.Binary = path }, nil
}

// protocolFile has the numbers of protocols.
const protocolFile = "scheduler/protocol/session.go"

var maxProtocol = regexp.MustCompile(`(?m)^\s*MaxVersion\s*=\s*(\d+)$`)

// olderCommit finds the last commit before the one that raised the protocol's number to
// the present one.
func olderCommit(t *testing.T) (string, error) {
	t.Helper()
	root := exec.CommandContext(t.Context(), "git", "rev-parse", "--is-shallow-repository")
	if out, err := root.CombinedOutput(); err != nil {
		return "", fmt.Errorf("there is no history: %s", strings.TrimSpace(string(out)))
	} else if strings.TrimSpace(string(out)) == "true" {
		return "", errors.New("the history is shallow: git fetch --unshallow")
	}
	after := "" // the commit that the file was changed by after the one that is looked at
	for commit := range strings.FieldsSeq(git(t, "rev-list", "HEAD", "--", ":/"+protocolFile)) {
		found := maxProtocol.FindStringSubmatch(git(t, "show", commit+":"+protocolFile))
		if found == nil {
			break
		}
		if found[1] == strconv.Itoa(scheduler.MaxProtocol-1) {
			if after == "" { // it is raised in the working tree
				return git(t, "rev-parse", "HEAD"), nil
			}
			return git(t, "rev-parse", after+"^"), nil
		}
		after = commit
	}
	return "", fmt.Errorf("no commit is known whose servers spoke protocol %d", scheduler.MaxProtocol-1)
}

// buildCommit builds the program as it was at a commit, over the present tree: what is the
// same in both is not compiled again.
func buildCommit(t *testing.T, commit string) (path string, err error) {
	t.Helper()
	root, dir := git(t, "rev-parse", "--show-toplevel"), t.TempDir()
	replaced := map[string]string{}
	for line := range strings.Lines(git(t, "-C", root, "diff", "--no-renames", "--name-status", commit)) {
		status, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if status == "A" { // since
			replaced[filepath.Join(root, name)] = ""
			continue
		}
		old := filepath.Join(dir, fmt.Sprint(len(replaced), filepath.Ext(name)))
		content, err := exec.CommandContext(t.Context(), "git", "-C", root, "show", commit+":"+name).Output()
		if err != nil {
			t.Fatalf("read %s of %s: %v", name, commit, err)
		}
		if err := os.WriteFile(old, content, 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[filepath.Join(root, name)] = old
	}
	for name := range strings.Lines(git(t, "-C", root, "ls-files", "--others", "--exclude-standard")) {
		replaced[filepath.Join(root, strings.TrimSpace(name))] = ""
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "greenroom")
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", list, "-o", path, "./cmd/greenroom")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build greenroom of %s: %w\n%s", commit, err, out)
	}
	return path, nil
}

// git returns what a command of git's prints.
func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}
