#!/usr/bin/env bash
# Validates what deploy/ has: the compose file by the loader of Docker Compose, the chart by
# helm lint, and what it renders by Kubernetes' own types, the systemd unit by
# systemd-analyze, and the flags and variables of all three by the server's own help.
# Nothing is started.
#
#	build/deploy/check.sh GREENROOM HELM COMPOSE MANIFESTS    programs, which make deploy-check builds
set -euo pipefail
cd "$(dirname "$0")/../.."
greenroom=$(realpath "$1") helm=$(realpath "$2") compose=$(realpath "$3") manifests=$(realpath "$4")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
chart=deploy/helm/greenroom

echo "== compose"
"$compose" deploy/compose/compose.yaml

echo "== helm"
"$helm" lint --strict --quiet "$chart"
"$helm" template greenroom "$chart" >"$work/chart.yaml"
"$helm" template greenroom "$chart" --set replicas=1,clusterKey.secretName=key,extraArgs='{--max-actors,5}' >"$work/changed.yaml"
"$manifests" "$work/chart.yaml" "$work/changed.yaml"
if "$helm" template greenroom "$chart" --set replica=1 >/dev/null 2>&1; then
  echo "the chart takes a value that it does not know: see values.schema.json" >&2; exit 1
fi

echo "== systemd"
if command -v systemd-analyze >/dev/null; then
  # The program that it names need not be installed here.
  sed "s|/usr/local/bin/greenroom|$greenroom|" deploy/systemd/greenroom.service >"$work/greenroom.service"
  said=$(systemd-analyze verify --man=no "$work/greenroom.service" 2>&1) || { echo "$said" >&2; exit 1; }
  # What it does not know it ignores; what it says of other units is none of ours.
  if grep greenroom.service <<<"$said" >&2; then exit 1; fi
else
  echo "not checked: there is no systemd-analyze; on Debian and Ubuntu: apt-get install -y --no-install-recommends systemd"
fi

echo "== flags"
"$greenroom" serve --help >"$work/help"
wrong=0
for file in deploy/compose/compose.yaml deploy/systemd/greenroom.service "$work/chart.yaml"; do
  # What the database's own programs are given is none of the server's.
  flags=$(grep -v -e cockroach -e '^ *#' "$file" | grep -oE -e '--[a-z][a-z-]+' | sort -u)
  variables=$(grep -oE 'GREENROOM_[A-Z_]+' "$file" | sort -u | sed 's/^GREENROOM_//; s/_/-/g; s/^/--/' | tr '[:upper:]' '[:lower:]')
  test -n "$flags" || { echo "$file names no flag" >&2; wrong=1; }
  for flag in $flags $variables; do
    grep -qE -e "^ +(-[a-z], )?$flag( |\$)" "$work/help" || { echo "$file: greenroom serve has no $flag" >&2; wrong=1; }
  done
done
exit $wrong
