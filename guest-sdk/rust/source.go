// Package rustsdk carries the source of the Rust SDK and of a project that uses
// it, so that the greenroom binary can set up guest projects offline. It is for
// tools; guests depend on the crate.
package rustsdk

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// source is the crate without its tests: they read vectors that only the
// repository has. Without its Cargo.lock, too: cargo heeds that of the project.
//
//go:embed Cargo.toml README.md build.rs src macros/Cargo.toml macros/src
var source embed.FS

// template is a project with a counter and its test. It uses the SDK without
// serde, and so without anything that cargo would have to download.
//
//go:embed all:template
var template embed.FS

// WriteSDK writes the crate to dir, making folders as needed. It refuses to
// overwrite: a file that exists is an error that wraps [os.ErrExist].
func WriteSDK(dir string) error {
	if err := os.CopyFS(dir, source); err != nil {
		return fmt.Errorf("write the Rust SDK: %w", err)
	}
	return nil
}

// WriteProject writes a guest project to dir, as [WriteSDK] does. name must be a
// name that cargo accepts: letters, digits, - and _, beginning with a letter.
// sdk is where the project finds the crate, relative to dir.
func WriteProject(dir, name, sdk string) error {
	files, err := fs.Sub(template, "template")
	if err != nil {
		return fmt.Errorf("write a Rust project: %w", err)
	}
	err = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("{{name}}"), []byte(name))
		text = bytes.ReplaceAll(text, []byte("{{sdk}}"), []byte(filepath.ToSlash(sdk)))
		return writeNew(filepath.Join(dir, filepath.FromSlash(path)), text)
	})
	if err != nil {
		return fmt.Errorf("write a Rust project: %w", err)
	}
	return nil
}

func writeNew(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
