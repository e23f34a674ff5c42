#!/usr/bin/env bash
# Prepares the test of a client in Python: Python, and a virtual environment with
# gRPC in .cache/python. Safe to run again; does nothing when there is nothing to
# do.
set -euo pipefail
cd "$(dirname "$0")/../.."
requirements=build/python/requirements.txt
venv=.cache/python

say() { echo "python: $*"; }
fail() { echo "python: $*" >&2; exit 1; }

# usable: whether Python can make virtual environments that have pip.
usable() { python3 -c 'import sys, venv, ensurepip; assert sys.version_info >= (3, 10)' 2>/dev/null; }

# A stamp is written last: what it stands for is whole.
want=$(git hash-object "$requirements")
[ "$(cat "$venv/stamp" 2>/dev/null || true)" = "$want" ] && "$venv/bin/python" -c 'import grpc_tools' 2>/dev/null && exit 0

if ! usable; then
	install="apt-get install -y --no-install-recommends python3 python3-venv"
	command -v apt-get >/dev/null || fail "Python 3.10 or newer with venv is needed; install it from https://www.python.org/downloads/"
	[ "$(id -u)" = 0 ] || fail "Python 3.10 or newer with venv is needed; run: sudo $install"
	say "$install"
	apt-get update -q && $install
	usable || fail "this system's Python is $(python3 --version 2>&1), 3.10 or newer with venv is needed"
fi
say "installing $(tr '\n' ' ' <"$requirements")"
rm -rf "$venv"
python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
echo "$want" >"$venv/stamp"
