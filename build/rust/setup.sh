#!/usr/bin/env bash
# Makes Rust guests buildable on this machine, and their crates available.
# Safe to run again; does nothing when there is nothing to do.
#
# A Rust that already has the wasm32-unknown-unknown target is used as it is.
# Otherwise, where there is apt-get, the distribution's packages are installed
# beside whatever rustup has. Neither: it fails and says what to run.
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { echo "rust: $*"; }
fail() { echo "rust: $*" >&2; exit 1; }

# installed PACKAGE: whether dpkg has it.
installed() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

install_packages() {
	local packages
	if ! command -v apt-get >/dev/null; then
		fail "no Rust here can build for wasm32-unknown-unknown. Run: rustup target add wasm32-unknown-unknown"
	fi
	if installed rustc-web; then
		# Debian's newer compiler has no prebuilt library for Wasm, and cannot
		# be installed together with the older one, which has.
		packages="cargo-web rust-web-src $(apt-cache --names-only search '^lld-[0-9]+$' | cut -d' ' -f1 | sort -V | tail -n 1)"
	else
		packages="rustc cargo libstd-rust-dev-wasm32 lld"
	fi
	local install="apt-get install -y --no-install-recommends $packages" root=
	if [ "$(id -u)" != 0 ]; then
		root=sudo
		command -v sudo >/dev/null ||
			fail "no Rust here can build for wasm32-unknown-unknown, and installing one needs root. Run: rustup target add wasm32-unknown-unknown, or as root: $install"
	fi
	say "installing $packages"
	export DEBIAN_FRONTEND=noninteractive
	# The lists may be missing or old: then once more with new ones.
	# shellcheck disable=SC2086 # lists of words
	$root $install >/dev/null 2>&1 || { $root apt-get update >/dev/null && $root $install >/dev/null; } ||
		fail "the packages could not be installed. Run: rustup target add wasm32-unknown-unknown, or as root: $install"
}

if ! toolchain=$(build/rust/toolchain.sh); then
	install_packages
	toolchain=$(build/rust/toolchain.sh) ||
		fail "the packages are installed, but build/rust/toolchain.sh finds no complete Rust. Run: rustup target add wasm32-unknown-unknown"
fi
eval "$toolchain"
say "$("$RUSTC" --version) at $RUSTC, standard library for Wasm: $WASM_RUST"

# minor CARGO: the second number of its version.
minor() { "$1" --version | sed -E 's/^cargo [0-9]+\.([0-9]+).*/\1/'; }

# Cargo before 1.68 reads the registry only through a Git repository of several
# hundred megabytes, and not at all where just the registry itself is reached.
# A newer cargo, if there is one, fetches the crates for it into a folder, and a
# configuration that cargo finds from every folder of this repository names it.
readonly VENDOR=.cache/rust/vendor CONFIG=.cargo/config.toml
locks=(guest-sdk/rust/Cargo.lock examples/account/Cargo.lock examples/wallet/rust/Cargo.lock internal/guestgen/testdata/sink/Cargo.lock examples/extism-ledger/Cargo.lock)
if [ "$(minor "$CARGO")" -lt 68 ] && newer=$(command -v cargo) && [ "$(minor "$newer")" -ge 68 ]; then
	stamp=$(cat "${locks[@]}" | sha256sum | cut -c1-16)
	crates=$VENDOR/$stamp # of its own, for checkouts that share the cache
	if [ ! -e "$crates/.complete" ] || ! grep -q "$crates" "$CONFIG" 2>/dev/null; then
		say "fetching the crates of ${locks[*]}"
		rm -rf "$crates" "$CONFIG"
		sync=()
		for lock in "${locks[@]:1}"; do sync+=(--sync "${lock%.lock}.toml"); done
		# RUSTC is for the older cargo alone.
		env -u RUSTC -u RUSTDOC "$newer" vendor --quiet --locked --versioned-dirs \
			--manifest-path "${locks[0]%.lock}.toml" "${sync[@]}" "$crates" >/dev/null
		touch "$crates/.complete"
		mkdir -p "${CONFIG%/*}"
		echo '*' >"${CONFIG%/*}/.gitignore"
		cat >"$CONFIG" <<-EOF
			# Written by build/rust/setup.sh, which says why. To use the registry
			# again, for example to add a crate, delete this file.
			[source.crates-io]
			replace-with = "greenroom"

			[source.greenroom]
			directory = "$crates"
		EOF
	fi
fi
