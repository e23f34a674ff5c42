#!/usr/bin/env bash
# Tests the Go modules in the folders given: the packages PKG of each (./...), with the
# flags of go test in TESTFLAGS. A module that fails keeps no other from being tested.
# The end of the output repeats what the tests that failed say, up to a bound, and names every
# test and package that failed. It is left in .cache/test-failures for what ends later.
set -uo pipefail
pkg=${PKG:-./...}
# Go stops a package after 10 minutes by itself, which a machine that also does other work
# needs. A -timeout in TESTFLAGS comes later on the command line, and so counts.
read -ra flags <<<"-timeout 40m ${TESTFLAGS:-}"

# It waits more than it works, so it starts first.
longest='/greenroom/internal/node$'
# Not for the race detector, under which they would take up to ten times as long. They run
# beside the others, at full size.
# Processes that they start, in which it sees nothing, or what other packages test with it:
processes='cmd/greenroom|internal/(cluster|crash|demo|lint)|guest-sdk/rust'
# One goroutine, beside those of stores that have raced tests of their own:
alone='engine/meter|host/speculation|internal/history/listappend|scheduler/assignment|server/query'
no_race="/greenroom/($processes|$alone)\$"

logs=$(mktemp -d)
trap 'rm -r "$logs"' EXIT
failed=()

unraced_flags=()
for f in "${flags[@]}"; do [ "$f" = -race ] || unraced_flags+=("$f"); done
without=$(go list "$pkg" 2>/dev/null | grep -E "$no_race") # what cannot be listed fails below
xargs -r go test "${unraced_flags[@]}" -p 1 <<<"$without" >"$logs/without-race" 2>&1 &
unraced=$!
# crashed LOG: the packages that the race detector ended, not their tests. It does that, rarely, in bubbles
# of testing/synctest: by a signal outside Go code (a fault of Go code is a panic), or by a check of its
# own state (go.dev/issue/78156).
crashed() {
  awk '
    /^SIGSEGV: segmentation violation$/ || /ThreadSanitizer: CHECK failed: tsan_/ { c = 1 }
    /^(ok|FAIL)[ \t]+[^ \t]/ { if (c && $1 == "FAIL") print $2; c = 0 }
  ' "$1"
}

for module in "$@"; do
  echo "== $module"
  (
    set -e
    cd "$module"
    all=$(go list "$pkg")
    { grep -E "$longest" <<<"$all" || true; grep -vE "$longest|$no_race" <<<"$all" || true; } | xargs -r go test "${flags[@]}"
  ) 2>&1 | tee "$logs/module" || {
    again=$(crashed "$logs/module")
    if [ -n "$again" ] && [ "$(wc -l <<<"$again")" -eq "$(grep -cE '^FAIL[[:space:]]+[^[:space:]]' "$logs/module")" ]; then
      echo "== once more, since the race detector has crashed: $again"
      (cd "$module" && xargs go test "${flags[@]}" <<<"$again") 2>&1 | tee "$logs/module" || failed+=("$module")
    else
      failed+=("$module")
    fi
  }
  cat "$logs/module" >>"$logs/modules"
done
echo "== without the race detector"
wait "$unraced" || failed+=("without the race detector")
cat "$logs/without-race"

mkdir -p .cache
rm -f .cache/test-failures
[ ${#failed[@]} -eq 0 ] && exit
{
  echo
  echo "== what failed tests say"
  awk -f build/go/failures.awk "$logs/modules" "$logs/without-race"
  echo
  echo "== failed"
  # What a failed test, build, or run that took too long is called in the output of go test.
  grep -hE '^ *--- FAIL: |^FAIL[[:space:]]+[^[:space:]]|^panic: test timed out|^[[:space:]]+Test[A-Za-z0-9_/]+ \([0-9.ms]+\)$' "$logs/modules" "$logs/without-race"
  (IFS=,; echo "tests failed in: ${failed[*]}")
} | tee .cache/test-failures
exit 1
