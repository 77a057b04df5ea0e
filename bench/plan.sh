#!/usr/bin/env bash
# What "mfrontier plan" predicts for a round, and how long the round then takes.
#
#   bench/plan.sh                       five rounds over a synthetic web with slow hosts, some five minutes
#   WARM=3 ROUNDS=1 BATCH=400 bench/plan.sh
#
# The web is "mweb serve --hard": some hosts take 0.2 to 2 s for a reply, some ask for a Crawl-delay, some have no robots.txt
# for the first three requests, some say 429. WARM (4) rounds of BATCH (1000) URLs, in haste (WARMFLAGS), tell how fast the hosts are; then, in
# each of ROUNDS (5) rounds, the batch is planned, fetched, and compared with the plan before "update" learns of it. Delays are short,
# so that it ends: FLAGS. The time is that of politeness and of slow hosts, not of the processor. With KEEP=DIR the records and the
# plans, which name the hosts that were missed by most, are kept there.
#
# It prints a table for RESULTS.md. The crawl lies in a temporary folder below TMPDIR and is deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
seed=${SEED:-1} hosts=${HOSTS:-60} pages=${PAGES:-20000} warm=${WARM:-4} rounds=${ROUNDS:-5} next=${NEXT:--n ${BATCH:-1000}}
flags=${FLAGS:---min-delay 500ms --delay-factor 2 --max-delay 1s --addr-delay 0 --connections 32}
warmflags=${WARMFLAGS:---min-delay 150ms --delay-factor 0 --addr-delay 0 --connections 64}
web=(--seed "$seed" --hosts "$hosts" --pages "$pages" --hard)

dir=$(mktemp -d)
server=
stop() {
	[ -z "$server" ] || { kill "$server" && wait "$server"; } 2> /dev/null || true
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

"${BIN}mweb" serve "${web[@]}" --dns 127.0.0.1:0 --ready "$dir/web.json" > /dev/null &
server=$!
until [ -s "$dir/web.json" ]; do
	kill -0 $server 2> /dev/null || { echo 'plan.sh: mweb did not start' >&2; exit 1; }
	sleep 0.1
done
of() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$dir/web.json"; }
"${BIN}mweb" seeds "${web[@]:0:6}" --port "$(of port)" > "$dir/seeds.txt"

c=$dir/crawl
"${BIN}mckpt" init -q "$c"
"${BIN}murlset" new -q "$c/urls" --txn seed --text "$dir/seeds.txt" | "${BIN}mfrontier" add -q "$c/frontier" --txn seed
"${BIN}mckpt" commit -q "$c" --txn seed

number() { # KEY: of the plan, the first of that name; "-2": the second
	grep "\"$1\":" "$d/plan.json" | sed -n "${2:-1}s/[^0-9]*\([0-9]*\).*/\1/p"
}
echo "commit $(git -C "$here" rev-parse --short HEAD 2> /dev/null || echo unknown), load $(cut -d ' ' -f 1 /proc/loadavg), $(date -u +%FT%RZ); next $next, $flags"
echo "| round | URLs | hosts (measured) | planned, s | eight of ten, s | actual, s | actual to planned |"
echo "|--:|--:|--:|--:|--:|--:|--:|"
for ((r = 1; r <= warm + rounds; r++)); do
	t="-q --txn r$r" d=$dir/r$r polite=$flags
	[ $r -gt "$warm" ] || polite=$warmflags
	mkdir "$d"
	# shellcheck disable=SC2086 # lists of flags
	{
		"${BIN}mfrontier" next "$c/frontier" $t $next $polite -o "$d/batch.arrows.zst"
		"${BIN}mresolve" "$c/dns" $t --server "$(of dns)" -o "$d/resolved.arrows.zst" "$d/batch.arrows.zst"
		"${BIN}mfetch" "$c/fetch" $t $polite --allow-net 127.0.0.0/8 -o "$d/fetched.arrows.zst" "$d/resolved.arrows.zst"
		"${BIN}mfrontier" plan "$c/frontier" $polite --json --actual "$d/fetched.arrows.zst" "$d/resolved.arrows.zst" > "$d/plan.json"
	}
	if [ $r -gt "$warm" ]; then
		awk -v r=$r -v u="$(number urls)" -v h="$(number hosts)" -v m="$(number measured)" -v p="$(number duration_us)" -v a="$(number duration_us 2)" -v l="$(number low_us)" -v t="$(number high_us)" \
			'BEGIN { printf "| %d | %d | %d (%d) | %.1f | %.1f–%.1f | %.1f | %.2f |\n", r, u, h, m, p / 1e6, l / 1e6, t / 1e6, a / 1e6, a / p }'
	fi
	# shellcheck disable=SC2086
	"${BIN}mfpset" mark "$c/content" $t "$d/fetched.arrows.zst" -o "$d/marked.arrows.zst"
	# shellcheck disable=SC2086
	"${BIN}mextract" --warc "$c/fetch" $t "$d/marked.arrows.zst" -o "$d/links.arrows.zst"
	# shellcheck disable=SC2086
	"${BIN}murlset" new "$c/urls" $t "$d/links.arrows.zst" |
		"${BIN}mfrontier" update "$c/frontier" $t --retry-delay 1s --outcomes "$d/marked.arrows.zst" --links "$d/links.arrows.zst"
	"${BIN}mckpt" commit -q "$c" --txn r$r
	[ -z "${KEEP:-}" ] || cp -r "$d" "$KEEP/"
done
