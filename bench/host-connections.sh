#!/usr/bin/env bash
# How fast one site is crawled over several connections (politeness.connections in a sheet), beside wget2 -r, or wget -r where there is no wget2.
#
#   bench/host-connections.sh              9,000 pages of 1.6 KB, served at once, and 3 ms after the request
#   PAGES=3000 DELAYS=10ms CONNECTIONS="1 8" bench/host-connections.sh
#
# Prints requests/s of the whole crawl, from the command to its end, with the WARC files, links and checkpoints of mcrawl and the files of wget2.
# The crawl has no delays. The exit status is 1 if a page is missing, or "mfetch audit" finds a contact that came early.
# The folders lie below TMPDIR and are deleted in the end. Needs Go.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$here/bin/} pages=${PAGES:-9000}
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill $pid || true; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
(cd "$here" && go build -o "$dir/slowsite" ./bench/slowsite)
failed=0
for delay in ${DELAYS:-0s 3ms}; do
	"$dir/slowsite" "$pages" "$delay" > "$dir/address" &
	pid=$!
	until [ -s "$dir/address" ]; do sleep 0.1; done
	url=http://$(cat "$dir/address")/
	for n in ${CONNECTIONS:-1 4 8 16}; do
		start=$(date +%s%N)
		"${bin}mcrawl" site "$url" --quiet --into "$dir/crawl" --host-connections "$n" --contact bench@example.org --set network.allow_net=127.0.0.0/8 \
			--set politeness.min_delay=0s --set politeness.delay_factor=0 --set politeness.addr_delay=0s > "$dir/out" 2>&1 || { cat "$dir/out"; failed=1; }
		ours=$(($(date +%s%N) - start))
		"${bin}mfetch" audit "$dir/crawl" > "$dir/audit" || { cat "$dir/audit"; failed=1; }
		got=$("${bin}mcat" --columns url,role,status "$dir/crawl" | grep '"page"' | grep -c '"status":200' || true)
		[ "$got" = $((pages + 1)) ] || { echo "mcrawl has $got pages, want $((pages + 1))"; failed=1; }
		peer="wget -r"
		start=$(date +%s%N)
		if command -v wget2 > /dev/null; then
			peer="wget2 -r"
			wget2 -q -r -l inf --max-threads="$n" -P "$dir/wget" "$url" || true
		else
			wget -q -r -l inf -P "$dir/wget" "$url" || true
		fi
		theirs=$(($(date +%s%N) - start))
		files=$(find "$dir/wget" -type f | wc -l)
		[ "$files" -gt "$pages" ] || { echo "$peer has $files files, want $((pages + 1))"; failed=1; }
		awk -v d="$delay" -v n="$n" -v p="$pages" -v a="$ours" -v b="$theirs" -v peer="$peer" 'BEGIN {
			printf "delay %s, %2d connections: mcrawl %5.0f/s, %s %5.0f/s\n", d, n, p / a * 1e9, peer, p / b * 1e9 }'
		rm -rf "$dir/crawl" "$dir/wget"
	done
	kill $pid
	wait $pid 2> "$dir/ended" || true
	pid=
	rm "$dir/address"
done
exit $failed
