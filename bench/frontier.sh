#!/usr/bin/env bash
# What a round of the frontier costs when the frontier grows, beside sorting all of it each round.
#
#   bench/frontier.sh                              10^6 and 10^7 URLs, some four minutes
#   SIZES='1e6 1e7 1e8' bench/frontier.sh          and 10^8: 15 GB of disk, most of an hour
#   BIG=1e7 SIZES=1e7 bench/frontier.sh            with a host of 10^7 URLs among the others
#   SORT=0 bench/frontier.sh                       without GNU sort
#
# The URLs of a size are over 1 % as many hosts, by Zipf's law with s = 1.1, from SEED. They go in by PIECES (40) adds
# of the same size, as rounds do. Then ROUNDS (5) rounds are measured, each "next -n 100000" and "update" with 10^6 new URLs.
# The files were just written and are in the page cache. Beside them, on the same records: mcat copying the new ones, and
# Nutch's way of making a round, written with GNU sort: sort all that waits, cut off the batch, put the new ones to the rest.
#
# It prints a table for RESULTS.md: medians of seconds, seconds of processor, peak resident memory, and the store's bytes. The
# folder below TMPDIR is deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
seed=${SEED:-1} sizes=${SIZES:-1e6 1e7} pieces=${PIECES:-40} rounds=${ROUNDS:-5} batch=${BATCH:-100000} fresh=${FRESH:-1e6}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
(cd "$here" && go build -trimpath -o "$dir/gen" ./bench/frontier/gen)

number() { # KEY FILE: the first number of that name
	awk -v key="\"$1\":" '$1 == key { sub(",", "", $2); print $2; exit }' "$2"
}
median() { # of the lines
	sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
}
whole() { awk -v x="$1" 'BEGIN { printf "%d", x }'; }
stats() { # WHAT: a line of what --stats measured
	echo "$1 $(number elapsed_s "$dir/stats.json") $(number cpu_s "$dir/stats.json") $(number peak_rss_bytes "$dir/stats.json")" >> "$dir/figures"
}
timed() { # WHAT COMMAND: a line of what it took
	local began
	began=$(date +%s.%N)
	shift
	"$@"
	awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { print b - a }'
}

# --- Nutch's way --------------------------------------------------------------
# A line is number of the URL in its host's queue, TAB, URL: the order in which hosts take turns. What is sorted is text, once
# through all of it for a batch, once for the new ones; numbers of new lines are taken as given.
sorted_round() { # N: sorts what waits, cuts off the batch, and puts the new ones to the rest
	sort -S 64M --parallel 2 -T "$dir" -n -k 1,1 "$dir/waiting.txt" > "$dir/sorted.txt"
	head -n "$batch" "$dir/sorted.txt" > "$dir/batch.txt"
	tail -n +$((batch + 1)) "$dir/sorted.txt" | cat - "$dir/fresh.txt" > "$dir/waiting.txt"
}
numbered() { # text to lines with the number of the URL in its host's queue
	awk -F / -v OFS='\t' '{ print n[$3]++, $0 }'
}

echo "commit $(git -C "$here" rev-parse --short HEAD 2> /dev/null || echo unknown), $(uname -sm), $(getconf _NPROCESSORS_ONLN) cores, load $(cut -d ' ' -f 1 /proc/loadavg), $(date -u +%FT%RZ)"
echo "| URLs | next, s (CPU) | MiB | update, s (CPU) | MiB | of mcat's rate | GNU sort, s a round | times as fast | bytes a URL | text | text, zstd | rewrites a URL |"
echo "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
for size in $sizes; do
	n=$(whole "$size") hosts=$(whole "$(awk -v n="$size" 'BEGIN { print n / 100 }')") f=$dir/frontier
	piece=$(((n + pieces - 1) / pieces))
	rm -rf "$f"
	: > "$dir/figures"
	"${BIN}mfrontier" create "$f"
	for ((at = 0; at < n; at += piece)); do
		"$dir/gen" -seed "$seed" -hosts "$hosts" -from $at -n $((at + piece > n ? n - at : piece)) | "${BIN}mfrontier" add -q "$f"
	done
	[ -z "${BIG:-}" ] || "$dir/gen" -one "$BIG" | "${BIN}mfrontier" add -q "$f"
	bytes=$(du -sbc "$f"/ready "$f"/hosts | tail -1 | cut -f 1)
	text=$("${BIN}mfrontier" export "$f" --text | tee >(wc -c > "$dir/text") | zstd -q -3 -c | wc -c)
	"${BIN}mfrontier" stat --json "$f" > "$dir/stat.json"
	for ((r = 1; r <= rounds; r++)); do
		t="--txn r$r --stats $dir/stats.json -q"
		"${BIN}mfrontier" next "$f" $t -n "$batch" -o "$dir/batch.arrows.zst"
		stats next
		"$dir/gen" -outcomes -txn r$r < "$dir/batch.arrows.zst" > "$dir/fetched.arrows.zst"
		"$dir/gen" -seed "$seed" -hosts "$hosts" -from $((n + (r - 1) * $(whole "$fresh"))) -n "$fresh" -txn r$r > "$dir/new.arrows.zst"
		"${BIN}mfrontier" update "$f" $t --outcomes "$dir/fetched.arrows.zst" "$dir/new.arrows.zst"
		stats update
		"${BIN}mcat" -q --format arrow --stats "$dir/stats.json" -o "$dir/copy.arrows.zst" "$dir/new.arrows.zst"
		stats mcat
	done
	if [ "${SORT:-1}" != 0 ]; then
		"${BIN}mfrontier" export "$f" --text | numbered > "$dir/waiting.txt"
		"${BIN}mcat" --format text "$dir/new.arrows.zst" | numbered > "$dir/fresh.txt"
		timed sort sorted_round > "$dir/sort"
	fi
	of() { awk -v w="$1" -v c="$2" '$1 == w { print $c }' "$dir/figures" | median; }
	most() { awk -v w="$1" '$1 == w && $4 > m { m = $4 } END { printf "%.0f", m / 1048576 }' "$dir/figures"; }
	awk -v n="$size" -v ns="$(of next 2)" -v nc="$(of next 3)" -v nm="$(most next)" -v us="$(of update 2)" -v uc="$(of update 3)" -v um="$(most update)" \
		-v ms="$(of mcat 2)" -v sort="$(cat "$dir/sort" 2> /dev/null)" -v bytes="$bytes" -v text="$(cat "$dir/text")" -v z="$text" -v big="${BIG:-0}" -v again="$(number rewritten "$dir/stat.json")" 'BEGIN {
			n += big
			printf "| %.0e | %.2f (%.2f) | %d | %.2f (%.2f) | %d | %.2f | %s | %s | %.1f | %.1f | %.1f | %.2f |\n", n, ns, nc, nm, us, uc, um, ms / us,
				sort == "" ? "" : sprintf("%.1f", sort), sort == "" ? "" : sprintf("%.1f", sort / (ns + us)), bytes / n, text / n, z / n, again / n }'
done
