#!/usr/bin/env bash
# Makes sure that there is a Chromium, in which tests use the console as people do, with a font.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
	command -v "$name" >/dev/null && exit 0
done
install="apt-get install -y --no-install-recommends chromium fonts-dejavu-core"
command -v apt-get >/dev/null || { echo "chromium: install Chromium" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "chromium: run: sudo $install" >&2; exit 1; }
apt-get update -q && $install
