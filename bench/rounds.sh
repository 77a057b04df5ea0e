#!/usr/bin/env bash
# What a round costs that fetches one URL: the processes of a round, their transactions and the checkpoint.
#
#   bench/rounds.sh              20 rounds, after 3 that warm up
#   N=100 bench/rounds.sh
#
# One page of mweb on loopback a round, without delays. It prints elapsed and processor time a round. The crawl
# lies in a temporary folder below TMPDIR and is deleted.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C
BIN=${BIN:-$here/bin/}
n=${N:-20}
# shellcheck source=bench/web.sh
. "$here/bench/web.sh"

serve_web --hosts 5 --pages 500
sed 's/.*\["\([^"]*\)".*/\1/' "$dir/web.json" > "$dir/seeds.txt"
cat > "$dir/crawl.toml" << EOF
seeds = ["$dir/seeds.txt"]
batch = 1
[politeness]
min_delay = "0s"
delay_factor = 0
addr_delay = "0s"
[network]
allow_net = ["127.0.0.0/8"]
[resolve]
servers = ["$names"]
EOF
"${BIN}mckpt" init "$dir/crawl" --config "$dir/crawl.toml" --quiet
"${BIN}mcrawl" run "$dir/crawl" --rounds 3 -q
cores=$(getconf _NPROCESSORS_ONLN)
TIMEFORMAT='%R %U %S'
took=$({ time "${BIN}mcrawl" run "$dir/crawl" --rounds $((n + 3)) -q; } 2>&1)
echo "$took" | awk -v n="$n" -v cores="$cores" '{ printf "%d rounds of one URL: %.0f ms elapsed and %.0f ms of processor time each, on %d cores\n", n, 1000 * $1 / n, 1000 * ($2 + $3) / n, cores }'
cut -d ' ' -f 1 /proc/loadavg | sed 's/^/load: /'
