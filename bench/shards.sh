#!/usr/bin/env bash
# What shards cost on one machine: the same rounds of one web without shards and with some.
#
#   bench/shards.sh                    without shards and with four, in turn, three times
#   SHARDS="0 2 4 8" TIMES=5 bench/shards.sh
#
# mweb on loopback, without delays. Of each crawl it prints pages, elapsed and processor time a page, the bytes
# that the shards exchanged a page, and the least of the processor times beside that without shards; then the cost of a row of each kind,
# by hand, and of a round that fetches one URL a shard. Crawls lie in a temporary folder below TMPDIR and are deleted.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C
BIN=${BIN:-$here/bin/}
rounds=${ROUNDS:-6} times=${TIMES:-3} shards=${SHARDS:-0 4} small=${SMALL:-10}
# shellcheck source=bench/web.sh
. "$here/bench/web.sh"

serve_web --hosts 100 --pages "${PAGES:-10000}"
sed 's/.*\["\([^]]*\)"\].*/\1/; s/","/\n/g' "$dir/web.json" > "$dir/seeds.txt"

# new makes crawl $1 of $2 shards.
new() {
	local flags=()
	[ "$2" = 0 ] || flags=(--shards "$2")
	"${BIN}mcrawl" new "$1" "${flags[@]}" --seeds "$dir/seeds.txt" --set network.allow_net=127.0.0.0/8 --set resolve.servers="$names" \
		--set politeness.min_delay=0s --set politeness.delay_factor=0 --set politeness.addr_delay=0s "${@:3}" --quiet
}

# bills sums what the shards of crawl $1 sent, by exchange: name, rows, bytes.
bills() {
	find "$1/rounds" -name '[0-9]*.json' -path '*/rounds/r*' 2> /dev/null | while read -r file; do
		grep -o '"\(rows\|bytes\)":[0-9]*' "$file" | tr -d '"' | awk -F : -v name="$(basename "$(dirname "$file")")" '{ n[$1] += $2 } END { print name, n["rows"], n["bytes"] }'
	done
}

TIMEFORMAT='%R %U %S'
for try in $(seq "$times"); do
	for n in $shards; do
		rm -rf "$dir/$n"
		new "$dir/$n" "$n" --set batch=1000000 # all that is due: the same rounds whatever the number
		took=$({ time "${BIN}mcrawl" run "$dir/$n" --rounds "$rounds" -q; } 2>&1)
		pages=$("${BIN}mcrawl" status "$dir/$n" --json | grep -o '"done": *[0-9]*' | head -1 | tr -dc 0-9)
		echo "$n $pages $took $(bills "$dir/$n" | awk '{ bytes += $3 } END { print bytes + 0 }')"
	done
done | tee "$dir/runs.txt" | awk '{ printf "%d shards: %d pages in %d rounds, %.0f µs elapsed and %.0f µs of processor a page, %.0f bytes exchanged a page\n", $1, $2, rounds, 1e6 * $3 / $2, 1e6 * ($4 + $5) / $2, $6 / $2 }' rounds="$rounds"
awk '{ t = ($4 + $5) / $2; if (!($1 in least) || t < least[$1]) least[$1] = t }
	END { for (n in least) if (n > 0 && 0 in least) printf "%d shards: %.2f times the processor time of none\n", n, least[n] / least[0] }' "$dir/runs.txt" | sort -n

n=${shards##* }
if [ "$n" != 0 ]; then
	echo "exchanged by $n shards, rows and bytes of a row:"
	bills "$dir/$n" | awk '{ rows[$1] += $2; bytes[$1] += $3 } END { for (e in rows) printf "  %-9s %8d rows %6.1f bytes\n", e, rows[e], bytes[e] / (rows[e] + !rows[e]) }' | sort
	for kind in links fetched; do # of one round, again
		round=r$rounds rows=$("${BIN}mcat" --columns url_key --format tsv "$dir/$n"/shard/*/rounds/r"$rounds"/$kind.arrows.zst | wc -l)
		cost() {
			for i in $(seq 0 $((n - 1))); do
				flags=(--by host --map "$dir/$n" --round "$round" --exchange "again-$kind" --shard "$i")
				if [ "$1" = split ]; then
					"${BIN}mmerge" split "${flags[@]}" -o "$dir/$n/rounds/$round/again-$kind" "$(printf '%s/shard/%03d/rounds/%s/%s.arrows.zst' "$dir/$n" "$i" "$round" $kind)" -q
				else
					"${BIN}mmerge" gather "${flags[@]}" "$dir/$n/rounds/$round/again-$kind" -q > /dev/null
				fi
			done
		}
		for verb in split gather; do
			took=$({ time cost $verb; } 2>&1)
			echo "$took" | awk '{ printf "%s of %s: %.1f µs of processor a row, of %d rows, with the starts of %d processes\n", verb, kind, 1e6 * ($2 + $3) / rows, rows, n }' verb=$verb kind=$kind rows="$rows" n="$n"
		done
	done
fi
for n in $shards; do
	rm -rf "$dir/$n"
	new "$dir/$n" "$n" --set batch=1
	"${BIN}mcrawl" run "$dir/$n" --rounds 2 -q
	took=$({ time "${BIN}mcrawl" run "$dir/$n" --rounds $((small + 2)) -q; } 2>&1)
	echo "$took" | awk '{ printf "%d shards: a round of one URL each takes %.0f ms elapsed and %.0f ms of processor time\n", s, 1000 * $1 / n, 1000 * ($2 + $3) / n }' s="$n" n="$small"
done
cut -d ' ' -f 1 /proc/loadavg | sed 's/^/load: /'
