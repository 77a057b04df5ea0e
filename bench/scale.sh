#!/usr/bin/env bash
# A long crawl without sockets: what its rounds cost, and whether that grows.
#
#   bench/scale.sh                                 a web of about a million URLs, to its end
#   PAGES=60000 HOSTS=1000 BATCH=10000 bench/scale.sh    about a hundred thousand
#   DRIVER=mercator.mk bench/scale.sh              one stage after the other instead of a pipe
#
# mfetch takes its pages from the synthetic web inside it (--sim) over 256 connections, all delays 0; only the host
# names are asked of a server, mweb, on loopback. Each round of the driver is measured alone: peak resident memory
# and processor time of each command (--stats), pages/s, and bytes on disk. When the crawl is over its ledger is
# checked, and what became of each URL is compared with the oracle.
#
# It prints tables for RESULTS.md, and leaves the figures of every round in OUT (rounds.tsv). The exit status is 1 if
# the crawl is wrong, or a command went over its bound: 128 MiB for mfetch, 64 MiB for the others. The crawl lies in a
# temporary folder below TMPDIR, takes about 5 KB a URL there, and is deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
seed=${SEED:-1} hosts=${HOSTS:-5000} pages=${PAGES:-620000} connections=${CONNECTIONS:-256} driver=${DRIVER:-pipe}
export BATCH=${BATCH:-50000}
web=(--seed "$seed" --hosts "$hosts" --pages "$pages")

# shellcheck source=bench/web.sh
. "$here/bench/web.sh"
out=${OUT:-$dir/out}
mkdir -p "$out"

serve_web "${web[@]}"
"${BIN}mweb" seeds "${web[@]}" --port 80 > "$dir/seeds.txt"

export CRAWL=$dir/crawl SEEDS=$dir/seeds.txt
# shellcheck source=bench/pipe.sh
. "$here/bench/pipe.sh"
commands="next resolve fetch mark extract new update commit"
stats() { echo "--quiet --stats $dir/$1.json"; }
export INIT_FLAGS=--quiet SEED_FLAGS=--quiet NEXT_FLAGS MARK_FLAGS EXTRACT_FLAGS NEW_FLAGS COMMIT_FLAGS
export RESOLVE_FLAGS FETCH_FLAGS UPDATE_FLAGS
NEXT_FLAGS=$(stats next)
RESOLVE_FLAGS="$(stats resolve) --server $names"
FETCH_FLAGS="$(stats fetch) --sim seed=$seed,hosts=$hosts,pages=$pages --connections $connections"
export POLITENESS_FLAGS='--for 0 --min-delay 0 --delay-factor 0 --addr-delay 0'
MARK_FLAGS=$(stats mark)
EXTRACT_FLAGS=$(stats extract)
NEW_FLAGS=$(stats new)
UPDATE_FLAGS="$(stats update) --max-attempts 1" # this web's errors are for good
COMMIT_FLAGS=$(stats commit)

go_on() { # N: rounds up to the Nth
	case $driver in
	pipe) rounds "$1" ;;
	mercator.mk) ROUNDS=$1 make -s -f "$here/pipelines/mercator.mk" ;;
	*) echo "scale.sh: DRIVER=$driver, want pipe or mercator.mk" >&2; exit 2 ;;
	esac >> "$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
}
number() { # KEY FILE: the first number of that name
	awk -v key="\"$1\":" '$1 == key { sub(",", "", $2); print $2; exit }' "$2"
}
bytes() { # FOLDER...
	du -scB1 "$@" | tail -1 | cut -f 1
}

# --- the rounds -------------------------------------------------------------

{
	printf 'round\tseconds\turls\tbodies\twarc\tstate\tstages'
	for c in $commands; do printf '\t%s_rss\t%s_cpu' "$c" "$c"; done
	echo
} > "$out/rounds.tsv"
urls=0 bodies=0 n=0
began=$(date +%s.%N)
while status=0; "${BIN}mfrontier" stat --empty "$CRAWL/frontier" 2> /dev/null || status=$?; [ $status != 0 ]; do
	n=$((n + 1))
	t=$(date +%s.%N)
	go_on $n
	t=$(echo "$(date +%s.%N) $t" | awk '{ print $1 - $2 }')
	urls=$((urls + $(number passed "$dir/fetch.json")))
	bodies=$((bodies + $(number body_bytes "$dir/fetch.json")))
	warc=$(bytes "$CRAWL"/fetch/*.warc.*)
	stages=$(bytes "$CRAWL/rounds")
	state=$(($(bytes "$CRAWL") - warc - stages))
	{
		printf '%s\t%s\t%s\t%s\t%s\t%s\t%s' $n "$t" $urls $bodies "$warc" $state "$stages"
		for c in $commands; do printf '\t%s\t%s' "$(number peak_rss_bytes "$dir/$c.json")" "$(number cpu_s "$dir/$c.json")"; done
		echo
	} | tee -a "$out/rounds.tsv" | cut -f 1-4 >&2
done
took=$(echo "$(date +%s.%N) $began" | awk '{ print $1 - $2 }')

# --- the verdict ------------------------------------------------------------

failed=0
"${BIN}mckpt" verify --quiet --stats "$dir/verify.json" "$CRAWL" || failed=1
"${BIN}mcat" --format tsv --columns role,url,outcome,status "$CRAWL"/rounds/r*/marked.arrows.zst |
	awk -F '\t' '$1 == "page" { print $2 "\t" $3 "\t" $4 }' | sort > "$dir/found.tsv"
"${BIN}mweb" oracle "${web[@]}" --port 80 | sort > "$dir/oracle.tsv"
cmp "$dir/oracle.tsv" "$dir/found.tsv" && verdict="equals the oracle" || { verdict="DIFFERS FROM THE ORACLE"; failed=1; }

every=$(((n + 11) / 12))
awk -F '\t' -v every=$every -v last=$n -v batch="$BATCH" -v driver="$driver" -v took="$took" -v hosts="$hosts" -v verdict="$verdict" \
	-v verify="$(number peak_rss_bytes "$dir/verify.json")" -v verify_s="$(number elapsed_s "$dir/verify.json")" '
	function mib(b) { return sprintf("%.0f", b / 1048576) }
	NR == 1 { for (i = 8; i <= NF; i += 2) { name[i] = $i; sub(/_rss/, "", name[i]) }; next }
	{
		for (i = 8; i <= NF; i += 2) {
			if ($i > peak[i]) peak[i] = $i
			cpu[i, NR - 1] = $(i + 1)
		}
		seconds[NR - 1] = $2; urls[NR - 1] = $3; bodies[NR - 1] = $4; warc[NR - 1] = $5; state[NR - 1] = $6; stages[NR - 1] = $7; nf = NF
		if ($3 - urls[NR - 2] == batch) full[++m] = NR - 1
	}
	END {
		if (nf == 0) exit 1
		printf "%d URLs on %d hosts, %.1f GB of bodies, %d rounds of %s in %d s: %d URLs/s. The crawl %s.\n\n", urls[last], hosts, bodies[last] / 1e9, last, driver, took, urls[last] / took, verdict
		print "| round | URLs | URLs/s | bytes a URL: body | WARC | state | stage files |\n|--:|--:|--:|--:|--:|--:|--:|"
		for (r = every; ; r += every) {
			if (r > last) r = last
			for (q = r - every + 1 > before ? r - every + 1 : before + 1; q <= r; q++) t += seconds[q]
			printf "| %d | %d | %d | %d | %d | %d | %d |\n", r, urls[r], (urls[r] - urls[before]) / t, bodies[r] / urls[r], warc[r] / urls[r], state[r] / urls[r], stages[r] / urls[r]
			if (r == last) break
			before = r; t = 0
		}
		quarter = int((m + 3) / 4)
		print "\n| command | bound, MiB | peak RSS, MiB | µs of processor a URL | in the first quarter of the full batches | in the last |\n|---|--:|--:|--:|--:|--:|"
		for (i = 8; i <= nf; i += 2) {
			all = first = end = 0
			for (r = 1; r <= last; r++) all += cpu[i, r]
			for (k = 1; k <= quarter; k++) { first += cpu[i, full[k]]; end += cpu[i, full[m + 1 - k]] }
			bound = name[i] == "fetch" ? 128 : 64
			if (peak[i] > bound * 1048576) over = over " " name[i]
			of = quarter ? 1e6 / (quarter * batch) : 0
			printf "| %s | %d | %s | %.0f | %.0f | %.0f |\n", name[i], bound, mib(peak[i]), all * 1e6 / urls[last], first * of, end * of
		}
		printf "| verify | 64 | %s | once: %.0f s | | |\n", mib(verify), verify_s
		if (verify > 64 * 1048576) over = over " verify"
		if (over != "") { print "\nOver the bound:" over; exit 1 }
	}' "$out/rounds.tsv" || failed=1
exit $failed
