# shellcheck shell=sh
# How the walks begin: the commands of bin/ or BIN=, and a folder of their own to work in. Each removes $work at its end.
set -eu
here=$(cd "$(dirname "$0")/../../pipelines" && pwd)
# shellcheck disable=SC2034 # the walks use it
e2e=$here/../pkg/e2e
if [ -z "${BIN+x}" ]; then
  BIN=$here/../bin/
  [ -x "${BIN}mfetch" ] || BIN=
fi
[ -z "$BIN" ] || PATH=$(cd "$BIN" && pwd):$PATH
export LC_ALL=C

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
cd "$work"
die() { echo "$(basename "$0"): $*" >&2; exit 1; }
# field FILE KEY: the value of a key in one line of JSON
# shellcheck disable=SC2317,SC2329 # the walks call it
field() { sed "s/.*\"$2\":\"*\([^\",]*\).*/\1/" "$1"; }
