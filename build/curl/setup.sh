#!/usr/bin/env bash
# Makes sure that there is curl, with which a test calls actors as people do.
set -euo pipefail
command -v curl >/dev/null && exit 0
install="apt-get install -y --no-install-recommends curl ca-certificates"
command -v apt-get >/dev/null || { echo "curl: install curl" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "curl: run: sudo $install" >&2; exit 1; }
apt-get update -q && $install
