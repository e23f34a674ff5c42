#!/usr/bin/env bash
# Makes console/dist, which the server embeds, from console/src and the protos. Needs Node; run
# build/node/setup.sh first. npm's packages are those of package-lock.json.
set -euo pipefail
cd "$(dirname "$0")"

# What was installed is stamped, since npm ci always begins by removing it.
stamp=node_modules/.greenroom
want=$(git hash-object package-lock.json)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$want" ]; then
	echo "console: npm ci"
	npm ci --loglevel=error
	echo "$want" >"$stamp"
fi
(cd .. && go run ./internal/protoplugin -out console/src/gen -opt target=ts "$PWD/console/node_modules/.bin/protoc-gen-es")
node_modules/.bin/tsc --noEmit
(cd .. && go run ./console/generate console/src console/dist)
