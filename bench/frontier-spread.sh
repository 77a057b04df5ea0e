#!/usr/bin/env bash
# How much more the worst round of a frontier costs than the median one, as merges of its runs fall due.
#
#   bench/frontier-spread.sh                        600 rounds of 20,000 new URLs, some ten minutes
#   ROUNDS=1200 FRESH=5000 bench/frontier-spread.sh
#
# A round is "next -n BATCH" (2,000) and "update" with FRESH new URLs over HOSTS hosts, by Zipf's law with s = 1.1, from SEED. Seconds of
# processor count. It prints median, 99th percentile and worst of both, what they copied beside their own rows, and peak memory.
# TMPDIR takes some 0.5 GB; the folder there is deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
seed=${SEED:-1} rounds=${ROUNDS:-600} batch=${BATCH:-2000} fresh=${FRESH:-20000} hosts=${HOSTS:-100000}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
(cd "$here" && go build -trimpath -o "$dir/gen" ./bench/frontier/gen)
f=$dir/frontier

number() { # KEY FILE: the first number of that name
	awk -v key="\"$1\":" '$1 == key { sub(",", "", $2); print $2; exit }' "$2"
}
rewritten=0
stats() { # WHAT: a line of what --stats measured
	"${BIN}mfrontier" stat --json "$f" > "$dir/stat.json"
	local now
	now=$(number rewritten "$dir/stat.json")
	echo "$1 $(number cpu_s "$dir/stats.json") $(number peak_rss_bytes "$dir/stats.json") $((now - rewritten))" >> "$dir/figures"
	rewritten=$now
}
"${BIN}mfrontier" create "$f"
"$dir/gen" -seed "$seed" -hosts "$hosts" -n "$fresh" | "${BIN}mfrontier" add -q "$f"
for ((r = 1; r <= rounds; r++)); do
	t="--txn r$r --stats $dir/stats.json -q"
	"${BIN}mfrontier" next "$f" $t -n "$batch" -o "$dir/batch.arrows.zst"
	stats next
	"$dir/gen" -outcomes -txn r$r < "$dir/batch.arrows.zst" > "$dir/fetched.arrows.zst"
	"$dir/gen" -seed "$seed" -hosts "$hosts" -from $((r * fresh)) -n "$fresh" -txn r$r > "$dir/new.arrows.zst"
	"${BIN}mfrontier" update "$f" $t --outcomes "$dir/fetched.arrows.zst" "$dir/new.arrows.zst"
	stats update
done
"${BIN}mfrontier" check "$f"
echo "commit $(git -C "$here" rev-parse --short HEAD 2> /dev/null || echo unknown), $(getconf _NPROCESSORS_ONLN) cores, load $(cut -d ' ' -f 1 /proc/loadavg), $(date -u +%FT%RZ); $(number runs "$dir/stat.json") files"
echo "| $rounds rounds of $fresh | CPU s: median | 99 % | worst | worst / median | most copied | MiB |"
echo "|---|--:|--:|--:|--:|--:|--:|"
for what in next update; do
	grep "^$what " "$dir/figures" | sort -g -k 2,2 | awk -v w="$what" '{ c[NR] = $2; if ($3 > m) m = $3; if ($4 > n) n = $4 }
		END { h = c[int((NR + 1) / 2)]; printf "| %s | %.3f | %.3f | %.3f | %.2f | %d | %.0f |\n", w, h, c[int((99 * NR + 99) / 100)], c[NR], c[NR] / h, n, m / 1048576 }'
done
[ -z "${KEEP:-}" ] || cp "$dir/figures" "$KEEP"
