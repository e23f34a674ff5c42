#!/bin/sh
# Installs PostgreSQL's programs for the tests, on Debian and Ubuntu. The tests
# start servers of their own; none needs to run. Safe to run again.
set -eu

have() {
	for program in /usr/lib/postgresql/*/bin/postgres; do
		[ -x "$program" ] && [ -x "${program%postgres}initdb" ] && [ -x "${program%postgres}psql" ] && return 0
	done
	command -v postgres >/dev/null 2>&1 && command -v initdb >/dev/null 2>&1 && command -v psql >/dev/null 2>&1
}

have && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
	echo "PostgreSQL is not installed, and this is not Debian or Ubuntu: install the server (postgres, initdb, psql) so that it is on PATH, version 14 or newer" >&2
	exit 1
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null 2>&1; then
		echo "PostgreSQL is not installed; as root, run: apt-get install -y --no-install-recommends postgresql" >&2
		exit 1
	fi
	as_root=sudo
fi

# The package would start a server of its own; create_main_cluster=false keeps
# it from making one.
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
	$as_root mkdir -p /etc/postgresql-common
	echo "create_main_cluster = false" | $as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold postgresql >/dev/null

have || {
	echo "the package postgresql was installed, but /usr/lib/postgresql/*/bin has no postgres, initdb and psql" >&2
	exit 1
}
