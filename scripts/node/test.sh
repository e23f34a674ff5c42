#!/usr/bin/env bash
# Calls the counter example on a running server with a generated Node client:
#
#	scripts/node/test.sh http://127.0.0.1:8080
#
# With GREENROOM_TOKEN set, it sends that token.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# = 1 ] || { echo "usage: scripts/node/test.sh URL" >&2; exit 2; }
scripts/node/setup.sh
exec node scripts/node/client/test.mjs "$1"
