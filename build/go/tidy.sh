#!/usr/bin/env bash
# Checks that the go.mod and go.sum in the folders given are what the code needs. The
# root's go.mod replaces nothing, since `go install MODULE/cmd/greenroom@VERSION` refuses a
# module that does: here it gets what go.work does otherwise.
set -euo pipefail
root=$PWD
tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT
export GOWORK=off
for module in "$@"; do
  cd "$root/$module"
  flags=()
  if [ "$module" = . ]; then
    cp go.mod go.sum "$tmp"
    go mod edit -replace "github.com/greenroom-run/greenroom/abi=$root/abi" \
      -replace "github.com/greenroom-run/greenroom/guest-sdk/go=$root/guest-sdk/go" "$tmp/go.mod"
    flags=(-modfile="$tmp/go.mod")
  fi
  go mod tidy -diff "${flags[@]}"
done
