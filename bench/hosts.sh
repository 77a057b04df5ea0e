#!/usr/bin/env bash
# What many hosts get of what politeness allows: the rest of their time they could have been contacted, and were not. It is lost between
# rounds, and at the ends of rounds, when few hosts have URLs left.
#
#   bench/hosts.sh               2,000 hosts, 90 seconds, batches as they are by default
#   HOSTS=500 SECONDS_EACH=60 BATCH=60000 bench/hosts.sh
#   DELAY=20ms-2s bench/hosts.sh  unequal hosts: each has a time for its replies
#   HOSTS=200 DOCS=/usr/share/doc/postgresql-doc-15/html bench/hosts.sh
#                                each host is nginx with this folder, at a rate of its own: 7 to 750 kB/s
#
# bench/slowsite serves the hosts on loopback; all delays but addr_delay (0) are the defaults. From 15 seconds after the
# first contact on, for that time, it adds up contacts and the gaps that each asks for, and prints their share of the time of all hosts.
# The crawl lies in a temporary folder below TMPDIR and is deleted. Needs Go, and nginx for DOCS.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$here/bin/} hosts=${HOSTS:-2000} seconds=${SECONDS_EACH:-90}
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill $pid || true; [ "${KEEP:-}" ] || rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
ulimit -n "$(ulimit -Hn)"
set -- ${BATCH:+--set batch="$BATCH"} ${SET:-}
if [ "${DOCS:-}" ]; then
	for i in $(seq "$hosts"); do echo "127.$((i / 250 + 1)).$((i % 250 + 1)).1:8080"; done > "$dir/addresses"
	{
		echo "daemon off; worker_processes 1; pid $dir/nginx.pid; error_log $dir/nginx.log; events { worker_connections 8192; }"
		echo "http { access_log off; types { text/html html; text/css css; image/png png; image/svg+xml svg; }"
		awk -v docs="$DOCS" '{ printf "server { listen %s; root %s; limit_rate %d; }\n", $1, docs, 7000 * exp(log(107) * ((NR * 37) % 100) / 99) }' "$dir/addresses"
		echo "}"
	} > "$dir/nginx.conf"
	awk -F : '{ printf "allow h%d: host %s\n", NR, $1 } END { print "default deny" }' "$dir/addresses" > "$dir/filter.txt"
	set -- "$@" --set extract.filter="$dir/filter.txt" --set extract.duplicates=true
	nginx -c "$dir/nginx.conf" -p "$dir" -e "$dir/nginx.log" &
	page=/index.html
else
	(cd "$here" && go build -o "$dir/slowsite" ./bench/slowsite)
	"$dir/slowsite" 1000000 "${DELAY:-0s}" "$hosts" > "$dir/addresses" &
	page=/
fi
pid=$!
until [ "$(wc -l < "$dir/addresses")" = "$hosts" ]; do kill -0 $pid; sleep 0.1; done
sed "s|.*|http://&$page|" "$dir/addresses" > "$dir/seeds.txt"
"${bin}mcrawl" new "$dir/crawl" --quiet --seeds "$dir/seeds.txt" --set network.allow_net=127.0.0.0/8 --set politeness.addr_delay=0s \
	--set fetch.connections=4000 "$@" > "$dir/out"
TIMEFORMAT='%R %U %S'
took=$({ time "${bin}mcrawl" run "$dir/crawl" --for $((seconds + 30))s --quiet ${PROFILE:+--profile "$PROFILE"} > "$dir/out" 2>&1; } 2>&1) || { cat "$dir/out"; exit 1; }
served=$(for p in $pid $(cat /proc/$pid/task/*/children); do awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hz }' "/proc/$p/stat"; done | awk '{ s += $1 } END { print s }')
"${bin}mcat" --format tsv --columns host,fetch_time,duration_us,outcome "$dir/crawl" | grep -P "\tfetched$" | sort > "$dir/contacts"
awk -F '\t' -v hosts="$hosts" -v s="$seconds" -v took="$took" -v served="$served" -v rounds="$(ls "$dir/crawl/rounds" | grep -c '^r')" -v load="$(cut -d ' ' -f 1 /proc/loadavg)" '
	function seconds(t) { split(t, p, /[T:Z]/); split(p[1], d, "-"); return ((d[3] * 24 + p[2]) * 60 + p[3]) * 60 + p[4] }
	function within(a, b) { return a < from ? (b < from ? 0 : (b > until ? until : b) - from) : a > until ? 0 : (b > until ? until : b) - a }
	function interval(next_start) { all += within(start, next_start); e = start + took_s; busy += within(start, e < next_start ? e : next_start) }
	{ host[NR] = $1; at[NR] = seconds($2); gap = $3 / 1e5; allowed[NR] = $3 / 1e6 + (gap < 1 ? 1 : gap > 30 ? 30 : gap); if (NR == 1 || at[NR] < first) first = at[NR] }
	END {
		from = first + 15; until = from + s
		for (i = 1; i <= NR; i++) {
			start = at[i]; took_s = allowed[i]
			interval(i < NR && host[i + 1] == host[i] ? at[i + 1] : until)
			n += start >= from && start < until
		}
		split(took, t, " ")
		printf "%d hosts: %.1f %% of what politeness allows, %.0f contacts/s; %d rounds; µs of processor a contact: %.0f, the hosts %.0f; load %s\n", hosts, 100 * busy / all, n / s, rounds, (t[2] + t[3]) / NR * 1e6, served / NR * 1e6, load
	}' "$dir/contacts"
