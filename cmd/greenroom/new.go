package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	gosdk "github.com/greenroom-run/greenroom/guest-sdk/go"
	rustsdk "github.com/greenroom-run/greenroom/guest-sdk/rust"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// projectSDK is where a project keeps its copy of the SDK.
const projectSDK = ".greenroom/sdk"

// rustSDK is the name of the SDK's crate.
const rustSDK = "greenroom"

//go:embed templates
var templates embed.FS

func newCommand(c *cli) *cobra.Command {
	var lang string
	cmd := &cobra.Command{
		Use:        "new --lang go|rust NAME",
		SuggestFor: []string{"init", "create"},
		Short:      "Start a guest project",
		Long: `Make a folder NAME with a guest that builds at once, and its test. It carries a
copy of the SDK in .greenroom/sdk, so that it needs no network; commit it.`,
		Example: `  greenroom new --lang go shop
  cd shop && greenroom dev`,
		Args: takes("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			return newProject(c, args[0], guestbuild.Language(lang))
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "", "language: go or rust")
	completeFlag(cmd, "lang", fixedCompletion("go", "rust"))
	return cmd
}

// Names that go, cargo and file systems all take.
var projectName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

func newProject(c *cli, path string, lang guestbuild.Language) error {
	name := filepath.Base(path)
	if !projectName.MatchString(name) {
		return usagef("%q is no name for a project; use a-z, 0-9, - and _, and begin with a letter", name)
	}
	if lang == guestbuild.LanguageRust && name == rustSDK {
		return usagef("cargo cannot tell a project of the name %q from the SDK; give another name", name)
	}
	var files func(dir, name string) error
	switch lang {
	case guestbuild.LanguageGo:
		files = writeGoProject
	case guestbuild.LanguageRust:
		files = writeRustProject
	case "":
		return usagef("--lang is missing; give go or rust")
	default:
		return usagef("--lang is %q; give go or rust", lang)
	}
	if err := isFree(path); err != nil {
		return err
	}
	// All of it or nothing: it is made beside its place and moved there.
	tmp, err := os.MkdirTemp(filepath.Dir(path), ".greenroom-new-")
	if err != nil {
		return fmt.Errorf("make project: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := files(tmp, name); err != nil {
		return fmt.Errorf("make project: %w", err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("make project: %w", err)
	}
	// An empty folder makes way; Remove refuses any other.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make project: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("make project: %w", err)
	}
	if c.wantsJSON() {
		return writeJSON(c.stdout, map[string]string{"path": path, "lang": string(lang)})
	}
	nextSteps(c, path, lang)
	return nil
}

// isFree reports why a project cannot be made at path.
func isFree(path string) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err == nil:
		return fmt.Errorf("%s exists and is not empty; give another name, or empty it", path)
	}
	return fmt.Errorf("%s exists and is no folder; give another name", path)
}

// goWorkspace returns the go.work that go commands in dir heed; empty if none.
func goWorkspace(c *cli, dir string) string {
	if v := c.getenv("GOWORK"); v == "off" {
		return ""
	} else if v != "" {
		return v
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	for {
		file := filepath.Join(dir, "go.work")
		if info, err := os.Stat(file); err == nil && !info.IsDir() {
			return file
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

func nextSteps(c *cli, path string, lang guestbuild.Language) {
	test := "go test ./..."
	if lang == guestbuild.LanguageRust {
		test = "cargo test"
	} else if workspace := goWorkspace(c, path); workspace != "" {
		test = "GOWORK=off " + test
		defer c.printf(c.stderr, "\n%s is a workspace that this project is not part of: go commands need GOWORK=off here.\nMove the project out of that folder to do without.\n", workspace)
	}
	c.printf(c.stderr, "%s made %s\n\nNext:\n  cd %s\n", c.paint(c.stderr, green, "✓"), path, path)
	c.facts(c.stderr, "  ",
		test, "# run its test, no Wasm needed",
		"greenroom dev", "# serve it here, rebuild on change")
	if lang == guestbuild.LanguageRust {
		c.printf(c.stderr, "\nThe first build of a Rust guest may take minutes; later ones take seconds.\n")
	}
}

func writeGoProject(dir, name string) error {
	if err := writeTemplate(dir, "templates/go", name); err != nil {
		return err
	}
	return gosdk.WriteTo(filepath.Join(dir, filepath.FromSlash(projectSDK)))
}

func writeRustProject(dir, name string) error {
	if err := rustsdk.WriteSDK(filepath.Join(dir, filepath.FromSlash(projectSDK), "rust")); err != nil {
		return err
	}
	return rustsdk.WriteProject(dir, name, projectSDK+"/rust")
}

// writeTemplate writes the files of a template folder, without the ending .tmpl
// that keeps the compiler from taking them for its own.
func writeTemplate(dir, root, name string) error {
	return fs.WalkDir(templates, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(path)
		if err != nil {
			return err
		}
		rel := strings.TrimSuffix(strings.TrimPrefix(path, root+"/"), ".tmpl")
		if rel == "gitignore" {
			rel = ".gitignore" // which would hide files of this repository
		}
		return writeNew(filepath.Join(dir, filepath.FromSlash(rel)), bytes.ReplaceAll(text, []byte("{{name}}"), []byte(name)))
	})
}

func writeNew(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
