#!/usr/bin/env bash
# How fast mfetch fetches and archives, beside wget2 and "wget --warc-file": PostgreSQL's documentation (1,173 files,
# mean 15 KB) under 32 host names on 32 loopback addresses, served by nginx on the same machine, given as one list of
# URLs that goes round the hosts. No delays, for anyone.
#
#   bench/fetch-peers.sh                 every file of every host (37,536 URLs), three rounds
#   ROUNDS=5 HOSTS=8 FILES=300 bench/fetch-peers.sh
#   WHOLE=1 bench/fetch-peers.sh             instead, whole crawls from the front pages: stream.sh beside "wget2 -r"
#   STAGES=DIR bench/fetch-peers.sh          instead, the CPU time of each command of one round whose batch is the list, by
#                                            mercator.mk in memory; DIR gets their --stats and --profile files
#   PROFILE=cpu.pprof bench/fetch-peers.sh   also a CPU profile of mfetch, in one run more (to tmpfs)
#
# In each round every command runs once, so that what else the machine does hits all of them. mfetch writes WARC files,
# compressed (gzip), with SHA-1 digests, and syncs them to the disk before it ends; wget writes WARC files, compressed,
# with digests; wget2 writes the pages to files, and has no WARC. TMP= is a folder on a disk [/tmp], SHM= one in memory
# [/dev/shm]. Names come from an /etc/hosts that only the commands started here see (unshare), which needs no root where
# users may make namespaces. It needs nginx, wget, wget2, unshare, postgresql-doc-15 and (WHOLE=1) dnsmasq, and ends what it started.
#
# It prints for each command the pages/s of each round, the median, the ratio of mfetch's median to it, and the CPU time
# a page (of the client alone; user and system). Its exit status is 1 if a command did not get all pages.
set -euo pipefail
export LC_ALL=C
rounds=${ROUNDS:-3} hosts=${HOSTS:-32} port=${PORT:-8083} disk=${TMP:-/tmp} shm=${SHM:-/dev/shm}
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$here/bin/}
html=/usr/share/doc/postgresql-doc-15/html
PATH=$PATH:/usr/sbin
die() { echo "fetch-peers: $1" >&2; exit 1; }
for tool in nginx wget wget2 unshare; do
	command -v $tool >/dev/null || die "$tool is not installed"
done
[ -e $html/index.html ] || die "postgresql-doc-15 is not installed"
[ -x "${bin}mfetch" ] || die "no ${bin}mfetch: run \"make build\""

dir=$(mktemp -d -p "$disk")
mem=$(mktemp -d -p "$shm")
pids=
trap '[ -z "$pids" ] || kill $pids || true; rm -rf "$dir" "$mem"' EXIT
trap 'exit 130' INT TERM HUP

# --- servers, names, URLs ---------------------------------------------------

cat >"$dir/nginx.conf" <<-END
	daemon off;
	worker_processes auto;
	pid $dir/nginx.pid;
	events { worker_connections 4096; }
	http {
		include /etc/nginx/mime.types;
		access_log off;
		sendfile on;
		tcp_nopush on;
		open_file_cache max=2000;
		keepalive_requests 1000000;
		client_body_temp_path $dir/t1; proxy_temp_path $dir/t2; fastcgi_temp_path $dir/t3;
		uwsgi_temp_path $dir/t4; scgi_temp_path $dir/t5;
		server { listen $port backlog=4096; root $html; }
	}
END
nginx -p "$dir" -c "$dir/nginx.conf" -e "$dir/error.log" &
pids=$!
{
	echo "127.0.0.1 localhost"
	for h in $(seq "$hosts"); do echo "127.20.0.$h h$h.docs.test"; done
} >"$dir/hosts"
(cd $html && find . -type f | sort) | sed "s|^\./||; ${FILES:+$((FILES + 1)),\$d}" >"$dir/files"
while read -r f; do
	for h in $(seq "$hosts"); do echo "http://h$h.docs.test:$port/$f"; done
done <"$dir/files" >"$dir/urls.txt"
pages=$(wc -l <"$dir/urls.txt")
bytes=$(sed "s|^|$html/|" "$dir/files" | xargs stat -L -c %s | awk '{ s += $1 } END { print s }')

named() { # COMMAND..., with our names
	unshare -rm sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$dir/hosts" "$@"
}
for _ in $(seq 50); do
	kill -0 $pids 2>/dev/null || { cat "$dir/error.log" >&2; die "nginx ended: is port $port taken? PORT= chooses another"; }
	named wget -q --no-config --no-proxy -O "$dir/page" --tries=1 "$(head -n 1 "$dir/urls.txt")" && break || sleep 0.1
done
[ -s "$dir/page" ] || die "nginx does not answer on port $port"

# The same list as url records with addresses, which is what mfetch reads in a crawl.
awk -v hosts=$hosts -F '[/:]' '{ h = substr($4, 2); sub(/\..*/, "", h)
	printf "{\"url\":\"%s\",\"addr\":\"127.20.0.%s\",\"addr_expires\":\"2100-01-01T00:00:00Z\"}\n", $0, h }' "$dir/urls.txt" |
	"${bin}mcat" --from json --kind url -o "$dir/urls.arrows.zst"

# --- the commands: each takes an empty folder, and its count is checked ------

undelayed=(--allow-net 127.0.0.0/8 --min-delay 0 --delay-factor 0 --addr-delay 0)
mfetch() { "${bin}mfetch" create "$1/fetch" && "${bin}mfetch" "$1/fetch" -q "${undelayed[@]}" "${@:2}" "$dir/urls.arrows.zst" -o "$1/rows"; }
mfetch_count() { "${bin}mcat" --format tsv --columns role,status "$1/rows" | grep -c '^page	200'; }
wget2_t() { named wget2 --no-config -q -x -P "$1" --max-threads="$2" --robots=off -i "$dir/urls.txt"; }
wget2_count() { find "$1" -type f | wc -l; }
wget_warc() { named wget --no-config -q -O /dev/null --warc-tempdir="$1" --warc-file="$1/x" -i "$dir/urls.txt"; }
wget_count() { zcat "$1/x.warc.gz" | grep -a -c '^WARC-Type: response'; }

# A whole crawl from the front pages: links found, seen ones dropped, a checkpoint each round.
crawl() {
	CRAWL=$1/crawl BIN=$bin ROUNDS=0 SEEDS=$dir/roots.txt RESOLVE_FLAGS="--server 127.20.1.1:$dns_port" \
		FETCH_FLAGS="${undelayed[*]}" EXTRACT_FLAGS="--duplicates --filter $dir/filter" \
		"$here/pipelines/stream.sh" >"$1/log" 2>&1 || { cat "$1/log" >&2; return 1; }
}
crawl_count() { "${bin}mcat" --format tsv --columns role,status "$1"/crawl/rounds/r*/marked.arrows.zst | grep -c '^page	200'; }
wget2_r() { named wget2 --no-config -q -r -l 0 -x -P "$1" --max-threads="$2" --robots=off -i "$dir/roots.txt" || [ $? = 8 ]; } # 8: a 404

if [ -n "${WHOLE:-}${STAGES:-}" ]; then
	dns_port=${DNS_PORT:-5383}
	for h in $(seq "$hosts"); do
		echo "http://h$h.docs.test:$port/" >>"$dir/roots.txt"
		echo "host-record=h$h.docs.test,127.20.0.$h" >>"$dir/dnsmasq.conf"
	done
	printf 'allow docs: domain docs.test\ndefault deny\n' >"$dir/filter"
	dnsmasq -k -C "$dir/dnsmasq.conf" -x "" -u "$(id -un)" -R -h -z -a 127.20.1.1 -p "$dns_port" --local=/test/ --local-ttl=3600 &
	pids="$pids $!"
fi
if [ -n "${STAGES:-}" ]; then
	mkdir -p "$STAGES"
	traced() { echo "--stats $STAGES/$1.json --profile $STAGES/$1.pprof"; }
	CRAWL=$mem/crawl BIN=$bin SEEDS=$dir/urls.txt ROUNDS=1 BATCH=$pages make -s -f "$here/pipelines/mercator.mk" \
		NEXT_FLAGS="$(traced mfrontier-next)" RESOLVE_FLAGS="--server 127.20.1.1:$dns_port $(traced mresolve)" \
		FETCH_FLAGS="${undelayed[*]} $(traced mfetch)" MARK_FLAGS="$(traced mfpset-mark)" \
		EXTRACT_FLAGS="--duplicates --filter $dir/filter $(traced mextract)" NEW_FLAGS="$(traced murlset-new)" \
		UPDATE_FLAGS="$(traced mfrontier-update)" COMMIT_FLAGS="$(traced mckpt-commit)" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
	links=$("${bin}mcat" --count "$mem/crawl/rounds/r1/links.arrows.zst")
	echo "one round of $pages pages, $links links; us of CPU a page:"
	for stage in mfrontier-next mresolve mfetch mfpset-mark mextract murlset-new mfrontier-update mckpt-commit; do
		sed -n "s/.*\"cpu_s\": \([0-9.]*\).*/\1 $stage/p" "$STAGES/$stage.json"
	done | awk -v pages="$pages" '{ printf "%8.0f  %s\n", $1 / pages * 1e6, $2; sum += $1 } END { printf "%8.0f  all\n", sum / pages * 1e6 }'
	exit
elif [ -n "${WHOLE:-}" ]; then
	commands=("mercator-disk|$dir|crawl|crawl_count" "wget2-r-5-disk|$dir|wget2_r 5|wget2_count" "wget2-r-32-disk|$dir|wget2_r 32|wget2_count"
		"mercator-tmpfs|$mem|crawl|crawl_count" "wget2-r-32-tmpfs|$mem|wget2_r 32|wget2_count")
	least=$((hosts * 1170))
else
	commands=("mfetch-disk|$dir|mfetch|mfetch_count" "wget2-5-disk|$dir|wget2_t 5|wget2_count" "wget2-32-disk|$dir|wget2_t 32|wget2_count"
		"wget-warc-disk|$dir|wget_warc|wget_count"
		"mfetch-tmpfs|$mem|mfetch|mfetch_count" "wget2-5-tmpfs|$mem|wget2_t 5|wget2_count" "wget2-32-tmpfs|$mem|wget2_t 32|wget2_count")
	least=$pages
fi

# --- the rounds -------------------------------------------------------------

echo "$pages URLs on $hosts hosts, mean $((bytes / $(wc -l <"$dir/files"))) bytes; $(nproc) cores; load $(cut -d ' ' -f 1-3 /proc/loadavg) before the first"
TIMEFORMAT='%R %U %S'
for round in $(seq "$rounds"); do
	for c in "${commands[@]}"; do
		IFS='|' read -r name where run count <<<"$c"
		out=$where/run
		rm -rf "$out"
		mkdir "$out"
		sync
		read -r command argument <<<"$run"
		{ time $command "$out" $argument; } 2>"$dir/time" || { cat "$dir/time" >&2; die "$name failed"; }
		got=$($count "$out")
		[ "$got" -ge "$least" ] || die "$name got $got pages, want $least"
		read -r real user sys <<<"$(tail -n 1 "$dir/time")"
		echo "$name $got $real $user $sys" >>"$dir/results"
		awk -v n="$name" -v r="$round" -v p="$got" -v t="$real" 'BEGIN { printf "round %d: %-17s %7.0f pages/s\n", r, n, p / t }'
		rm -rf "$out"
	done
done

ours=${commands[0]%%|*}
awk -v ours="${ours%-disk}" '
	function median(n, a, i, j, t) { for (i = 2; i <= n; i++) for (j = i; j > 1 && a[j] < a[j-1]; j--) { t = a[j]; a[j] = a[j-1]; a[j-1] = t }; return a[int((n + 1) / 2)] }
	{ if (!($1 in n)) order[++names] = $1; i = ++n[$1]; rate[$1, i] = $2 / $3; cpu[$1, i] = ($4 + $5) / $2 * 1e6 }
	END {
		for (k = 1; k <= names; k++) { c = order[k]
			for (i = 1; i <= n[c]; i++) { r[i] = rate[c, i]; u[i] = cpu[c, i] }
			mr[c] = median(n[c], r); mu[c] = median(n[c], u); least[c] = r[1]; most[c] = r[n[c]] }
		printf "\n%-17s %9s %17s %14s %12s\n", "", "pages/s", "from - to", "ours is times", "us CPU/page"
		for (k = 1; k <= names; k++) { c = order[k]; where = c; sub(/.*-/, "", where)
			printf "%-17s %9.0f %8.0f - %6.0f %14.2f %12.0f\n", c, mr[c], least[c], most[c], mr[ours "-" where] / mr[c], mu[c] } }' "$dir/results"

if [ -n "${PROFILE:-}" ]; then
	mkdir "$mem/run"
	mfetch "$mem/run" --profile "$PROFILE"
fi
