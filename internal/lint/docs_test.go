package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every page can be found from the README and from the index of docs.
func TestPagesAreListed(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 2 {
		t.Fatalf("pages %q, %v", pages, err)
	}
	for _, list := range []struct{ file, folder string }{
		{"README.md", "docs/"},
		{"docs/README.md", ""},
	} {
		text, err := os.ReadFile(filepath.Join("../..", list.file))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			name := filepath.Base(page)
			if name == "README.md" && list.folder == "" {
				continue // the index itself
			}
			if link := "](" + list.folder + name + ")"; !strings.Contains(string(text), link) {
				t.Errorf("%s has no link to docs/%s: add it, with a phrase that says what is in it", list.file, name)
			}
		}
	}
}
