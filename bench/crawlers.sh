#!/usr/bin/env bash
# Whole crawls of one web: mcrawl beside wget2, BUbiNG and Heritrix.
#
#   bench/crawlers.sh [CRAWLER...]    mcrawl wget2 bubing heritrix; by default all that can be had
#
# mweb serves HOSTS= hosts [80] with PAGES= pages [20000] and no sitemaps. Each crawler crawls it to the end without delays and
# obeys robots.txt. mcrawl, BUbiNG and Heritrix write archives and keep their state; wget2 writes plain files. In each of
# ROUNDS= rounds [3] every crawler runs once. A crawl that takes LIMIT= seconds [150] is cut, and the table says so.
# WGET2= [16 32], BUBING= [64 256] and HERITRIX= [50 100] are numbers of threads: each peer runs with each of its numbers.
# HEAP= is the heap of a Java crawler [1g].
#
# Maven fetches BUbiNG and Heritrix, once, into the folder PEERS= [~/.cache/mercator-peers]. They need a JDK (17 works).
# BUbiNG flushes its sieve every ten seconds only, and never ends. So bench/crawlers/Flush.java, which is not measured,
# flushes it twice a second, and the script ends BUbiNG when it has asked for nothing for ten seconds. Its JVM runs on the same cores, so
# that BUbiNG has fewer requests a second. Heritrix crawls without its two rules against traps, as mcrawl does without its own.
# A peer that cannot be had, or fails, is left out.
#
# The crawls run in a network namespace with nothing but loopback, where the only name server is mweb's. That needs no root
# where users may make namespaces. It needs unshare, ip, setsid, ps and unzip. The crawls lie below TMPDIR and are deleted.
#
# The table has medians of the rounds. Pages are URLs that a correct crawl fetches; requests are all that mweb answered.
# They are not the same work for each crawler: wrong URLs are those that the web does not have, repeats those asked for again,
# "robots" those that robots.txt forbids. So compare pages, too.
# For mcrawl and wget2 the time is that of the command. For BUbiNG and Heritrix it goes from the first request to the last, so
# that the start of Java does not count. Processor time, a page and a request, is that of all processes of a crawler from their
# start to their end: the start of Java, its compiler and the ten idle seconds of BUbiNG do count. PAGES=600 HOSTS=10 shows how much
# that is: what a crawl costs whatever its size. MiB is the most memory that the processes held together.
# The ratios are to the faster number of threads of a peer. The exit status is 1 if mcrawl is incomplete, asked for a wrong
# URL or broke robots.txt, whatever the ratios.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
PATH=$PATH:/usr/sbin
peers=${PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/mercator-peers} heap=${HEAP:-1g}
left_out() { echo "$1 is left out: $2"; }
die() { echo "crawlers.sh: $1" >&2; exit 1; }

# --- the peers, and a network of loopback addresses -------------------------

get() { # NAME GOAL...: runs a goal of Maven that leaves its files in $peers/NAME, unless they are there
	[ ! -d "$peers/$1" ] || return 0
	command -v mvn > /dev/null && command -v java > /dev/null || { left_out "$1" "mvn or java is not installed"; return 1; }
	local tmp
	mkdir -p "$peers"
	tmp=$(mktemp -d -p "$peers")
	echo "Maven fetches $1 into $peers/$1"
	if mvn -q -B "${@:2}" -DoutputDirectory="$tmp/out" > "$tmp/log" 2>&1; then
		mv "$tmp/out" "$peers/$1"
	else
		left_out "$1" "$(grep -m 1 ERROR "$tmp/log")"
	fi
	rm -r "$tmp"
	[ -d "$peers/$1" ]
}

if [ -z "${CRAWLERS_ALONE:-}" ]; then
	[ $# -gt 0 ] || set -- mcrawl wget2 bubing heritrix
	there=()
	for c; do
		case $c in
		mcrawl) [ -x "${BIN}mcrawl" ] || die "no ${BIN}mcrawl: run \"make build\"" ;;
		wget2) command -v wget2 > /dev/null || { left_out wget2 "it is not installed"; continue; } ;;
		bubing) get bubing -f "$here/bench/crawlers/bubing.xml" dependency:copy-dependencies || continue ;;
		heritrix) get heritrix dependency:unpack -Dartifact=org.archive.heritrix:heritrix:3.13.0:zip:dist || continue ;;
		*) die "no crawler $c" ;;
		esac
		there+=("$c")
	done
	[ ${#there[@]} -gt 0 ] || die "there is no crawler to run"
	for tool in unshare ip setsid ps unzip; do command -v $tool > /dev/null || die "$tool is not installed"; done
	CRAWLERS_ALONE=1 exec unshare -rmn "$0" "${there[@]}"
fi

# shellcheck source=bench/web.sh
. "$here/bench/web.sh"
ip link set lo up
echo "nameserver 127.0.0.1" > "$dir/resolv.conf"
mount --bind "$dir/resolv.conf" /etc/resolv.conf

# --- the crawlers -----------------------------------------------------------
# Each takes a folder, which does not exist, and a number of threads.

mcrawl() {
	local set=() s
	for s in politeness.{min_delay,addr_delay}=0s politeness.delay_factor=0 network.allow_net=127.0.0.0/8 frontier.max_attempts=1 extract.filter=; do
		set+=(--set "$s")
	done
	"${BIN}mcrawl" new --quiet "$1" --seeds "$dir/seeds.txt" "${set[@]}" && "${BIN}mcrawl" run --quiet "$1"
}

wget2() {
	command wget2 --no-config -q -r -l 0 -x -P "$1" --max-threads="$2" --tries=1 --span-hosts --domains=mweb.test -i "$dir/seeds.txt" || [ $? = 8 ] # 8: a 404
}

bubing() {
	cat > "$1.properties" <<- END
		seed=file:$dir/seeds.txt
		fetchFilter=true
		scheduleFilter=HostEndsWith(.mweb.test)
		parseFilter=true
		followFilter=true
		storeFilter=true
		parserSpec=HTMLParser(MurmurHash3)
		fetchingThreads=$2
		parsingThreads=$(nproc)
		dnsThreads=8
		schemeAuthorityDelay=0
		ipDelay=0
		keepAliveTime=1s
		maxUrlsPerSchemeAuthority=1000000
		maxUrls=1M
		bloomFilterPrecision=1E-8
		socketTimeout=10s
		connectionTimeout=10s
		fetchDataBufferByteSize=64Ki
		responseBodyMaxByteSize=2M
		cookiePolicy=compatibility
		cookieMaxByteSize=2000
		userAgent=BUbiNG
		robotsExpiration=1d
		digestAlgorithm=MurmurHash3
		startPaused=false
		workbenchMaxByteSize=128Mi
		virtualizerMaxByteSize=128Mi
		urlCacheMaxByteSize=64Mi
		sieveSize=64Ki
	END
	echo '<configuration><root level="OFF"/></configuration>' > "$1.xml"
	local jmx=com.sun.management.jmxremote
	java -Xmx"$heap" -Dlogback.configurationFile="$1.xml" -Djava.net.preferIPv4Stack=true -Djgroups.bind_addr=127.0.0.1 -Djava.rmi.server.hostname=127.0.0.1 \
		-D$jmx.port=9999 -D$jmx.host=127.0.0.1 -D$jmx.ssl=false -D$jmx.authenticate=false \
		--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED \
		-cp "$peers/bubing/*" it.unimi.di.law.bubing.Agent -h 127.0.0.1 -P "$1.properties" -g bench -n -r "$1" agent &
	echo $! > "$1.pid"
	wait $! || true # it does not end by itself
}
bubing_begin() { javac -d "$dir" "$here/bench/crawlers/Flush.java"; } # once, and not while it is measured
bubing_beside() { java -cp "$dir" Flush 9999 && kill "$(cat "$dir/run.pid")"; }

heritrix() {
	mkdir -p "$1/jobs/web"
	unzip -p "$peers"/heritrix/*/lib/heritrix-engine-*.jar org/archive/crawler/restlet/profile-crawler-beans.cxml |
		awk -v seeds="$dir/seeds.txt" -v threads="$2" '
			/PathologicalPathDecideRule|TooManyPathSegmentsDecideRule/ { left_out = 1 }
			left_out { if (/<\/bean>/) left_out = 0; next }
			/ENTER_AN_URL/ { sub(/=.*/, "=http://h0.mweb.test/") }
			/more\?/ { # where overrides end
				print "crawlController.maxToeThreads=" threads "\ndisposition.delayFactor=0\ndisposition.minDelayMs=0\nfrontier.maxRetries=5\nfrontier.retryDelaySeconds=1"
			}
			/maxHops/ { gsub(/<!-- | -->/, ""); sub(/"20"/, "\"100000\"") }
			/example.example/ { while ((getline line < seeds) > 0) print line; print "+http://(test,mweb,"; next }
			{ print }' > "$1/jobs/web/crawler-beans.cxml"
	(cd "$1" && exec java -Xmx"$heap" -Dheritrix.home="$1" -cp "$(echo "$peers"/heritrix/*/lib)/*" org.archive.crawler.Heritrix -a "bench:$RANDOM$RANDOM" -b 127.0.0.1 -j "$1/jobs" -r web)
}

# figures COMMAND prints pages, requests, seconds, seconds of processor time, KiB of memory, URLs to fetch, wrong URLs, repeats and forbidden URLs. The seconds
# are those of the command, or with COMMAND 0 those from the first request to the last.
figures() {
	awk -F '\t' -v command="$1" -v port="$port" -v time="$(tail -n 1 "$dir/run.time")" '
		function clock(t) { t = substr(t, 12, 2) * 3600 + substr(t, 15, 2) * 60 + substr(t, 18, 9); return t < began - 43200 ? t + 86400 : t }
		FILENAME ~ /seen$/ { split($0, seen, " "); if (seen[2] > memory) memory = seen[2]; next }
		FILENAME ~ /tsv$/ { outcome[$1] = $2; all += $2 == "fetched"; next }
		{
			if (!requests++) { began = clock($1); ended = clock($2) }
			if (clock($1) < began) began = clock($1)
			if (clock($2) > ended) ended = clock($2)
			split($4, host, /[":]/) # some leave out the port
			url = "http://" host[2] ":" port substr($5, 2, length($5) - 2)
			if ($5 ~ /^"\/robots(-moved)?\.txt"$/) next
			if (asked[url]++) repeats++
			else if (!(url in outcome)) wrong++
			else if (outcome[url] == "fetched") pages++
			else if (outcome[url] == "robots-denied") broken++
		}
		END { split(time, t, " "); print pages + 0, requests, command ? t[1] : ended - began, t[2] + t[3], memory, all, wrong + 0, repeats + 0, broken + 0 }' "$dir/run.seen" "$dir/oracle.tsv" "$dir/log"
}

# --- the rounds -------------------------------------------------------------

web=(--seed "${SEED:-1}" --hosts "${HOSTS:-80}" --pages "${PAGES:-20000}" --no-sitemaps)
dns=127.0.0.1:53 serve_web "${web[@]}" --log "$dir/log"
"${BIN}mweb" seeds "${web[@]}" --port "$port" > "$dir/seeds.txt"
"${BIN}mweb" oracle "${web[@]}" --port "$port" > "$dir/oracle.tsv"
export -f mcrawl wget2 bubing heritrix
export here dir peers heap
limit=${LIMIT:-150}
read -ra wget2_threads <<< "${WGET2:-16 32}"
read -ra bubing_threads <<< "${BUBING:-64 256}"
read -ra heritrix_threads <<< "${HERITRIX:-50 100}"
runs=()
for c; do
	threads=${c}_threads[@]
	[ "$(type -t "${c}_begin")" != function ] || "${c}_begin"
	if [ "$c" = mcrawl ]; then runs+=("$c"); else for n in "${!threads}"; do runs+=("$c-$n"); done; fi
done
echo "$(awk -F '\t' '$2 == "fetched"' "$dir/oracle.tsv" | wc -l) URLs to fetch on ${HOSTS:-80} hosts, load $(cut -d ' ' -f 1-3 /proc/loadavg), $(nproc) cores, commit $(git -C "$here" rev-parse --short HEAD 2> /dev/null || echo unknown)"
for round in $(seq "${ROUNDS:-3}"); do
	for run in "${runs[@]}"; do
		IFS=- read -r c threads <<< "$run"
		: > "$dir/log"
		beside=
		[ "$(type -t "${c}_beside")" != function ] || { "${c}_beside" > "$dir/beside.out" 2>&1 & beside=$!; }
		status=0
		measured "$dir/run" "$c" "$dir/run" "$threads" || status=$?
		[ -z "$beside" ] || { kill "$beside" && wait "$beside"; } 2> /dev/null || true
		if [ ! -s "$dir/log" ] || { [ $status != 0 ] && [ $status != 124 ]; }; then
			tail "$dir/run.out" >&2
			[ "$c" != mcrawl ] || die "mcrawl failed"
			left_out "$run" "it failed with status $status"
			rm -rf "$dir"/run*
			continue
		fi
		case $c in mcrawl | wget2) command=1 ;; *) command=0 ;; esac
		echo "$round $run $(figures $command) $((status == 124))" >> "$dir/results"
		awk 'END { printf "round %d: %s: %.0f requests/s, %.0f us of processor a request%s\n", $1, $2, $4 / $5, $6 / $4 * 1e6, $12 ? ", cut" : "" }' "$dir/results" >&2
		rm -rf "$dir"/run*
	done
done
[ -s "$dir/results" ] || die "no crawler was measured"

awk '
	function median(n, a, i, j, t) { for (i = 2; i <= n; i++) for (j = i; j > 1 && a[j] < a[j-1]; j--) { t = a[j]; a[j] = a[j-1]; a[j-1] = t }; return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2 }
	function of(run, key, i) { for (i = 1; i <= n[run]; i++) a[i] = v[run, key, i]; return median(n[run], a) }
	function ratio(peer, wanted, r, i, k, m) {
		for (i in ours) if ((peer, i) in best) r[++k] = ours[i] / best[peer, i]
		if (!k) return
		m = median(k, r)
		printf "mcrawl has %.2f times the requests/s of %s (%.2f - %.2f); wanted %s: %s\n", m, peer, r[1], r[k], wanted, (m >= wanted ? "met" : "missed")
	}
	{
		if (!($2 in n)) order[++names] = $2
		i = ++n[$2]
		v[$2, "pages", i] = $3 / $5; v[$2, "requests", i] = $4 / $5; v[$2, "cpu", i] = $6 / $4 * 1e6; v[$2, "page", i] = $6 / ($3 ? $3 : 1) * 1e6; v[$2, "memory", i] = $7 / 1024
		v[$2, "complete", i] = 100 * $3 / $8; v[$2, "wrong", i] = $9; v[$2, "repeats", i] = $10; v[$2, "broken", i] = $11; cut[$2] += $12
		peer = $2; sub(/-.*/, "", peer)
		if ($4 / $5 > best[peer, $1]) best[peer, $1] = $4 / $5
		if (peer == "mcrawl") { ours[$1] = $4 / $5; bad += $3 != $8 || $9 || $11 }
	}
	END {
		printf "\n%-13s %8s %11s %15s %11s %11s %8s %11s %7s %8s %7s\n", "", "pages/s", "requests/s", "from - to", "us CPU/page", "a request", "MiB", "complete %", "wrong", "repeats", "robots"
		for (k = 1; k <= names; k++) {
			c = order[k]; rate = of(c, "requests"); from = a[1]; to = a[n[c]]
			printf "%-13s %8.0f %11.0f %7.0f - %5.0f %11.0f %11.0f %8.0f %11.1f %7.0f %8.0f %7.0f%s\n", c, of(c, "pages"), rate, from, to, of(c, "page"), of(c, "cpu"), of(c, "memory"), of(c, "complete"), of(c, "wrong"), of(c, "repeats"), of(c, "broken"), cut[c] ? "  cut " cut[c] " times" : ""
		}
		ratio("wget2", 1); ratio("bubing", 3); ratio("heritrix", 6)
		if (bad) { print "mcrawl is incomplete, asked for a wrong URL, or broke robots.txt"; exit 1 }
	}' "$dir/results"
