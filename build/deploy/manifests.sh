#!/usr/bin/env bash
# Builds a program that reads Kubernetes manifests strictly, into Kubernetes' own types: an
# unknown kind, version or field, a field twice, and a value of another type are errors. It
# is of a module that is made for it, so that nothing else depends on Kubernetes.
#
#	build/deploy/manifests.sh VERSION FILE     the version of k8s.io/api, the program to write
set -euo pipefail
version=$1 out=$(realpath -m "$2")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work"
cat >main.go <<'GO'
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	read := 0
	for _, name := range os.Args[1:] {
		n, err := check(name)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		read += n
	}
	if read == 0 {
		fmt.Fprintln(os.Stderr, "there is no manifest")
		os.Exit(1)
	}
}

func check(name string) (read int, err error) {
	types := runtime.NewScheme()
	if err := errors.Join(apps.AddToScheme(types), core.AddToScheme(types), policy.AddToScheme(types)); err != nil {
		return 0, err
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, types, types, json.SerializerOptions{Yaml: true, Strict: true})
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for documents := yaml.NewYAMLReader(bufio.NewReader(file)); ; {
		document, err := documents.Read()
		switch {
		case errors.Is(err, io.EOF):
			return read, nil
		case err != nil:
			return read, err
		case len(bytes.TrimSpace(document)) == 0:
			continue
		}
		if _, _, err := decoder.Decode(document, nil, nil); err != nil {
			return read, fmt.Errorf("%w in\n%s", err, document)
		}
		read++
	}
}
GO
export GOWORK=off GOFLAGS=-mod=mod
go mod init manifests
go get "k8s.io/api@$version" "k8s.io/apimachinery@$version"
go build -o "$out" .
