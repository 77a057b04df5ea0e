#!/usr/bin/env bash
# Sets of fingerprints beside GNU sort and comm, Pebble, memcpy and Go's library: the rows of RESULTS.md.
#
#   bench/sets.sh                         all groups at 10^6 keys, some two minutes
#   N=1e8 RUNS=3 bench/sets.sh memory     one group, or several
#   bench/sets.sh -help                   what the groups are
#
# All inputs are made from SEED (1) in a folder below TMPDIR, which is deleted in the end: some 60 bytes a key, and as
# much again in the group rss. At 10^8 keys the group memory takes 4 GB of memory. PEBBLE=0 leaves Pebble out; it is
# fetched as a Go module otherwise.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$dir/bin"
cd "$here"
go build -trimpath -o "$dir/bin/" ./cmd/mfpset ./cmd/murlset ./cmd/mmerge ./bench/sets/gen
go build -trimpath -o "$dir/sets" ./bench/sets
[ "${PEBBLE:-1}" = 0 ] || (cd bench/pebble && go build -trimpath -o "$dir/bin/" .)

[ $# -gt 0 ] || set -- memory files seen cold size decode rss
[ "$1" != -help ] || exec "$dir/sets" -help
echo "commit $(git rev-parse --short HEAD 2> /dev/null || echo unknown), $(go env GOVERSION), $(uname -sm), $(getconf _NPROCESSORS_ONLN) cores, $(date -u +%FT%RZ)"
for group; do
	"$dir/sets" -n "${N:-1e6}" -seed "${SEED:-1}" -runs "${RUNS:-5}" -bin "$dir/bin" -dir "$dir" "$group"
done
