package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
)

// The documents of the repository have the places that the flags write into.
func TestDocumentsHavePlacesForFigures(t *testing.T) {
	if err := writable(filepath.Join("..", "docs", "performance.md"), "", "", "", ""); err != nil {
		t.Error(err)
	}
	if err := writable("", "", "README.md", "", ""); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"a part of an area": writable("", "", "README.md", "", "pipeline.1"),
		"table and bars":    writable("README.md", "", "", "pipeline", ""),
		"no place":          writable("README.md", "", "", "", ""),
		"hosts and bars":    writable("", "README.md", "", "pipeline", ""),
	} {
		if err == nil {
			t.Errorf("%s: would be written", name)
		}
	}
}

func TestWriteBarsWritesEachAreaInItsPlace(t *testing.T) {
	var results []bar.Result
	var text string
	for _, area := range areas() {
		b := bar.Bar{Name: area + ".1", Checks: []bar.Check{{Name: "of " + area, Want: bar.AtMost, Target: 2}}}
		rec := new(bar.Record)
		rec.Compare("of "+area, 1, 1)
		res, err := b.Judge(rec)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, res)
		text += "<!-- bars " + area + ": begin -->\nold\n<!-- bars " + area + ": end -->\n"
	}
	document := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeBars(document, "the command", results); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, area := range areas() {
		line := strings.Index(string(written), "| 1 | of "+area+" |")
		if line < at || !strings.Contains(string(written), "("+area+".svg)") {
			t.Errorf("the bars of %s are not in their place:\n%s", area, written)
		}
		at = line
		if _, err := os.Stat(filepath.Join(filepath.Dir(document), area+".svg")); err != nil {
			t.Error(err)
		}
	}
	if strings.Contains(string(written), "old") {
		t.Errorf("old figures stand beside new ones:\n%s", written)
	}
}
