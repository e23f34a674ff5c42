#!/usr/bin/env bash
# Builds the Extism plug-ins that tests and examples use, into .cache/extism. Run
# build/rust/setup.sh and build/node/setup.sh first. Safe to run again; does
# nothing when there is nothing to do.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=.cache/extism
mkdir -p "$out"

say() { echo "extism: $*"; }
fail() { echo "extism: $*" >&2; exit 1; }

# changed NAME FILE...: whether the files are others than those that NAME.wasm was
# built from. sources has them then.
changed() {
	local name=$1
	shift
	sources=$(cat "$@" | git hash-object --stdin)
	[ ! -e "$out/$name.wasm" ] || [ "$(cat "$out/$name.stamp" 2>/dev/null)" != "$sources" ]
}

# built NAME FILE: the plug-in is in FILE.
built() {
	cp "$2" "$out/$1.wasm"
	echo "$sources" >"$out/$1.stamp"
	say "$out/$1.wasm, $(stat -c %s "$2" 2>/dev/null || stat -f %z "$2") bytes"
}

counter=examples/extism-counter
if changed counter "$counter"/package.json "$counter"/package-lock.json "$counter"/assembly/*.ts; then
	command -v npm >/dev/null || fail "npm is needed; run build/node/setup.sh"
	say "building $counter"
	(cd "$counter" && npm ci --loglevel=error && npm run --silent build)
	built counter "$counter/build/counter.wasm"
fi

ledger=examples/extism-ledger
if changed ledger "$ledger"/Cargo.toml "$ledger"/Cargo.lock "$ledger"/.cargo/config.toml "$ledger"/src/*.rs; then
	toolchain=$(build/rust/toolchain.sh) || fail "no Rust for Wasm; run build/rust/setup.sh"
	eval "$toolchain"
	say "building $ledger"
	# shellcheck disable=SC2086 # a list of arguments
	(cd "$ledger" && "$CARGO" build --quiet --locked --release $WASM_FLAGS)
	built ledger "$ledger/target/wasm32-unknown-unknown/release/extism_ledger.wasm"
fi
