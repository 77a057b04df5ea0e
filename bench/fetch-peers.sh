#!/usr/bin/env bash
# How fast fetching and archiving is, beside curl, wget, wget2, pigz and net/http. The pages of postgresql-doc-15 (small:
# mean 14 KB) and python3.11-doc (large: mean 96 KB) stand under 32 host names on 32 loopback addresses, served by nginx
# on the same machine; each command gets the same list of URLs, which goes round the hosts. No delays, for anyone.
#
#   bench/fetch-peers.sh [MODE...]           the modes named, or fetch cpu archive large round: some five minutes at rest
#
#   fetch     fetch only, small and large pages: package http1 (bench/keepalive) beside curl -Z, 32 connections each
#   cpu       processor time of a request: package http1 beside net/http, kept connections and one for each request
#   archive   both docs: mfetch, gzip and zstd, beside wget2 (5 and 32 threads) and wget --warc-file, on disk and in memory
#   small     the same with small pages alone
#   large     the same with large pages alone, on disk, and "pigz -1 -p 2" on the same bodies
#   round     one round as a pipe, from mfrontier next to mfrontier update and the checkpoint, with WARC files
#             beside wget2 in memory
#   crawl     whole crawls of the small pages from the hosts' front pages, round by round, beside "wget2 -r"
#   stages    processor time of each command of such a round; STAGES=DIR gets --stats and --profile files
#   codecs    mfetch by codec, of pages, of the same sent compressed, and of compressed files; with BEFORE=DIR/ also the
#             mfetch in DIR
#
# ROUNDS= is how often [3], HOSTS= how many [32]; EVERY= takes each n-th page of a doc [10]. In each round every command
# runs once, so that what else the machine does hits all of them. mfetch writes WARC files with SHA-1 digests, and an
# outcome for each URL, and syncs them before it ends; wget writes WARC files with digests; wget2 writes pages to files,
# and has no WARC. PORT= is the first of two ports [8083]. TMP= is a folder on a disk [/tmp], SHM= one in memory [/dev/shm]. Names come from an /etc/hosts that
# only the commands started here see (unshare), which needs no root where users may make namespaces. It needs nginx,
# curl, wget, wget2, pigz, unshare, the two docs, and for round, crawl and stages dnsmasq; and ends what it started.
#
# It prints for each command pages/s, processor time a page (of the client alone; user and system) and bytes of WARC
# files a page, medians of the rounds; and how many times as fast as a peer ours was, the median of the rounds' ratios.
# The exit status is 1 if a command did not get all pages, whatever the ratios.
set -euo pipefail
export LC_ALL=C
rounds=${ROUNDS:-3} hosts=${HOSTS:-32} every=${EVERY:-10} port=${PORT:-8083} disk=${TMP:-/tmp} shm=${SHM:-/dev/shm}
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$here/bin/}
docs=/usr/share/doc small=postgresql-doc-15/html large=python3.11/html
PATH=$PATH:/usr/sbin
die() { echo "fetch-peers: $1" >&2; exit 1; }
[ $# -gt 0 ] || set -- fetch cpu archive large round
for tool in nginx curl wget wget2 pigz unshare; do
	command -v $tool >/dev/null || die "$tool is not installed"
done
[ -e $docs/$small/index.html ] || die "postgresql-doc-15 is not installed"
[ -e $docs/$large/index.html ] || die "python3.11-doc is not installed"
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
		open_file_cache max=4000;
		keepalive_requests 1000000;
		client_body_temp_path $dir/t1; proxy_temp_path $dir/t2; fastcgi_temp_path $dir/t3;
		uwsgi_temp_path $dir/t4; scgi_temp_path $dir/t5;
		server { listen $port backlog=4096; root $docs; }
		server { listen $((port + 1)) backlog=4096; root $docs; gzip on; }
	}
END
nginx -p "$dir" -c "$dir/nginx.conf" -e "$dir/error.log" &
pids=$!
{
	echo "127.0.0.1 localhost"
	for h in $(seq "$hosts"); do echo "127.20.0.$h h$h.docs.test"; done
} >"$dir/hosts"
named() { # COMMAND..., with our names
	unshare -rm sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$dir/hosts" "$@"
}
for _ in $(seq 50); do
	kill -0 $pids 2>/dev/null || { cat "$dir/error.log" >&2; die "nginx ended: is port $port or $((port + 1)) taken? PORT= chooses two others"; }
	named wget -q --no-config --no-proxy -O "$dir/page" --tries=1 "http://h1.docs.test:$port/$small/index.html" && break || sleep 0.1
done
[ -s "$dir/page" ] || die "nginx does not answer on port $port"

# list DOC... makes the list, as each command reads it, of files with names like pattern.
pattern='*.html'
list() {
	(cd $docs && find "$@" -type f -name "$pattern" | sort) | awk -v n="$every" 'NR % n == 1 || n == 1' >"$dir/files"
	while read -r f; do
		for h in $(seq "$hosts"); do echo "http://h$h.docs.test:$port/$f"; done
	done <"$dir/files" >"$dir/urls.txt"
	pages=$(wc -l <"$dir/urls.txt")
	bytes=$(sed "s|^|$docs/|" "$dir/files" | xargs stat -L -c %s | awk '{ s += $1 } END { print s }')
	awk -v hosts="$hosts" -F '[/:]' '{ h = substr($4, 2); sub(/\..*/, "", h); print $0, "127.20.0." h }' "$dir/urls.txt" >"$dir/addresses"
	sed 's/.*/url = "&"/' "$dir/urls.txt" >"$dir/curl.list"
	awk '{ printf "{\"url\":\"%s\",\"addr\":\"%s\",\"addr_expires\":\"2100-01-01T00:00:00Z\"}\n", $1, $2 }' "$dir/addresses" |
		"${bin}mcat" --from json --kind url -o "$dir/urls.arrows.zst"
}

# --- the commands -----------------------------------------------------------
# Each takes an empty folder. NAME_begin, if there is one, goes before it and is not timed; NAME_count prints how many
# pages it got.

undelayed=(--allow-net 127.0.0.0/8 --min-delay 0 --delay-factor 0 --addr-delay 0)
mfetch_begin() { "${bin}mfetch" create "$1/fetch"; }
mfetch() { "${bin}mfetch" "$1/fetch" -q "${undelayed[@]}" --warc-codec "$2" "${@:3}" "$dir/urls.arrows.zst" -o "$1/rows"; }
mfetch_count() { "${bin}mcat" --format tsv --columns role,status "$1/rows" | grep -c '^page	200'; }
before() { bin=$BEFORE mfetch "$@"; }
before_begin() { bin=$BEFORE mfetch_begin "$@"; }
before_count() { mfetch_count "$@"; }
second() { # the archive is compressed by a second pass, on which nothing waits
	mfetch "$1" none
	"${bin}mfetch" copy -q --from "$1/fetch" "$1/rows" -o "$1/x.warc.gz"
	rm "$1"/fetch/*.warc*
}
second_begin() { mfetch_begin "$@"; }
second_count() { mfetch_count "$@"; }
wget2_i() { named wget2 --no-config -q -x -P "$1" --max-threads="$2" --robots=off -i "$dir/urls.txt"; }
wget2_i_count() { find "$1" -type f | wc -l; }
wget_warc() { named wget --no-config -q -O /dev/null --warc-tempdir="$1" --warc-file="$1/x" -i "$dir/urls.txt"; }
wget_warc_count() { zcat "$1/x.warc.gz" | grep -a -c '^WARC-Type: response'; }
pigz_bodies() { for _ in $(seq "$hosts"); do xargs -a "$dir/paths" cat; done | pigz -1 -p 2 >"$1/out.gz"; }
pigz_bodies_begin() { sed "s|^|$docs/|" "$dir/files" >"$dir/paths"; }
pigz_bodies_count() { pigz -dc "$1/out.gz" | wc -c | awk -v b="$bytes" -v f="$(wc -l <"$dir/files")" '{ print int($1 / b) * f }'; }
keepalive() { "$dir/keepalive" 32 <"$dir/addresses" >"$1/count"; }
keepalive_count() { cat "$1/count"; }
curl_z() { named curl -sZ --no-progress-meter --parallel-max 32 -w '%{stderr}%{http_code}\n' -K "$dir/curl.list" >/dev/null 2>"$1/codes"; }
curl_z_count() { grep -c "200\$" "$1/codes"; }

flags() { # of pipe.sh and mercator.mk; $1 is the crawl's folder
	export CRAWL=$1 BIN=$bin RESOLVE_FLAGS="--server 127.20.1.1:$dns_port" POLITENESS_FLAGS='--for 0' FETCH_FLAGS="${undelayed[*]}" EXTRACT_FLAGS="--duplicates --filter $dir/filter"
}
logged() { "$@" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; return 1; }; }
counted() { "${bin}mcat" --format tsv --columns role,status "$1"/crawl/rounds/r*/marked.arrows.zst | grep -c '^page	200'; }
round_begin() { # what is done before the first round
	"${bin}mckpt" init -q "$1/crawl"
	"${bin}murlset" new -q "$1/crawl/urls" --txn seed "$dir/urls.txt" | "${bin}mfrontier" add -q "$1/crawl/frontier" --txn seed
	"${bin}mckpt" commit -q "$1/crawl" --txn seed
}
piped() { # LAST: in a shell of its own, since its functions have names of modes
	BIN=$bin sh -c '. "$0" && rounds "$1"' "$here/bench/pipe.sh" "$1"
}
round() { (flags "$1/crawl" && BATCH=$pages && export BATCH && logged piped 1); }
round_count() { counted "$1"; }
crawl() { (flags "$1/crawl" && SEEDS=$dir/roots.txt && export SEEDS && logged piped 0); }
crawl_count() { counted "$1"; }
wget2_r() { named wget2 --no-config -q -r -l 0 -x -P "$1" --max-threads="$2" --robots=off -i "$dir/roots.txt" || [ $? = 8 ]; } # 8: a 404
wget2_r_count() { wget2_i_count "$1"; }

names() { # a name server for mresolve, and a filter that keeps crawls here
	[ -z "${dns_port:-}" ] || return 0
	command -v dnsmasq >/dev/null || die "dnsmasq is not installed"
	dns_port=${DNS_PORT:-5383}
	for h in $(seq "$hosts"); do
		echo "http://h$h.docs.test:$port/$small/index.html" >>"$dir/roots.txt"
		echo "host-record=h$h.docs.test,127.20.0.$h" >>"$dir/dnsmasq.conf"
	done
	printf 'allow docs: domain docs.test\ndefault deny\n' >"$dir/filter"
	dnsmasq -k -C "$dir/dnsmasq.conf" -x "" -u "$(id -un)" -R -h -z -a 127.20.1.1 -p "$dns_port" --local=/test/ --local-ttl=3600 &
	pids="$pids $!"
}

# --- the rounds -------------------------------------------------------------

TIMEFORMAT='%R %U %S'
measure() { # TITLE LEAST "NAME|FOLDER|COMMAND ARGUMENT..."...
	local title=$1 least=$2 round c name where run command arguments out got real user sys warc
	shift 2
	printf '\n%s; load %s\n' "$title" "$(cut -d ' ' -f 1-3 /proc/loadavg)"
	: >"$dir/results"
	for round in $(seq "$rounds"); do
		for c in "$@"; do
			IFS='|' read -r name where run <<<"$c"
			out=$where/run
			rm -rf "$out"
			mkdir "$out"
			read -r command arguments <<<"$run"
			[ "$(type -t "${command}_begin")" != function ] || "${command}_begin" "$out"
			sync
			# shellcheck disable=SC2086 # words
			{ time $command "$out" $arguments; } 2>"$dir/time" || { cat "$dir/time" >&2; die "$name failed"; }
			got=$("${command}_count" "$out")
			[ "$got" -ge "$least" ] || die "$name got $got pages, want $least"
			read -r real user sys <<<"$(tail -n 1 "$dir/time")"
			warc=$(find "$out" -name '*.warc*' -exec cat {} + | wc -c)
			echo "$round $name $got $real $user $sys $warc" >>"$dir/results"
			rm -rf "$out"
		done
	done
	awk -v rounds="$rounds" "$median"'
		{ if (!($2 in n)) order[++names] = $2; i = ++n[$2]; rate[$2, i] = $3 / $4; cpu[$2, i] = ($5 + $6) / $3 * 1e6; warc[$2] = $7 / $3 }
		END {
			printf "%-17s %9s %17s %14s %12s\n", "", "pages/s", "from - to", "us CPU/page", "WARC bytes"
			for (k = 1; k <= names; k++) { c = order[k]
				for (i = 1; i <= n[c]; i++) { r[i] = rate[c, i]; u[i] = cpu[c, i] }
				m = median(n[c], r)
				printf "%-17s %9.0f %8.0f - %6.0f %14.0f %12s\n", c, m, r[1], r[n[c]], median(n[c], u), warc[c] ? int(warc[c]) : "" } }' "$dir/results"
}
median='function median(n, a, i, j, t) { for (i = 2; i <= n; i++) for (j = i; j > 1 && a[j] < a[j-1]; j--) { t = a[j]; a[j] = a[j-1]; a[j-1] = t }; return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2 }'

# ratio OURS PEERS WANTED says how many times as fast as the best of the peers ours was.
ratio() {
	awk -v ours="$1" -v peers=" $2 " -v wanted="$3" "$median"'
		$2 == ours { mine[$1] = $3 / $4 }
		index(peers, " " $2 " ") { r = $3 / $4; if (r > best[$1]) best[$1] = r }
		END { for (i in mine) a[++n] = mine[i] / best[i]; m = median(n, a)
			sub(/^ /, "", peers); gsub(/ $/, "", peers); gsub(/ /, " or ", peers)
			printf "%s is %.2f times %s (%.2f - %.2f); wanted %s: %s\n", ours, m, peers, a[1], a[n], wanted, (m >= wanted + 0 ? "met" : "missed") }' "$dir/results"
}
about() { echo "$1, $pages URLs on $hosts hosts, mean $((bytes / $(wc -l <"$dir/files"))) bytes, $(nproc) cores"; }

archive() { # TITLE DOC...
	list "${@:2}"
	measure "$(about "archive, $1")" "$pages" "mfetch-disk|$dir|mfetch gzip" "wget2-5-disk|$dir|wget2_i 5" "wget2-32-disk|$dir|wget2_i 32" \
		"wget-warc-disk|$dir|wget_warc" "mfetch-memory|$mem|mfetch gzip" "zstd-memory|$mem|mfetch zstd" \
		"wget2-5-memory|$mem|wget2_i 5" "wget2-32-memory|$mem|wget2_i 32"
	ratio mfetch-disk wget-warc-disk 15
	ratio mfetch-disk "wget2-5-disk wget2-32-disk" 2
	ratio mfetch-memory "wget2-5-memory wget2-32-memory" 1.3
	ratio zstd-memory mfetch-memory 1
	awk '{ w[$2] = $7 / $3 } END { less = 100 * (1 - w["zstd-memory"] / w["mfetch-memory"])
		printf "zstd takes %.1f %% fewer bytes than gzip; wanted 8: %s\n", less, (less >= 8 ? "met" : "missed") }' "$dir/results"
}

for mode; do
	case $mode in
	fetch)
		(cd "$here" && go build -o "$dir/keepalive" ./bench/keepalive)
		for doc in $small $large; do
			list $doc
			measure "$(about "fetch only, ${doc%/html}")" "$pages" "http1|$mem|keepalive" "curl|$mem|curl_z"
			ratio http1 curl "$([ $doc = $small ] && echo 1.5 || echo 1.0)"
		done
		;;
	cpu)
		printf '\nprocessor time of a request, no WARC; load %s\n' "$(cut -d ' ' -f 1-3 /proc/loadavg)"
		(cd "$here" && go test ./pkg/fetch/http1 -run xxx -bench Request -benchtime 8000x -count "$rounds") | awk "$median"'
			/^Benchmark/ { for (i = 2; i < NF; i++) if ($(i + 1) == "cpu-ns/op") { sub(/^BenchmarkRequest\//, "", $1); sub(/-[0-9]+$/, "", $1); us[$1, ++n[$1]] = $i / 1000 } }
			function of(c, i) { for (i = 1; i <= n[c]; i++) a[i] = us[c, i]; return median(n[c], a) }
			function say(how, path, wanted, ours, theirs) { ours = of("http1/" path); theirs = of("net/http/" path)
				printf "%s: http1 %.1f us, net/http %.1f us, %.2f times; wanted at most %s: %s\n", how, ours, theirs, ours / theirs, wanted, (ours <= wanted * theirs ? "met" : "missed") }
			END { say("a connection for each", "close", 0.7); say("kept connections", "kept", 1) }'
		;;
	archive) archive "both docs" $small $large ;;
	small) archive "postgresql-doc-15" $small ;;
	large)
		list $large
		measure "$(about "archive, python3.11-doc")" "$pages" "mfetch-disk|$dir|mfetch gzip" "wget2-5-disk|$dir|wget2_i 5" \
			"wget2-32-disk|$dir|wget2_i 32" "pigz-disk|$dir|pigz_bodies"
		ratio mfetch-disk "wget2-5-disk wget2-32-disk" 1.5
		ratio mfetch-disk pigz-disk 0.8
		;;
	round)
		names
		list $small $large
		measure "$(about "one round, both docs")" "$pages" "round-memory|$mem|round" "wget2-5-memory|$mem|wget2_i 5" "wget2-32-memory|$mem|wget2_i 32"
		ratio round-memory "wget2-5-memory wget2-32-memory" 0.35
		;;
	crawl)
		names
		pages=$hosts
		measure "crawl, postgresql-doc-15 on $hosts hosts" $((hosts * 1165)) "crawl-disk|$dir|crawl" "wget2-r-5-disk|$dir|wget2_r 5" \
			"wget2-r-32-disk|$dir|wget2_r 32" "crawl-memory|$mem|crawl" "wget2-r-32-memory|$mem|wget2_r 32"
		ratio crawl-disk wget2-r-5-disk 1.5
		ratio crawl-disk wget2-r-32-disk 1.5
		;;
	stages)
		[ -n "${STAGES:-}" ] || die "stages: STAGES= names the folder for profiles"
		names
		list $small $large
		mkdir -p "$STAGES" "$mem/run"
		round_begin "$mem/run"
		(
			traced() { echo "--stats $STAGES/$1.json --profile $STAGES/$1.pprof"; }
			flags "$mem/run/crawl"
			export NEXT_FLAGS RESOLVE_FLAGS FETCH_FLAGS MARK_FLAGS EXTRACT_FLAGS NEW_FLAGS UPDATE_FLAGS COMMIT_FLAGS
			NEXT_FLAGS=$(traced mfrontier-next) RESOLVE_FLAGS="$RESOLVE_FLAGS $(traced mresolve)" FETCH_FLAGS="$FETCH_FLAGS $(traced mfetch)"
			MARK_FLAGS=$(traced mfpset-mark) EXTRACT_FLAGS="$EXTRACT_FLAGS $(traced mextract)" NEW_FLAGS=$(traced murlset-new)
			UPDATE_FLAGS=$(traced mfrontier-update) COMMIT_FLAGS=$(traced mckpt-commit)
			export BATCH=$pages
			logged piped 1
		)
		links=$("${bin}mcat" --count "$mem/run/crawl/rounds/r1/links.arrows.zst")
		printf '\n%s, %d links; us of CPU a page; load %s\n' "$(about "one round, both docs")" "$links" "$(cut -d ' ' -f 1-3 /proc/loadavg)"
		for stage in mfrontier-next mresolve mfetch mfpset-mark mextract murlset-new mfrontier-update mckpt-commit; do
			sed -n "s/.*\"cpu_s\": \([0-9.]*\).*/\1 $stage/p" "$STAGES/$stage.json"
		done | awk -v pages="$pages" '{ printf "%8.0f  %s\n", $1 / pages * 1e6, $2; sum += $1 } END { printf "%8.0f  all\n", sum / pages * 1e6 }'
		rm -rf "$mem/run"
		;;
	codecs)
		older=()
		[ -z "${BEFORE:-}" ] || older=("before|$mem|before gzip")
		for what in pages "pages with gzip as content coding" "compressed files"; do
			# shellcheck disable=SC2046 # names of packages
			case $what in
			pages) list $small $large ;;
			"pages with"*) port=$((port + 1)) list $small $large ;;
			*) pattern='*.gz' list $(ls $docs) ;;
			esac
			measure "$(about "codecs, $what")" "$pages" "gzip|$mem|mfetch gzip" "${older[@]}" "zstd|$mem|mfetch zstd" "none|$mem|mfetch none" \
				"none+copy|$mem|second"
		done
		;;
	*) die "no mode $mode" ;;
	esac
done
