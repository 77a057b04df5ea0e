#!/usr/bin/env bash
# What a round costs that fetches one URL: the processes of a round, their transactions and the checkpoint; and what comes after the last page.
#
#   bench/rounds.sh              20 rounds, after 3 that warm up
#   N=100 bench/rounds.sh
#   PAGES=9000 bench/rounds.sh   a crawl of some 9,000 pages to its end: what it takes, from the last reply to the end, and to make the index of its archive
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

[ "${PAGES:-}" ] && web=(--hosts 80 --pages "$PAGES") || web=(--hosts 5 --pages 500)
serve_web "${web[@]}"
sed 's/.*\["\([^"]*\)".*/\1/' "$dir/web.json" > "$dir/seeds.txt"
cat > "$dir/crawl.toml" << EOF
seeds = ["$dir/seeds.txt"]
batch = $([ "${PAGES:-}" ] && echo 100000 || echo 1)
[politeness]
min_delay = "0s"
delay_factor = 0
addr_delay = "0s"
[network]
allow_net = ["127.0.0.0/8"]
[resolve]
servers = ["$names"]
[frontier]
max_attempts = 1
EOF
"${BIN}mckpt" init "$dir/crawl" --config "$dir/crawl.toml" --quiet
cores=$(getconf _NPROCESSORS_ONLN)
TIMEFORMAT='%R %U %S'
if [ "${PAGES:-}" ]; then
	"${BIN}mweb" seeds "${web[@]}" --port "$port" > "$dir/seeds.txt"
	took=$({ time "${BIN}mcrawl" run "$dir/crawl" -q; } 2>&1)
	ended=$(date +%s.%N)
	last=$("${BIN}mcat" --format tsv --columns fetch_time "$dir/crawl" | tail -n +2 | sort | tail -n 1)
	tail=$(awk -v ended="$ended" -v last="$(date -d "$last" +%s.%N)" 'BEGIN { printf "%.2f", ended - last }')
	rm -r "$dir/crawl/index"
	index=$({ time "${BIN}mcrawl" seal "$dir/crawl" > /dev/null; } 2>&1)
	pages=$("${BIN}mcat" --format tsv --columns url "$dir/crawl" | tail -n +2 | wc -l)
	echo "$took $index $tail" | awk -v n="$pages" -v cores="$cores" '{ printf "%d contacts: %.1f s elapsed and %.1f s of processor, %.2f s from the last reply to the end; the index alone %.2f s and %.2f s of processor, on %d cores\n", n, $1, $2 + $3, $7, $4, $5 + $6, cores }'
	cut -d ' ' -f 1 /proc/loadavg | sed 's/^/load: /'
	exit
fi
"${BIN}mcrawl" run "$dir/crawl" --rounds 3 -q
took=$({ time "${BIN}mcrawl" run "$dir/crawl" --rounds $((n + 3)) -q; } 2>&1)
echo "$took" | awk -v n="$n" -v cores="$cores" '{ printf "%d rounds of one URL: %.0f ms elapsed and %.0f ms of processor time each, on %d cores\n", n, 1000 * $1 / n, 1000 * ($2 + $3) / n, cores }'
cut -d ' ' -f 1 /proc/loadavg | sed 's/^/load: /'
