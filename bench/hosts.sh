#!/usr/bin/env bash
# What many equal hosts get of what politeness allows, one request a second each: what is lost is lost between rounds.
#
#   bench/hosts.sh               2,000 hosts, 90 seconds, batches as they are by default
#   HOSTS=500 SECONDS_EACH=60 BATCH=60000 bench/hosts.sh
#
# bench/slowsite serves the hosts on loopback; all delays but addr_delay (0) are the defaults. It counts contacts, from 15 seconds after the
# first on, when all hosts have been found, for that time, and prints their share of one a second from each host. The crawl lies in a
# temporary folder below TMPDIR and is deleted. Needs Go.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$here/bin/} hosts=${HOSTS:-2000} seconds=${SECONDS_EACH:-90}
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill $pid || true; [ "${KEEP:-}" ] || rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
ulimit -n "$(ulimit -Hn)"
(cd "$here" && go build -o "$dir/slowsite" ./bench/slowsite)
"$dir/slowsite" 1000000 0s "$hosts" > "$dir/addresses" &
pid=$!
until [ "$(wc -l < "$dir/addresses")" = "$hosts" ]; do kill -0 $pid; sleep 0.1; done
sed 's|.*|http://&/|' "$dir/addresses" > "$dir/seeds.txt"
"${bin}mcrawl" new "$dir/crawl" --quiet --seeds "$dir/seeds.txt" --set network.allow_net=127.0.0.0/8 --set politeness.addr_delay=0s \
	--set fetch.connections=4000 ${BATCH:+--set batch="$BATCH"} ${SET:-} > "$dir/out"
TIMEFORMAT='%R %U %S'
took=$({ time "${bin}mcrawl" run "$dir/crawl" --for $((seconds + 30))s --quiet ${PROFILE:+--profile "$PROFILE"} > "$dir/out" 2>&1; } 2>&1) || { cat "$dir/out"; exit 1; }
"${bin}mcat" --format tsv --columns fetch_time "$dir/crawl" | tail -n +2 | sort > "$dir/times"
first=$(date -d "$(head -n 1 "$dir/times")" +%s)
from=$(date -u -d "@$((first + 15))" +%FT%T) until=$(date -u -d "@$((first + 15 + seconds))" +%FT%T)
awk -v from="$from" -v until="$until" -v hosts="$hosts" -v s="$seconds" -v took="$took" -v rounds="$(ls "$dir/crawl/rounds" | grep -c '^r')" -v load="$(cut -d ' ' -f 1 /proc/loadavg)" '
	{ all++ } $1 >= from && $1 < until { n++ }
	END { split(took, t); printf "%d hosts: %.1f %% of a request a second each; %d rounds; %.0f µs of processor a contact; load %s\n", hosts, 100 * n / hosts / s, rounds, (t[2] + t[3]) / all * 1e6, load }' "$dir/times"
