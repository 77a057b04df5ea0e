#!/usr/bin/env bash
# What a round of policy opic costs when the frontier grows.
#
#   bench/opic.sh                          10^6 and 10^7 URLs, some four minutes
#   SIZES=1e6 ROUNDS=5 bench/opic.sh       10^6 only, five rounds of it
#
# URLs as those of bench/frontier.sh, put in by four adds. A round is "next -n 100000" and "update" with 10^6 new URLs and 2 x 10^6
# links of the batch's pages: to all of them, and to the 10^6 URLs before them. The files are in the page cache. It
# prints a table for RESULTS.md, medians of the rounds; the folder below TMPDIR is deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
sizes=${SIZES:-1e6 1e7} rounds=${ROUNDS:-1}
dir=$(mktemp -d)
export TMPDIR=$dir
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
(cd "$here" && go build -trimpath -o "$dir/gen" ./bench/frontier/gen)

number() { # KEY FILE: the first number of that name
	awk -v key="\"$1\":" '$1 == key { sub(",", "", $2); print $2; exit }' "$2"
}
stats() { # WHAT: a line of what --stats measured
	echo "$1 $(number elapsed_s "$dir/stats.json") $(number cpu_s "$dir/stats.json") $(number peak_rss_bytes "$dir/stats.json")" >> "$dir/figures"
}
median() { # WHAT COLUMN
	awk -v w="$1" -v c="$2" '$1 == w { print $c }' "$dir/figures" | sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
}

echo "commit $(git -C "$here" rev-parse --short HEAD 2> /dev/null || echo unknown), $(uname -sm), $(getconf _NPROCESSORS_ONLN) cores, load $(cut -d ' ' -f 1 /proc/loadavg), $(date -u +%FT%RZ)"
echo "| URLs | next, s (CPU) | MiB | update, s (CPU) | MiB |"
echo "|--:|--:|--:|--:|--:|"
for size in $sizes; do
	n=$(awk -v x="$size" 'BEGIN { printf "%d", x }') f=$dir/frontier
	hosts=$((n / 100))
	rm -rf "$f"
	: > "$dir/figures"
	"${BIN}mfrontier" create "$f" --policy opic
	for ((i = 0; i < 4; i++)); do
		"$dir/gen" -hosts $hosts -from $((i * n / 4)) -n $((n / 4)) | "${BIN}mfrontier" add -q "$f"
	done
	for ((r = 1; r <= rounds; r++)); do
		t="--txn r$r --stats $dir/stats.json -q"
		fresh=$((n + (r - 1) * 1000000))
		"${BIN}mfrontier" next "$f" $t -n 100000 -o "$dir/batch.arrows.zst"
		stats next
		"$dir/gen" -outcomes -txn r$r < "$dir/batch.arrows.zst" > "$dir/fetched.arrows.zst"
		"$dir/gen" -links -hosts $hosts -from $((fresh - 1000000)) -n 2e6 -txn r$r < "$dir/batch.arrows.zst" > "$dir/links.arrows.zst"
		"$dir/gen" -hosts $hosts -from $fresh -n 1e6 -txn r$r > "$dir/new.arrows.zst"
		"${BIN}mfrontier" update "$f" $t --outcomes "$dir/fetched.arrows.zst" --links "$dir/links.arrows.zst" "$dir/new.arrows.zst"
		stats update
	done
	awk -v n="$size" -v a="$(median next 2)" -v b="$(median next 3)" -v c="$(median next 4)" -v d="$(median update 2)" -v e="$(median update 3)" -v g="$(median update 4)" \
		'BEGIN { printf "| %.0e | %.2f (%.2f) | %d | %.1f (%.1f) | %d |\n", n, a, b, c / 1048576, d, e, g / 1048576 }'
done
