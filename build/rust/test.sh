#!/usr/bin/env bash
# Tests the Rust SDK, its template and the Rust examples, natively and as Wasm
# builds. Run build/rust/setup.sh first.
set -euo pipefail
cd "$(dirname "$0")/../.."

# What builds guests need not be the newest Rust here: the SDK promises to
# compile on both.
newer=$(command -v cargo || true)
toolchain=$(build/rust/toolchain.sh) || { echo "rust: no Rust for Wasm; run build/rust/setup.sh" >&2; exit 1; }
eval "$toolchain"
[ "$newer" != "$CARGO" ] || newer=

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

step() { printf '\n-- rust: %s\n' "$*"; }

# native CARGO...: the tests of the SDK with its features and without, and of the
# examples. Among them are the diagnostics, for a Rust that takes them.
native() {
	"$@" test --locked --manifest-path guest-sdk/rust/Cargo.toml
	"$@" test --locked --manifest-path guest-sdk/rust/Cargo.toml --no-default-features
	"$@" test --locked --manifest-path guest-sdk/rust/Cargo.toml --package greenroom-macros
	"$@" test --locked --manifest-path examples/account/Cargo.toml
	"$@" test --locked --manifest-path examples/bank/accounts/Cargo.toml
	"$@" test --locked --manifest-path examples/shop/goods/Cargo.toml
	"$@" test --locked --manifest-path examples/wallet/rust/Cargo.toml
	"$@" test --locked --manifest-path internal/guestgen/testdata/sink/Cargo.toml
}

step "tests, $("$RUSTC" --version)"
native "$CARGO"

if [ -n "$newer" ]; then
	step "tests, $(env -u RUSTC "$newer" --version)"
	# A target folder of its own: two compilers would evict each other's work.
	CARGO_TARGET_DIR=$PWD/.cache/rust/target native env -u RUSTC -u RUSTDOC -u RUSTC_BOOTSTRAP "$newer"
fi

step "a new project, with no registry at all"
go run ./guest-sdk/rust/internal/project "$scratch/shop"
(
	cd "$scratch/shop"
	export CARGO_HOME=$scratch/empty
	"$CARGO" test --offline
	# shellcheck disable=SC2086 # a list of arguments
	"$CARGO" build --offline --release $WASM_FLAGS
	ls -l target/wasm32-unknown-unknown/release/*.wasm
)

step "examples/account, for Wasm"
# shellcheck disable=SC2086
(cd examples/account && "$CARGO" build --locked --release $WASM_FLAGS && ls -l target/wasm32-unknown-unknown/release/*.wasm)

step "formatting and clippy"
lint=${newer:-$CARGO}
if env -u RUSTC "$lint" clippy --version >/dev/null 2>&1 && env -u RUSTC "$lint" fmt --version >/dev/null 2>&1; then
	export CARGO_TARGET_DIR=$PWD/.cache/rust/target
	env -u RUSTC "$lint" fmt --check --manifest-path guest-sdk/rust/testdata/kit/Cargo.toml
	for crate in guest-sdk/rust examples/account examples/bank/accounts examples/shop/goods examples/wallet/rust internal/guestgen/testdata/sink; do
		env -u RUSTC "$lint" fmt --check --manifest-path $crate/Cargo.toml
		env -u RUSTC -u RUSTDOC "$lint" clippy --locked --all-targets --manifest-path $crate/Cargo.toml -- -D warnings
	done
else
	echo "skipped: this Rust has no rustfmt and clippy"
fi
