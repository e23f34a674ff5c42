package node_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// TestHTTPPage runs what docs/http.md shows with curl, in order, on a server with the
// examples: each command can be pasted.
func TestHTTPPage(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("curl is not on PATH; run make setup")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^curl ((?:.*\\\n)*.*)$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) < 8 {
		t.Fatalf("docs/http.md has %d commands", len(commands))
	}
	r := start(t, node.Config{})
	r.deploy(t, "", example(t, "counter", guestbuild.Go))
	r.deploy(t, "", example(t, "cart", guestbuild.Go))
	for _, c := range commands {
		command := "curl -sS --fail-with-body " + strings.ReplaceAll(c[1], "http://127.0.0.1:8080", r.URL)
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
			t.Errorf("%s\n%v\n%s", c[0], err, out)
		}
	}
}
