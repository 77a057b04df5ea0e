#!/usr/bin/env bash
# Shards before and after "mcrawl balance --do": one large host beside many small ones. No page is fetched.
#
#   bench/balance.sh                          a host of 10^6 URLs beside 10^4 of 20, 4 shards
#   LARGE=100000 HOSTS=1000 bench/balance.sh
#
# It prints the URLs that wait in each shard, before and after, the time of the move, a URL that went to another shard, and a URL of all, and the memory at the peak. The crawl lies in a temporary folder below TMPDIR and is deleted.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C
export PATH="${BIN:-$here/bin}:$PATH"
large=${LARGE:-1000000} hosts=${HOSTS:-10000} each=${EACH:-20} shards=${SHARDS:-4}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP

{
	seq -f 'http://big.example/page/%.0f.html' "$large"
	seq 0 $((hosts * each - 1)) | awk -v h="$hosts" '{ printf "http://www.host%d.example/page/%d.html\n", $1 % h, $1 / h }'
} > "$dir/seeds.txt"
mcrawl new "$dir/crawl" --shards "$shards" --seeds "$dir/seeds.txt" --contact bench@example.org -q > /dev/null
for n in $(seq 0 $((shards - 1))); do mcrawl stage "$dir/crawl" seed --round seed --shard "$n" -q; done
mcrawl stage "$dir/crawl" commit --round seed
mcrawl balance "$dir/crawl" --json > "$dir/before.json"
TIMEFORMAT='%R %U %S'
{ time mcrawl balance "$dir/crawl" --do --json --stats "$dir/stats.json" > "$dir/moved.json"; } 2> "$dir/took"
mcrawl balance "$dir/crawl" --json > "$dir/after.json"
for n in $(seq 0 $((shards - 1))); do mfrontier check "$dir/crawl/shard/$(printf %03d "$n")/frontier"; done
numbers() { grep -o "\"$1\": *[0-9]*" "$2" | tr -d ' ' | cut -d: -f2; }
sum() { awk '{ n += $1 } END { print n }'; }
echo "waiting before: $(numbers waiting "$dir/before.json" | head -n "$shards" | paste -sd' ')"
echo "waiting after:  $(numbers waiting "$dir/after.json" | head -n "$shards" | paste -sd' ')"
moved=$(numbers waiting "$dir/moved.json" | sum)
all=$(numbers waiting "$dir/before.json" | head -n "$shards" | sum)
awk -v moved="$moved" -v all="$all" '{
	printf "moved %d of %d URLs in %.1f s, %.1f s of processor time: %.1f µs for one that went, %.2f µs for each URL of all shards\n",
		moved, all, $1, $2 + $3, ($2 + $3) * 1e6 / (moved ? moved : 1), ($2 + $3) * 1e6 / all
}' "$dir/took"
echo "memory at the peak: $(($(numbers peak_rss_bytes "$dir/stats.json") >> 20)) MiB"
