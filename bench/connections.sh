#!/usr/bin/env bash
# Thousands of hosts on thousands of connections, with politeness on: is each host served as often as it may be?
#
#   bench/connections.sh                            10,000 hosts and connections, five minutes
#   N=500 SECONDS_EACH=20 bench/connections.sh      a small one
#   ASSIGN=static bench/connections.sh              hosts assigned to connections by hash
#   DELAY=2 bench/connections.sh                    seconds between contacts with a host (1)
#
# mweb serves N hosts, each on a loopback address of its own (a tenth of them have faulty names, or a robots.txt that
# forbids all); mfetch asks them for small pages with --min-delay DELAY and no other delay, until --deadline. Then it
# prints, of all hosts that gave pages, the least and the mean of
#
#     contacts made ÷ (time ÷ (DELAY + mean duration of the host's contacts))
#
# mfetch's peak resident memory and processor time, and what "mfetch audit" says; and from mweb's own log the shortest
# time from one request to a host to the next. The exit status is 1 if a contact came early by either witness, or a
# host got less than 99 % of its share. With ASSIGN=static the share is printed only.
#
# Needs Linux, and N × 1.5 + 64 open files (ulimit -Hn). The crawl lies in a temporary folder below TMPDIR, takes some 1.5 KB a
# contact there, and is deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
n=${N:-10000} span=${SECONDS_EACH:-300} delay=${DELAY:-1} assign=${ASSIGN:-dynamic} memory=${MEMORY:-512M}

# shellcheck source=bench/web.sh
. "$here/bench/web.sh"
ulimit -n "$(ulimit -Hn)"

serve_web --quiet --hosts "$n" --pages "$n" --log "$dir/server.log"

# The hosts in turn, each with more URLs than there is time for.
awk -v n="$n" -v each=$((span / delay + 2)) -v port="$port" 'BEGIN {
	for (i = 0; i < each; i++) for (h = 0; h < n; h++) printf "http://h%d.mweb.test:%d/x/%d\n", h, port, i
}' > "$dir/urls.txt"
"${BIN}mckpt" init --quiet "$dir/crawl"
"${BIN}murlset" new --quiet "$dir/crawl/urls" --txn r1 "$dir/urls.txt" |
	"${BIN}mresolve" --quiet "$dir/crawl/dns" --server "$names" --txn r1 -o "$dir/batch.arrows.zst"
rm "$dir/urls.txt"

"${BIN}mfetch" "$dir/crawl/fetch" --quiet --txn r1 --stats "$dir/stats.json" --memory "$memory" --allow-net 127.0.0.0/8 \
	--connections "$n" --assign "$assign" --min-delay "${delay}s" --delay-factor 0 --addr-delay 0 --deadline "${span}s" \
	-o "$dir/fetched.arrows.zst" "$dir/batch.arrows.zst"

failed=0
"${BIN}mcat" --format tsv --columns host,addr,duration_us,role "$dir/fetched.arrows.zst" | awk -F '\t' -v span="$span" -v delay="$delay" '
	NR > 1 && $2 != "" { made[$1]++; took[$1] += $3; pages[$1] += $4 == "page"; robots += $4 != "page" }
	END {
		least = 1e9
		for (h in made) {
			contacts += made[h]; us += took[h]
			if (!pages[h]) continue # robots.txt forbids all, or cannot be had
			share = made[h] * (delay + took[h] / made[h] / 1e6) / span
			if (share < least) { least = share; worst = h }
			sum += share; hosts++
		}
		printf "hosts %d, contacts %d (%d for robots.txt; %.0f/s), mean duration %.1f ms\nshare of what a host may be asked: least %.4f (%s), mean %.4f\n",
			hosts, contacts, robots, contacts / span, us / contacts / 1000, least, worst, sum / hosts
		exit hosts == 0 || least < 0.99
	}' || { [ "$assign" = static ] || failed=1; }
awk -F '[:,]' '/"peak_rss_bytes"/ { printf "peak memory %.0f MiB\n", $2 / 1048576 } /"cpu_s"/ { printf "processor %.1f s\n", $2 }' "$dir/stats.json"
"${BIN}mfetch" audit --min-delay "${delay}s" --delay-factor 0 "$dir/fetched.arrows.zst" || failed=1

# The server may note the end of a reply late, but never the arrival of a request early: from one arrival to the next
# there is at least the delay.
kill $server
wait $server || true # it was stopped
server=
sort -t "$(printf '\t')" -k 4,4 -k 1,1 "$dir/server.log" | awk -F '\t' -v delay="$delay" '
	{
		split(substr($1, 12), t, "[:Z]")
		at = t[1] * 3600 + t[2] * 60 + t[3]
		gap = at - last
		if (gap < -43200) gap += 86400 # midnight
		if ($4 == host && (!n++ || gap < least)) { least = gap; worst = $4 }
		host = $4; last = at
	}
	END {
		printf "server: %d requests, shortest time from one to the next of a host %.6f s (%s)\n", NR, least, worst
		exit n == 0 || least < delay - 0.000002 # the log has microseconds
	}' || failed=1
exit $failed
