#!/usr/bin/env bash
# Tests the Rust SDK, its template and the Rust examples, natively and as Wasm
# builds. Run scripts/rust/setup.sh first.
set -euo pipefail
cd "$(dirname "$0")/../.."

# What builds guests need not be the newest Rust here: the SDK promises to
# compile on both.
newer=$(command -v cargo || true)
toolchain=$(scripts/rust/toolchain.sh) || { echo "rust: no Rust for Wasm; run scripts/rust/setup.sh" >&2; exit 1; }
eval "$toolchain"
[ "$newer" != "$CARGO" ] || newer=

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

step() { printf '\n-- rust: %s\n' "$*"; }

# native CARGO...: the tests of the SDK with and without serde, and of the examples.
native() {
	"$@" test --locked --manifest-path guest-sdk/rust/Cargo.toml
	"$@" test --locked --manifest-path guest-sdk/rust/Cargo.toml --no-default-features
	"$@" test --locked --manifest-path examples/account/Cargo.toml
}

step "tests, $("$RUSTC" --version)"
native "$CARGO"

if [ -n "$newer" ]; then
	step "tests, $(env -u RUSTC "$newer" --version)"
	# A target folder of its own: two compilers would evict each other's work.
	CARGO_TARGET_DIR=$PWD/.cache/rust/target native env -u RUSTC -u RUSTDOC -u RUSTC_BOOTSTRAP "$newer"
fi

step "the template, with no registry at all"
cp -r guest-sdk/rust/template "$scratch/guest"
mv "$scratch/guest/gitignore" "$scratch/guest/.gitignore"
mv "$scratch/guest/cargo-config.toml" "$scratch/config.toml"
mkdir "$scratch/guest/.cargo" && mv "$scratch/config.toml" "$scratch/guest/.cargo/config.toml"
mv "$scratch/guest/Cargo.toml.tmpl" "$scratch/guest/Cargo.toml"
sed -i -e "s|{{name}}|guest|g" -e "s|{{sdk}}|$PWD/guest-sdk/rust|g" "$scratch"/guest/{Cargo.toml,README.md,src/lib.rs}
(
	cd "$scratch/guest"
	export CARGO_HOME=$scratch/empty
	"$CARGO" test --offline
	# shellcheck disable=SC2086 # a list of arguments
	"$CARGO" build --offline --release $WASM_FLAGS
)

step "examples/account, for Wasm"
# shellcheck disable=SC2086
(cd examples/account && "$CARGO" build --locked --release $WASM_FLAGS && ls -l target/wasm32-unknown-unknown/release/*.wasm)

step "formatting and clippy"
if [ -n "$newer" ] && env -u RUSTC "$newer" clippy --version >/dev/null 2>&1; then
	export CARGO_TARGET_DIR=$PWD/.cache/rust/target
	for crate in guest-sdk/rust examples/account; do
		env -u RUSTC "$newer" fmt --check --manifest-path $crate/Cargo.toml
		env -u RUSTC -u RUSTDOC "$newer" clippy --locked --all-targets --manifest-path $crate/Cargo.toml -- -D warnings
	done
else
	echo "skipped: no rustfmt and clippy here"
fi
