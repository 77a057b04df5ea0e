#!/usr/bin/env bash
# The crawlers of the papers on one web: Mercator (mcrawl), Google's of 1998, the Internet Archive's of 1997, and the focused one (mcrawl focus).
#
#   bench/papers.sh                          100 hosts, 3,000 pages
#   HOSTS=20 PAGES=300 bench/papers.sh       a short form
#
# mweb serves the web on loopback, without delays. Each crawler crawls it from the same seeds to the end, with the default filter. The
# table has pages/s, processor time, processes at a time, bytes read and written by them (pipes, files and sockets, as the kernel counts
# them), bytes on disk, requests for a page beyond the first, and the peak of all processes' resident memory together (twice a second; what
# they share counts for each). The exit status is 1 if a crawler
# found a page that Mercator did not find, lacks more than 1 % of its pages, or fetched one twice.
# Needs Linux. The crawls lie in a temporary folder below TMPDIR and are deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
hosts=${HOSTS:-100}
web=(--seed "${SEED:-1}" --hosts "$hosts" --pages "${PAGES:-3000}" --topics "${TOPICS:-8}")

# shellcheck source=bench/web.sh
. "$here/bench/web.sh"

serve_web "${web[@]}" --log "$dir/log"
"${BIN}mweb" seeds "${web[@]}" --port "$port" > "$dir/seeds.txt"
"${BIN}mweb" topics "${web[@]}" > "$dir/dictionary.txt"

settings="politeness.min_delay=0s politeness.delay_factor=0 politeness.addr_delay=0s network.allow_net=127.0.0.0/8 frontier.max_attempts=1 resolve.servers=$names"
export FILTER=default CRAWLERS=4 PROCESSES=4 SITES=$(((hosts + 3) / 4)) SET=$settings
export POLITENESS_FLAGS='--min-delay 0 --delay-factor 0 --addr-delay 0' RESOLVE_FLAGS="--server $names" FETCH_FLAGS='--allow-net 127.0.0.0/8' UPDATE_FLAGS='--max-attempts 1'

mercator() { # DIR SEEDS
	local set=()
	for s in $settings; do set+=(--set "$s"); done
	"${BIN}mcrawl" new --quiet "$1" --seeds "$2" "${set[@]}" && "${BIN}mcrawl" run --quiet "$1"
}
focused() {
	local set=()
	for s in $settings; do set+=(--set "$s"); done
	"${BIN}mcrawl" focus --quiet "$1" mouse --dictionary "$dir/dictionary.txt" --seeds "$2" "${set[@]}"
}
google98() { "$here/pipelines/google98.sh" "$@"; }
archive97() { "$here/pipelines/archive97.sh" "$@"; }
export -f mercator google98 archive97 focused
export here settings dir

# crawl NAME: measures it, and counts its requests in NAME.requests, all and those for a URL asked for before.
crawl() {
	local lines
	lines=$(wc -l < "$dir/log")
	measured "$dir/$1" "$1" "$dir/$1" "$dir/seeds.txt" || { tail -20 "$dir/$1.out" >&2; echo "papers.sh: $1 failed" >&2; exit 1; }
	tail -n +$((lines + 1)) "$dir/log" | awk -F '\t' '$5 != "\"/robots.txt\"" { n++; if (seen[$4 $5]++) twice++ } END { print n + 0, twice + 0 }' > "$dir/$1.requests"
}
pages() { # FILE...: the URLs that have a reply
	"${BIN}mcat" --format tsv --columns role,outcome,url "$@" | awk -F '\t' '$1 == "page" && $2 == "fetched" { print $3 }' | sort -u
}

for c in mercator google98 archive97 focused; do crawl $c; done
pages "$dir"/mercator/rounds/r*/marked.* > "$dir/mercator.pages"
pages "$dir"/google98/rounds/r*/fetched-* > "$dir/google98.pages"
pages "$dir"/archive97/crawlers/*/rounds/r*/marked.* > "$dir/archive97.pages"

pages "$dir"/focused/rounds/r*/marked.* > "$dir/focused.pages"

printf '| crawler | pages | pages/s | ms of processor a page | processes at a time | KB read and written a page | KB on disk a page | pages fetched twice | pages that only Mercator found | memory, MiB |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n'
failed=0
for c in mercator google98 archive97 focused; do
	n=$(wc -l < "$dir/$c.pages")
	read -r seconds user sys < "$dir/$c.time"
	read -r _ twice < "$dir/$c.requests"
	missing=$(comm -23 "$dir/mercator.pages" "$dir/$c.pages" | wc -l)
	awk -v c=$c -v missing="$missing" -v n="$n" -v s="$seconds" -v cpu="$user $sys" -v twice="$twice" -v io="$(tr '\n' ' ' < "$dir/$c.io")" -v disk="$(du -sB1 "$dir/$c" | cut -f 1)" '
		$1 > processes { processes = $1 } $2 > rss { rss = $2 }
		END {
			split(cpu, t, " "); split(io, b, " ")
			printf "| %s | %d | %.0f | %.2f | %d | %.1f | %.1f | %d | %d | %.0f |\n", c, n, n / s, (t[1] + t[2]) * 1000 / n, processes, (b[1] + b[2]) / n / 1000, disk / n / 1000, twice, missing, rss / 1024
		}' "$dir/$c.seen"
	other=$(comm -13 "$dir/mercator.pages" "$dir/$c.pages" | head -3)
	[ -z "$other" ] || { echo "papers.sh: $c found what mercator did not: $other" >&2; failed=1; }
	[ $((100 * missing)) -le "$n" ] || { echo "papers.sh: $c lacks $missing pages" >&2; failed=1; }
	[ "$twice" = 0 ] || failed=1
done
exit $failed
