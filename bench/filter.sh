#!/usr/bin/env bash
# Filters with very many domains: time beside canonicalising the same URLs, and memory.
#
#   bench/filter.sh                both, some two minutes
#   bench/filter.sh speed          10^6 domains and 1,000 prefixes, in memory and on disk: a Go benchmark that measures
#                                  judging and canonicalising in turn and reports the ratio; and the rules that are shipped
#   bench/filter.sh memory         peak RSS and time of "mextract explain" with lists of 10^6 and 10^7 domains
#
# "run" is how many links in turn have one host (on pages most links stay on their own), "listed" how many in a hundred
# hosts lie in one of the domains. Lists are made from a seed in a folder below TMPDIR, which is deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
cd "$here"
echo "commit $(git rev-parse --short HEAD 2> /dev/null || echo unknown), $(go env GOVERSION), $(uname -sm), $(getconf _NPROCESSORS_ONLN) cores, load $(cut -d' ' -f1 /proc/loadavg), $(date -u +%FT%RZ)"

speed() { go test ./pkg/web/filter -run '^$' -bench 'Million|Default' -benchtime "${BENCHTIME:-10x}" | grep -E '^Benchmark'; }

memory() {
	go build -trimpath -o "$dir/mextract" ./cmd/mextract
	for n in 1000000 10000000; do
		awk -v n=$n 'BEGIN {
			srand(1); split("com org net de co.uk info io", tld, " ")
			for (i = 0; i < n; i++) {
				s = ""; k = 5 + int(rand() * 10)
				for (j = 0; j < k; j++) s = s sprintf("%c", 97 + int(rand() * 26))
				print s "." tld[1 + int(rand() * 7)]
			}
		}' | LC_ALL=C sort -u > "$dir/domains.txt"
		echo 'deny listed: domain @domains.txt' > "$dir/rules"
		{ echo http://unlisted.example/; sed -n '5~50000p' "$dir/domains.txt" | sed 's|^|http://www.|'; } > "$dir/urls.txt"
		for memory in 64M 1G; do
			"$dir/mextract" explain --quiet --memory $memory --filter "$dir/rules" --json --stats "$dir/stats.json" < "$dir/urls.txt" > "$dir/out" 2> /dev/null || [ $? = 6 ]
			denied=$(grep -c '"reason":"filter:listed"' "$dir/out")
			[ "$denied" = $(($(wc -l < "$dir/urls.txt") - 1)) ] || { echo "$denied of $(wc -l < "$dir/urls.txt") denied, want all but one"; exit 1; }
			figure() { sed -n "s/^  \"$1\": \([0-9.]*\),*$/\1/p" "$dir/stats.json"; }
			echo "$(wc -l < "$dir/domains.txt") domains, $(wc -c < "$dir/domains.txt") bytes, --memory $memory: peak RSS $(($(figure peak_rss_bytes) >> 20)) MiB, $(figure cpu_s) s of processor"
		done
	done
}

[ $# -gt 0 ] || set -- speed memory
for part; do "$part"; done
