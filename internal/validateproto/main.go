// Command validateproto writes buf/validate/validate.proto into a folder, from
// the descriptor that is linked into the protovalidate runtime: so that buf
// resolves the import offline, at exactly the version that go.mod names.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	validate "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/jhump/protoreflect/v2/protoprint"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: validateproto FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "validateproto:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	file := validate.File_buf_validate_validate_proto
	path := filepath.Join(folder, filepath.FromSlash(file.Path()))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := new(protoprint.Printer).PrintProtoFile(file, out); err != nil {
		return fmt.Errorf("print %s: %w", file.Path(), err)
	}
	return out.Close()
}
