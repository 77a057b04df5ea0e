#!/usr/bin/env bash
# Whether mfetch is done sooner with a batch that came through back queues than with one in the order in which it was drawn.
#
#   bench/backqueues.sh                 both orders in turn, twice, over equal hosts, then over "mweb serve --hard": some ten minutes
#   KINDS=hard URLS=1500 HOSTS=100 RUNS=1 bench/backqueues.sh
#
# The same URLS (20000) pages of HOSTS (500) hosts, as many of each as it has or as make it equal to others, of which the frontier has learnt the speeds in a round of two URLs a host, are taken
# with --back-queues 0 and with the frontier's own (3C), and fetched by mfetch from the same state. Delays are short, FLAGS, so that the time is that of
# politeness. A connection is busy while a contact lasts.
#
# It prints a table for RESULTS.md. The stores lie in a temporary folder below TMPDIR and are deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
seed=${SEED:-1} hosts=${HOSTS:-500} urls=${URLS:-20000} runs=${RUNS:-2} kinds=${KINDS:-equal hard}
flags=${FLAGS:---min-delay 500ms --delay-factor 2 --max-delay 3s --addr-delay 0 --connections 32}

dir=$(mktemp -d)
server=
halt() { [ -z "$server" ] || { kill "$server" && wait "$server"; } 2> /dev/null || true; server=; }
stop() {
	halt
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP
of() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$dir/web.json"; }
number() { awk -v key="\"$1\":" '$1 == key { sub(",", "", $2); print $2; exit }' "$dir/stats.json"; }
fetch() { # TXN FOLDER-OF-STORES
	# shellcheck disable=SC2086 # a list of flags
	"${BIN}mresolve" "$2/dns" -q --txn "$1" --server "$(of dns)" "$dir/batch.arrows.zst" -o "$dir/resolved.arrows.zst" &&
		"${BIN}mfetch" "$2/fetch" -q --txn "$1" $flags --allow-net 127.0.0.0/8 --stats "$dir/stats.json" -o "$dir/fetched.arrows.zst" "$dir/resolved.arrows.zst"
}

echo "commit $(git -C "$here" rev-parse --short HEAD 2> /dev/null || echo unknown), load $(cut -d ' ' -f 1 /proc/loadavg), $(date -u +%FT%RZ); $flags"
echo "| hosts | back queues | mfetch, s | s of CPU | connections busy | URLs |"
echo "|---|--:|--:|--:|--:|--:|"
for kind in $kinds; do
	web=(--seed "$seed" --hosts "$hosts" --pages $((2 * urls)))
	hard=()
	[ $kind = equal ] || hard=(--hard)
	rm -f "$dir/web.json"
	"${BIN}mweb" serve "${web[@]}" "${hard[@]}" --dns 127.0.0.1:0 --ready "$dir/web.json" > /dev/null &
	server=$!
	until [ -s "$dir/web.json" ]; do
		kill -0 $server 2> /dev/null || { echo 'backqueues.sh: mweb did not start' >&2; exit 1; }
		sleep 0.1
	done
	"${BIN}mweb" oracle "${web[@]}" "${hard[@]}" --port "$(of port)" |
		awk -F '\t' '$2 == "fetched" { print $1 }' | shuf --random-source=<(yes) > "$dir/all.txt"
	# Of each host as many as of any other; two of each are for its speed.
	awk -F / -v most=$((urls / hosts)) -v dir="$dir" '++n[$3] <= 2 { print > (dir "/first.txt"); next } n[$3] <= most + 2' "$dir/all.txt" > "$dir/urls.txt"
	rm -rf "$dir/frontier" "$dir/dns" "$dir/fetch" "$dir/urls"
	"${BIN}murlset" create "$dir/urls"
	"${BIN}mfrontier" create "$dir/frontier"
	"${BIN}mresolve" create "$dir/dns"
	"${BIN}mfetch" create "$dir/fetch"
	"${BIN}mfrontier" add -q "$dir/frontier" "$dir/first.txt"
	"${BIN}mfrontier" next -q "$dir/frontier" --txn r1 -n "$urls" -o "$dir/batch.arrows.zst"
	fetch r1 "$dir"
	"${BIN}murlset" new -q "$dir/urls" --txn r1 --text /dev/null -o "$dir/none.arrows.zst"
	"${BIN}mfrontier" update -q "$dir/frontier" --txn r1 --outcomes "$dir/fetched.arrows.zst" "$dir/none.arrows.zst"
	"${BIN}mfrontier" add -q "$dir/frontier" "$dir/urls.txt"
	sleep 3 # no host has to wait for what was
	for ((run = 1; run <= runs; run++)); do
		for queues in 0 3C; do
			rm -rf "$dir/run"
			mkdir "$dir/run"
			cp -a "$dir/frontier" "$dir/dns" "$dir/fetch" "$dir/run"
			# shellcheck disable=SC2086
			"${BIN}mfrontier" next -q "$dir/run/frontier" --txn r2 -n "$urls" --back-queues $queues $flags -o "$dir/batch.arrows.zst"
			fetch r2 "$dir/run"
			"${BIN}mcat" --format tsv --columns role,duration_us "$dir/fetched.arrows.zst" | sed 1d |
				awk -v kind=$kind -v q=$queues -v s="$(number elapsed_s)" -v cpu="$(number cpu_s)" -v c="$(sed -n 's/.*--connections \([0-9]*\).*/\1/p' <<< "$flags")" \
					'{ busy += $2 } $1 == "page" { n++ } END { printf "| %s | %s | %.1f | %.1f | %.1f %% | %d |\n", kind, q, s, cpu, busy / 1e4 / s / c, n }'
		done
	done
	halt
done
