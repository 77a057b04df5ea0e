#!/usr/bin/env bash
# What a round of the frontier costs when the frontier grows, beside sorting all of it each round.
#
#   bench/frontier.sh                              10^6 and 10^7 URLs, some five minutes
#   SIZES=1e8 ROUNDS=3 bench/frontier.sh           10^8: some 25 minutes with two cores, 22 GB of disk
#   BIG=1e7 SIZES=1e6 bench/frontier.sh            next with a host of 10^7 URLs among 10^6 others, beside next without it
#   SORT=0 bench/frontier.sh                       without GNU sort
#
# The URLs of a size are over 1 % as many hosts, by Zipf's law with s = 1.1, from SEED. They go in by PIECES (40) adds
# of the same size, as rounds do: after 24 the first merge is due, and goes on with each further one. So from some 10^7 URLs on one is under
# way when the rounds begin, as it is in every round of a crawl but the first 24; the table says how many rows of it an update copied. Then
# ROUNDS (5) rounds are measured, each "next -n 100000" and "update" with 10^6 new URLs.
# The policy is the default one. The files were just written and are in the page cache as far as there is memory for them.
# Beside them, on the same records: mcat copying the new ones, and Nutch's way of making a round, written with GNU sort: sort all that waits,
# cut off the batch, put the new ones to the rest; once.
#
# It prints a table for RESULTS.md: medians of seconds, seconds of processor, peak resident memory, and the store's bytes; on
# standard error how far it has come. The folder below TMPDIR is deleted in the end.
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
timed() { # COMMAND: a line of what it took
	local from
	from=$(date +%s.%N)
	"$@"
	awk -v a="$from" -v b="$(date +%s.%N)" 'BEGIN { print b - a }'
}

began=$(date +%s)
progress() { # TEXT
	echo "$(($(date +%s) - began)) s: $*, $(du -sh "$dir" | cut -f 1) of disk" >&2
}

# --- Nutch's way --------------------------------------------------------------
# A line is number of the URL in its host's queue, TAB, URL: the order in which hosts take turns. What is sorted is text, once
# through all of it for a batch; numbers of new lines are taken as given. Each file goes when the next is whole.
sorted_round() { # sorts what waits, cuts off the batch, and puts the new ones to the rest
	sort -S 64M --parallel 2 -T "$dir" -n -k 1,1 -o "$dir/sorted.txt" "$dir/waiting.txt"
	rm "$dir/waiting.txt"
	head -n "$batch" "$dir/sorted.txt" > "$dir/batch.txt"
	tail -n +$((batch + 1)) "$dir/sorted.txt" | cat - "$dir/fresh.txt" > "$dir/waiting.txt"
}
numbered() { # text to lines with the number of the URL in its host's queue
	awk -F / -v OFS='\t' '{ print n[$3]++, $0 }'
}

# --- The frontier -------------------------------------------------------------
build() { # STORE N HOSTS
	local at piece=$((($2 + pieces - 1) / pieces))
	"${BIN}mfrontier" create "$1"
	for ((at = 0; at < $2; at += piece)); do
		"$dir/gen" -seed "$seed" -hosts "$3" -from $at -n $((at + piece > $2 ? $2 - at : piece)) | "${BIN}mfrontier" add -q "$1"
		progress "$((at + piece)) of $2 URLs added"
	done
}
look() { # STORE
	"${BIN}mfrontier" stat --json "$1" > "$dir/stat.json"
}
round() { # STORE N HOSTS R [PREFIX]: a round, measured
	local t=(--txn "r$4" --stats "$dir/stats.json" -q) before
	"${BIN}mfrontier" next "$1" "${t[@]}" -n "$batch" -o "$dir/batch.arrows.zst"
	stats "${5:-}next"
	"$dir/gen" -outcomes -txn "r$4" < "$dir/batch.arrows.zst" > "$dir/fetched.arrows.zst"
	"$dir/gen" -seed "$seed" -hosts "$3" -from $(($2 + ($4 - 1) * $(whole "$fresh"))) -n "$fresh" -txn "r$4" > "$dir/new.arrows.zst"
	look "$1"
	before=$(number rewritten "$dir/stat.json")
	"${BIN}mfrontier" update "$1" "${t[@]}" --outcomes "$dir/fetched.arrows.zst" "$dir/new.arrows.zst"
	stats "${5:-}update"
	look "$1"
	echo "${5:-}copied $(($(number rewritten "$dir/stat.json") - before))" >> "$dir/figures"
	progress "round $4"
}
of() { awk -v w="$1" -v c="$2" '$1 == w { print $c }' "$dir/figures" | median; }
most() { awk -v w="$1" '$1 == w && $4 > m { m = $4 } END { printf "%.0f", m / 1048576 }' "$dir/figures"; }

echo "commit $(git -C "$here" rev-parse --short HEAD 2> /dev/null || echo unknown), $(uname -sm), $(getconf _NPROCESSORS_ONLN) cores, load $(cut -d ' ' -f 1 /proc/loadavg), $(date -u +%FT%RZ)"
if [ -n "${BIG:-}" ]; then
	echo "| URLs | of one host beside them | next, s (CPU) | MiB | without it, s (CPU) | MiB | times as long (CPU) |"
	echo "|--:|--:|--:|--:|--:|--:|--:|"
else
	echo "| URLs | next, s (CPU) | MiB | update, s (CPU) | MiB | rows copied | mcat, s (CPU) | of mcat's rate | GNU sort, s a round | times as fast | bytes a URL | text | text, zstd |"
	echo "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
fi
for size in $sizes; do
	n=$(whole "$size") hosts=$(whole "$(awk -v n="$size" 'BEGIN { print n / 100 }')") f=$dir/frontier
	rm -rf "$f"
	: > "$dir/figures"
	build "$f" "$n" "$hosts"
	if [ -n "${BIG:-}" ]; then
		cp -r "$f" "$dir/big"
		"$dir/gen" -one "$BIG" | "${BIN}mfrontier" add -q "$dir/big"
		progress "the big host added"
		for ((r = 1; r <= rounds; r++)); do # in turn
			round "$f" "$n" "$hosts" "$r"
			round "$dir/big" "$n" "$hosts" "$r" big
		done
		rm -rf "$dir/big"
		awk -v n="$size" -v big="$BIG" -v s="$(of next 2)" -v c="$(of next 3)" -v m="$(most next)" -v bs="$(of bignext 2)" -v bc="$(of bignext 3)" -v bm="$(most bignext)" 'BEGIN {
			printf "| %.0e | %.0e | %.2f (%.2f) | %d | %.2f (%.2f) | %d | %.2f (%.2f) |\n", n, big, bs, bc, bm, s, c, m, bs / s, bc / c }'
		continue
	fi
	for ((r = 1; r <= rounds; r++)); do
		round "$f" "$n" "$hosts" "$r"
		"${BIN}mcat" -q --format arrow --stats "$dir/stats.json" -o "$dir/copy.arrows.zst" "$dir/new.arrows.zst"
		stats mcat
	done
	waits=$(number pending "$dir/stat.json")
	bytes=$(du -sbc "$f"/ready "$f"/hosts | tail -1 | cut -f 1)
	"${BIN}mcat" --format text "$dir/new.arrows.zst" | numbered > "$dir/fresh.txt"
	rm "$dir"/*.arrows.zst
	mkfifo "$dir/count.pipe" "$dir/zstd.pipe"
	wc -c < "$dir/count.pipe" > "$dir/text" &
	zstd -q -3 -c < "$dir/zstd.pipe" | wc -c > "$dir/zstd" &
	"${BIN}mfrontier" export "$f" --text | tee "$dir/count.pipe" "$dir/zstd.pipe" | if [ "${SORT:-1}" != 0 ]; then numbered > "$dir/waiting.txt"; else cat > /dev/null; fi
	wait
	rm "$dir"/*.pipe
	rm -rf "$f"
	progress "all exported as text"
	if [ "${SORT:-1}" != 0 ]; then
		timed sorted_round > "$dir/sort"
		progress "all sorted"
	fi
	rm -f "$dir"/{waiting,sorted,batch,fresh}.txt
	awk -v n="$size" -v ns="$(of next 2)" -v nc="$(of next 3)" -v nm="$(most next)" -v us="$(of update 2)" -v uc="$(of update 3)" -v um="$(most update)" -v copied="$(of copied 2)" \
		-v ms="$(of mcat 2)" -v mc="$(of mcat 3)" -v sort="$(cat "$dir/sort" 2> /dev/null)" -v waits="$waits" -v bytes="$bytes" -v text="$(cat "$dir/text")" -v z="$(cat "$dir/zstd")" 'BEGIN {
			printf "| %.0e | %.2f (%.2f) | %d | %.2f (%.2f) | %d | %d | %.2f (%.2f) | %.2f | %s | %s | %.1f | %.1f | %.1f |\n", n, ns, nc, nm, us, uc, um, copied, ms, mc, ms / us,
				sort == "" ? "" : sprintf("%.1f", sort), sort == "" ? "" : sprintf("%.1f", sort / (ns + us)), bytes / waits, text / waits, z / waits }'
done
