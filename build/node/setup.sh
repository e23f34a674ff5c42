#!/usr/bin/env bash
# Prepares the test of a client in another language: Node, its packages, and a
# client generated from our protos. Safe to run again; does nothing when there is
# nothing to do.
set -euo pipefail
cd "$(dirname "$0")/../.."
client=build/node/client

say() { echo "node: $*"; }
fail() { echo "node: $*" >&2; exit 1; }

# usable: whether there is a Node that runs the packages.
usable() {
	command -v npm >/dev/null && command -v node >/dev/null &&
		[ "$(node -p 'Number(process.versions.node.split(".")[0]) >= 20')" = true ]
}

if ! usable; then
	install="apt-get install -y --no-install-recommends nodejs npm"
	command -v apt-get >/dev/null || fail "Node 20 or newer and npm are needed; install them from https://nodejs.org/en/download"
	[ "$(id -u)" = 0 ] || fail "Node 20 or newer and npm are needed; run: sudo $install"
	say "$install"
	apt-get update -q && $install
	usable || fail "this system's Node is $(node --version), 20 or newer is needed; install it from https://nodejs.org/en/download"
fi

# What was installed is stamped, since npm ci always begins by removing it.
stamp=$client/node_modules/.greenroom
want=$(cat "$client/package-lock.json" | git hash-object --stdin)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$want" ]; then
	say "npm ci"
	(cd "$client" && npm ci --loglevel=error)
	echo "$want" >"$stamp"
fi

say "generating the client"
go run ./internal/protoplugin -out "$client/gen" -opt target=js,import_extension=js "$client/node_modules/.bin/protoc-gen-es"
