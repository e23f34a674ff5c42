//go:build race

package compile

import (
	"os"
	"path/filepath"
	"runtime/debug"
)

const raceEnabled = true

// testCompiler returns a program that compiles without the race detector, under which it
// takes ten times as long and has nothing to find in one goroutine.
// GREENROOM_TEST_COMPILER names the folder of three: code is found by the wazero that
// wrote it, whose version the tests of a package main know and other tests do not; and
// the tests of this package run modules as they are.
func testCompiler() string {
	dir := os.Getenv("GREENROOM_TEST_COMPILER")
	if dir == "" {
		return ""
	}
	if info, ok := debug.ReadBuildInfo(); ok && len(info.Deps) > 0 {
		return filepath.Join(dir, "main")
	}
	if filepath.Base(os.Args[0]) == "compile.test" {
		return filepath.Join(dir, "asis")
	}
	return filepath.Join(dir, "test")
}
