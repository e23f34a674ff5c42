#!/usr/bin/env bash
# Calls the counter example on a running server with a generated Node client:
#
#	build/node/test.sh http://127.0.0.1:8080
#
# With GREENROOM_TOKEN set, it sends that token.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# = 1 ] || { echo "usage: build/node/test.sh URL" >&2; exit 2; }
build/node/setup.sh
exec node build/node/client/test.mjs "$1"
