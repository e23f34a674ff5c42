#!/usr/bin/env bash
# Runs every fuzz target of every module for FUZZTIME (default 5s) each.
set -euo pipefail
cd "$(dirname "$0")/.."
for file in $(git ls-files '*_test.go'); do
  for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
    dir=$(dirname "$file")
    echo "== $dir $target"
    (cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-5s}" -fuzzminimizetime 10x .)
  done
done
