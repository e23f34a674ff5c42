// Command project makes the guest project of `greenroom new --lang rust` in a
// folder, for build/rust/test.sh to build and test.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	rustsdk "github.com/greenroom-run/greenroom/guest-sdk/rust"
)

const sdk = ".greenroom/sdk/rust"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: project FOLDER")
		os.Exit(2)
	}
	dir := os.Args[1]
	err := rustsdk.WriteProject(dir, filepath.Base(dir), sdk)
	if err == nil {
		err = rustsdk.WriteSDK(filepath.Join(dir, filepath.FromSlash(sdk)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "project:", err)
		os.Exit(1)
	}
}
