#!/usr/bin/env bash
# Builds a program that validates a compose file as Docker Compose does: its schema, and that
# what its services name is there. It is of a module that is made for it, so that nothing
# else depends on the loader.
#
#	build/deploy/compose.sh VERSION FILE     the version of compose-go, the program to write
set -euo pipefail
version=$1 out=$(realpath -m "$2")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work"
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:])
	if err == nil {
		_, err = options.LoadProject(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
GO
export GOWORK=off GOFLAGS=-mod=mod
go mod init compose
go get "github.com/compose-spec/compose-go/v2@$version"
go build -o "$out" .
