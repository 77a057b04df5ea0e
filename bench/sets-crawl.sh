#!/usr/bin/env bash
# What the caches and sets of a crawl are asked: the figures that the 1999 paper gives for its own.
#
#   bench/sets-crawl.sh                            a synthetic web of some 100,000 URLs, crawled to its end
#   PAGES=10000 HOSTS=200 bench/sets-crawl.sh      a smaller one
#   BATCHES=1 IMPLS= bench/sets-crawl.sh           sets of one run, as the paper's one file; no table of implementations
#
# The web is crawled first (mfetch --sim: its pages come from the synthetic web inside it; names are asked of mweb on
# loopback). Then two streams are taken from the records of all rounds, in their order: the URL of every link, and the
# content fingerprint of every page of status 2xx (as the URL http://d/FINGERPRINT, so that the same command tests
# them). The first half of each goes into a set, in BATCHES batches (8); the second half is tested in one process that
# answers at once and asks one by one (murlset add --mode online --together 1), with caches of several sizes. Hits and
# reads are those that --stats counts: a read is one call of pread for at most 8 KiB of the set's files.
#
# It prints tables for RESULTS.md. The crawl lies in a temporary folder below TMPDIR and is deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
seed=${SEED:-1} hosts=${HOSTS:-1000} pages=${PAGES:-60000} batches=${BATCHES:-8} impls=${IMPLS-sorted bloom}
export BATCH=${BATCH:-10000}
web=(--seed "$seed" --hosts "$hosts" --pages "$pages")

# shellcheck source=bench/web.sh
. "$here/bench/web.sh"

serve_web "${web[@]}"
"${BIN}mweb" seeds "${web[@]}" --port 80 > "$dir/seeds.txt"

export CRAWL=$dir/crawl SEEDS=$dir/seeds.txt
# shellcheck source=bench/pipe.sh
. "$here/bench/pipe.sh"
export INIT_FLAGS=--quiet SEED_FLAGS=--quiet NEXT_FLAGS=--quiet MARK_FLAGS=--quiet EXTRACT_FLAGS=--quiet NEW_FLAGS=--quiet COMMIT_FLAGS=--quiet
export RESOLVE_FLAGS="--quiet --server $names" UPDATE_FLAGS="--quiet --max-attempts 1"
export FETCH_FLAGS="--quiet --sim seed=$seed,hosts=$hosts,pages=$pages"
export POLITENESS_FLAGS='--for 0 --min-delay 0 --delay-factor 0 --addr-delay 0'
rounds 0 > "$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }

rounds=$(cd "$CRAWL/rounds" && printf '%s\n' r[0-9]* | sort -t r -k 2 -n)
for r in $rounds; do "${BIN}mcat" --format text "$CRAWL/rounds/$r/links.arrows.zst"; done > "$dir/urls.txt"
for r in $rounds; do
	"${BIN}mcat" --format tsv --columns role,status,body_length,content_fp "$CRAWL/rounds/$r/marked.arrows.zst"
done | awk -F '\t' '$1 == "page" && $2 ~ /^2/ && $3 > 0 { print "http://d/" $4 }' > "$dir/documents.txt"

number() { # KEY FILE: the first number of that name
	awk -v key="\"$1\":" '$1 == key { sub(",", "", $2); print $2; exit }' "$2"
}
half() { # NAME: cuts the stream into batches and a second half
	local n
	n=$(($(wc -l < "$dir/$1.txt") / 2))
	mkdir "$dir/$1"
	head -n $n "$dir/$1.txt" | split -l $((n / batches + 1)) --additional-suffix .txt - "$dir/$1/batch-"
	tail -n +$((n + 1)) "$dir/$1.txt" > "$dir/$1/second.txt"
	"${BIN}murlset" create "$dir/$1/set"
	for b in "$dir/$1"/batch-*.txt; do "${BIN}murlset" add "$dir/$1/set" "$b"; done
}
ask() { # NAME CACHE: tests the second half, statistics in NAME.json
	rm -rf "$dir/$1/copy"
	cp -r "$dir/$1/set" "$dir/$1/copy"
	"${BIN}murlset" add "$dir/$1/copy" --mode online --together 1 --cache "$2" --quiet --stats "$dir/$1.json" "$dir/$1/second.txt"
}
half urls
half documents

echo "$(wc -l < "$dir/urls.txt") links to $(sort -u "$dir/urls.txt" | wc -l) URLs, $(wc -l < "$dir/documents.txt") documents, $(sort -u "$dir/documents.txt" | wc -l) different ones, $(echo "$rounds" | wc -l) rounds, sets of $batches batches"
echo
echo '| cache of | hit rate, URLs | reads a URL | hit rate, documents | reads a document |'
echo '|--:|--:|--:|--:|--:|'
for size in 0 $((1 << 10)) $((1 << 12)) $((1 << 14)) $((1 << 16)) $((1 << 18)); do
	row="| $size |"
	for name in urls documents; do
		ask $name $size
		row+=" $(awk -v r="$(number cache_hit_rate "$dir/$name.json")" 'BEGIN { printf "%.1f %%", 100 * r }') | $(awk -v r="$(number reads_per_url "$dir/$name.json")" 'BEGIN { printf "%.3f", r }') |"
	done
	echo "$row"
done
ask urls $((1 << 18))
ask documents 0
awk -v u="$(number reads_per_url "$dir/urls.json")" -v d="$(number reads_per_url "$dir/documents.json")" \
	'BEGIN { printf "\nreads a test, URLs with a cache of 2^18 beside documents without one: %.3f to %.3f, 1 to %.1f\n", u, d, d / u }'

[ -n "$impls" ] || exit 0
echo
echo '| implementation | seconds, batch | seconds, online | bytes a URL | peak RSS, MiB |'
echo '|---|--:|--:|--:|--:|'
for impl in $impls; do
	row="| $impl |"
	for mode in batch online; do
		rm -rf "$dir/set"
		size=()
		[ $impl != bloom ] || size=(--bloom-size 1M)
		"${BIN}murlset" create "$dir/set" --impl $impl "${size[@]}"
		began=$(date +%s.%N)
		for b in "$dir"/urls/batch-*.txt "$dir/urls/second.txt"; do
			"${BIN}murlset" add "$dir/set" --mode $mode --quiet --stats "$dir/impl.json" "$b"
		done
		row+=" $(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }') |"
	done
	"${BIN}murlset" stat "$dir/set" > "$dir/stat.json"
	row+=" $(awk -v n="$(number count "$dir/stat.json")" -v b="$(number bytes "$dir/stat.json")" 'BEGIN { printf "%.1f", b / n }') |"
	echo "$row $(($(number peak_rss_bytes "$dir/impl.json") >> 20)) |"
done
