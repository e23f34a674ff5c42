package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

var mdLink = regexp.MustCompile(`\]\(([^)#: ]+)(#[^)]*)?\)`)

// Links between files of the repository lead somewhere.
func TestLinksLead(t *testing.T) {
	for _, pattern := range []string{"../../*.md", "../../docs/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("files %q, %v", files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, link := range mdLink.FindAllStringSubmatch(codeBlocks.ReplaceAllString(string(text), ""), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), link[1])); err != nil {
					t.Errorf("%s links to %s, which is not there", file, link[1])
				}
			}
		}
	}
}

var (
	testName   = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w+`)
	testFunc   = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)[A-Z]\w+)\(`)
	codeBlocks = regexp.MustCompile("(?ms)^```.*?^```")
)

// The tests that pages and package comments name exist.
func TestNamedTestsExist(t *testing.T) {
	names, texts := map[string]bool{}, map[string]string{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "node_modules" || d.Name() == "target"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"), d.Name() == "doc.go", strings.HasSuffix(path, ".md"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, f := range testFunc.FindAllSubmatch(text, -1) {
				names[string(f[1])] = true
			}
			if !strings.HasSuffix(path, "_test.go") {
				texts[path] = codeBlocks.ReplaceAllString(string(text), "")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for path, text := range texts {
		for _, name := range testName.FindAllString(text, -1) {
			named++
			if !names[name] {
				t.Errorf("%s names %s, and there is no such test", path, name)
			}
		}
	}
	if named < 20 {
		t.Errorf("%d names of tests were found", named)
	}
}

var metricName = regexp.MustCompile(`"(greenroom_[a-z_]+)", "|Name: "(greenroom_[a-z_]+)"`)

// Every metric is on the page of metrics, and every name there is a metric.
func TestMetricsAreDescribed(t *testing.T) {
	files, err := filepath.Glob("../../server/metrics/metrics*.go")
	if err != nil || len(files) < 3 {
		t.Fatalf("files %q, %v", files, err)
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range metricName.FindAllStringSubmatch(string(text), -1) {
			name := m[1] + m[2]
			names[name] = true
			if !strings.Contains(string(page), "\n| `"+name+"` |") {
				t.Errorf("docs/metrics.md does not say what %s counts", name)
			}
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(greenroom_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		if !names[row[1]] {
			t.Errorf("docs/metrics.md has %s, which no server counts", row[1])
		}
	}
	if len(names) < 40 {
		t.Errorf("%d names of metrics were found", len(names))
	}
}
