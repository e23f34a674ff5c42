#!/usr/bin/env bash
# Runs fuzz targets for FUZZTIME (default 5s) each, and says at the end how many
# executions each had and whether anything was found.
#
#	build/fuzz.sh          every target of every module
#	build/fuzz.sh guests   upload and metering: what stands between the bytes of
#	                         a guest and the host
set -uo pipefail
cd "$(dirname "$0")/.."

case ${1:-all} in
all)
	targets=$(git ls-files '*_test.go' | while read -r file; do
		sed -n "s#^func \(Fuzz[A-Za-z0-9_]*\)(.*#$(dirname "$file") \1#p" "$file"
	done)
	;;
guests)
	targets='engine/wasm FuzzInspect
engine/extism FuzzInspect
engine/meter FuzzRewrite
engine/meter FuzzRandomModules
engine/wasi FuzzCall'
	;;
*)
	echo "fuzz: $1 is no set of targets; use all or guests" >&2
	exit 2
	;;
esac

summary=() failed=0
while read -r dir target; do
	echo "== $dir $target"
	log=$(mktemp)
	(cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-5s}" -fuzzminimizetime 10x .) </dev/null 2>&1 | tee "$log"
	status=$?
	executions=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
	# A short run may not get beyond the corpus, which are executions as well.
	[ -n "$executions" ] || executions=$(sed -n 's#.*coverage: \([0-9]*\)/.*#\1#p' "$log" | tail -n 1)
	# Before Go 1.27 a run may fail because its time is up: go.dev/issue/75804. A
	# finding says where its input was written, a dead worker that it died.
	if grep -q '^    context deadline exceeded$' "$log" && ! grep -qE 'Failing input written|fuzzing process' "$log"; then
		status=0
	fi
	rm -f "$log"
	if [ "$status" = 0 ]; then
		summary+=("fuzzed $dir $target: ${executions:-0} executions, no finding")
	else
		summary+=("fuzzed $dir $target: ${executions:-0} executions, FAILED, see above")
		failed=1
	fi
done <<<"$targets"
printf '%s\n' "${summary[@]}"
exit $failed
