// Package section replaces marked parts of documents, so that figures in them are
// written by the program that measured them.
package section

import (
	"fmt"
	"os"
	"strings"
)

// Replace puts text, in Markdown, between the lines
//
//	<!-- NAME: begin -->
//	<!-- NAME: end -->
//
// of the document at path. Both must be there, once and in this order.
func Replace(path, name, text string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	changed, err := replaced(path, name, text)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(changed), info.Mode().Perm())
}

// Check reports whether [Replace] would find its place: ask before a long
// measurement.
func Check(path, name string) error {
	_, err := replaced(path, name, "")
	return err
}

func replaced(path, name, text string) (string, error) {
	old, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	changed, err := replace(string(old), name, text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return changed, nil
}

func replace(old, name, text string) (string, error) {
	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->\n"
	if strings.Count(old, begin) != 1 || strings.Count(old, end) != 1 {
		return "", fmt.Errorf("the section %q has no place; give it the lines %q and %q once each", name, begin, end)
	}
	head, rest, _ := strings.Cut(old, begin)
	_, tail, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("the section %q ends before it begins; exchange its two lines", name)
	}
	return head + begin + "\n" + strings.TrimSpace(text) + "\n\n" + end + tail, nil
}
