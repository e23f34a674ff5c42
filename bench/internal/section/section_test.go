package section

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplaceKeepsTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const before, after = "# Head\n\n<!-- a: begin -->\n", "<!-- a: end -->\n\n<!-- b: begin -->\nother\n<!-- b: end -->\ntail\n"
	if err := os.WriteFile(path, []byte(before+"old\n"+after), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also over what it has written itself
		if err := Check(path, "a"); err != nil {
			t.Fatal(err)
		}
		if err := Replace(path, "a", "\n\nnew\n"); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if want := before + "\nnew\n\n" + after; err != nil || string(text) != want {
			t.Fatalf("%q, %v, want %q", text, err, want)
		}
	}
}

func TestReplaceSaysWhatIsMissing(t *testing.T) {
	const begin, end = "<!-- a: begin -->\n", "<!-- a: end -->\n"
	for name, text := range map[string]string{
		"nothing": "text\n", "no end": begin, "no beginning": end, "twice": begin + end + begin + end, "turned round": end + begin,
	} {
		path := filepath.Join(t.TempDir(), "page.md")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{Check(path, "a"), Replace(path, "a", "new")} {
			if err == nil || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("%s: the page became %q", name, got)
		}
	}
}
