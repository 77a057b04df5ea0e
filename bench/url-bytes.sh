#!/usr/bin/env bash
# Bytes on disk for each URL that waits in a frontier, beside its text: of links of real pages.
#
#   bench/url-bytes.sh [DIR …]     HTML pages below these folders (default: /usr/share, Debian's documentation), half a minute
#
# Each page is a response of a WARC file, its host named after the folder below DIR/doc (or DIR), so that there are as many hosts as packages.
# mextract finds the links, murlset leaves each URL once, mfrontier takes them in the order in which they were found; the links of the
# pages to themselves and to each other are what a crawl of them would have in its queues.
# "in the queues" is the runs of URLs that wait; "with hosts" adds the table of hosts. The folder below TMPDIR is deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
dirs=("$@"); [ $# -gt 0 ] || dirs=(/usr/share)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP

pages() { # WARC records of the pages
	local file size path host head
	find "${dirs[@]}" -type f -name '*.html' -printf '%s %p\n' | sort -k 2 | while read -r size file; do
		path=${file#/usr/share/doc/} path=${path#/usr/share/}
		host=${path%%/*}
		host=${host//[^A-Za-z0-9.-]/-}
		path=${path#*/}
		path=${path//[^A-Za-z0-9.\/_-]/_}
		head=$'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: '$size$'\r\n\r\n'
		printf 'WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-%012d>\r\n' $((n = ${n:-0} + 1))
		printf 'WARC-Date: 2024-01-01T00:00:00Z\r\nWARC-Target-URI: https://%s.debian.example/%s\r\n' "${host,,}" "$path"
		printf 'Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n%s' $((size + ${#head})) "$head"
		cat "$file"
		printf '\r\n\r\n'
	done
}
echo "commit $(git -C "$here" rev-parse --short HEAD 2> /dev/null || echo unknown), $(uname -sm), $(date -u +%FT%RZ)"
pages > "$dir/pages.warc"
"${BIN}murlset" create "$dir/urls"
"${BIN}mfrontier" create "$dir/frontier"
"${BIN}mextract" -q "$dir/pages.warc" | "${BIN}murlset" new -q "$dir/urls" -o "$dir/new.arrows.zst"
"${BIN}mfrontier" add -q "$dir/frontier" "$dir/new.arrows.zst"
"${BIN}mfrontier" export -q "$dir/frontier" --text > "$dir/text"
"${BIN}mfrontier" stat --json "$dir/frontier" > "$dir/stat.json"
awk -v n="$(wc -l < "$dir/text")" -v text="$(wc -c < "$dir/text")" -v zstd="$(zstd -q -3 -c "$dir/text" | wc -c)" -v pages="$(grep -ac '^WARC-Type: response' "$dir/pages.warc")" \
	-v queues="$(du -sbc "$dir"/frontier/ready | tail -1 | cut -f 1)" -v hosts="$(du -sbc "$dir"/frontier/hosts | tail -1 | cut -f 1)" \
	-v named="$(cut -d / -f 3 "$dir/text" | sort -u | wc -l)" 'BEGIN {
	print "| pages | URLs | hosts | bytes a URL: text | zstd -3 of all texts | in the queues | with hosts | of the text | wanted |"
	print "|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
	printf "| %d | %d | %d | %.1f | %.1f | %.1f | %.1f | %.2f | 0.5 |\n", pages, n, named, text / n, zstd / n, queues / n, (queues + hosts) / n, (queues + hosts) / text }'
