#!/usr/bin/env bash
# Finds a Rust that can build guests and says how to use it. This file is the
# one place where that is decided for scripts; internal/guestbuild/rust.go makes
# the same choice for `greenroom build`.
#
#   eval "$(build/rust/toolchain.sh)"     # in a script
#   build/rust/toolchain.sh               # to look at
#
# It looks first at the cargo and rustc on PATH (rustup's, usually), then at
# /usr/bin, which rustup hides. The first that has everything is taken:
#
#   kind        standard library for Wasm               linker           cargo build
#   prebuilt    SYSROOT/lib/rustlib/TARGET/lib          rust-lld of the  --target TARGET
#               (rustup target add; Debian's            sysroot, or
#               libstd-rust-dev-wasm32)                 wasm-ld[-NN]
#   build-std   SYSROOT/lib/rustlib/src/rust/library    as above         --target TARGET
#               (Debian's rust-web-src; rustup                           -Zbuild-std=std,panic_abort
#               component add rust-src)                                  under RUSTC_BOOTSTRAP=1
#
# with TARGET = wasm32-unknown-unknown and SYSROOT = `rustc --print sysroot`.
#
# Printed, as shell exports:
#   CARGO RUSTC RUSTDOC   what to run; cargo itself honours the last two
#   CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER   only where rustc has no rust-lld
#   RUSTC_BOOTSTRAP=1     only for build-std
#   WASM_FLAGS            the arguments of the last column
#   WASM_RUST             the kind, for people
#
# Exit status 3, and nothing on standard output: there is none.
set -euo pipefail

TARGET=wasm32-unknown-unknown

# first_match PATTERN...: the first existing path that a glob pattern names.
first_match() {
	local found
	found=$(compgen -G "$1" | sort -V | tail -n 1) || return 1
	[ -n "$found" ] && echo "$found"
}

# linker: LLVM's Wasm linker. Distributions put LLVM's version in its name; an
# LLVM newer than rustc's own reads what rustc wrote, so the newest is right.
linker() {
	command -v wasm-ld || first_match '/usr/bin/wasm-ld-[0-9]*'
}

# try CARGO RUSTC RUSTDOC: prints the exports if this Rust has all it needs.
try() {
	local cargo rustc rustdoc sysroot kind flags ld=
	cargo=$(command -v "$1") && rustc=$(command -v "$2") && rustdoc=$(command -v "$3") || return 1
	sysroot=$("$rustc" --print sysroot 2>/dev/null) || return 1
	flags="--target $TARGET"
	if first_match "$sysroot/lib/rustlib/$TARGET/lib/libstd-*.rlib" >/dev/null; then
		kind=prebuilt
	elif [ -e "$sysroot/lib/rustlib/src/rust/library/std/Cargo.toml" ]; then
		kind=build-std
		flags="$flags -Zbuild-std=std,panic_abort"
	else
		return 1
	fi
	first_match "$sysroot/lib/rustlib/*/bin/rust-lld" >/dev/null || ld=$(linker) || return 1

	printf 'export CARGO=%q RUSTC=%q RUSTDOC=%q WASM_RUST=%q WASM_FLAGS=%q\n' \
		"$cargo" "$rustc" "$rustdoc" "$kind" "$flags"
	[ -z "$ld" ] || printf 'export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=%q\n' "$ld"
	[ "$kind" = prebuilt ] || echo 'export RUSTC_BOOTSTRAP=1'
}

try cargo rustc rustdoc || try /usr/bin/cargo /usr/bin/rustc /usr/bin/rustdoc || exit 3
