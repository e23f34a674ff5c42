package node_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// remindersPreamble is what the Go of docs/reminders.md takes for granted.
const remindersPreamble = `package page

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

type (
	Item     struct{}
	Contents struct{}
	Change   struct{}
	Sample   struct{}
	Cart     struct{ Items []Item }
	Document struct{}
	Order    struct{ Status string }
	Meter    struct{ Samples []Sample }
)

func (*Cart) contents() (c Contents) { return c }
func (*Document) apply(Change)       {}

func send(ctx context.Context, name string, payload any) error { return ctx.Err() }

var (
	_ client.Config
	_ actor.None
	_ time.Time
)

`

// TestRemindersPageCompiles builds what docs/reminders.md shows in Go, each block as a
// package of its own.
func TestRemindersPageCompiles(t *testing.T) {
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(repo, "docs", "reminders.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 7 {
		t.Fatalf("docs/reminders.md has %d blocks of Go", len(blocks))
	}
	dir, replace := t.TempDir(), map[string]string{}
	args := []string{"build", "-overlay", filepath.Join(dir, "overlay.json")}
	for i, b := range blocks {
		text := b[1]
		switch {
		case strings.Contains(text, "func ("):
		case strings.Contains(text, "c.SubscribeReminders"):
			text = "func _(ctx context.Context, c *client.Client) (err error) {\n" + text + "\nreturn err\n}\n"
		default:
			text = "func _(ctx *actor.Context) {\n" + text + "\n}\n"
		}
		name := fmt.Sprintf("block%d", i+1)
		file := filepath.Join(dir, name+".go")
		if err := os.WriteFile(file, []byte(remindersPreamble+text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(repo, "internal", "node", "testdata", "reminderspage", name, "page.go")] = file
		args = append(args, "./internal/node/testdata/reminderspage/"+name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Dir = repo
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("docs/reminders.md: %v\n%s", err, out)
	}
}
