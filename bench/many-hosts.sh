#!/usr/bin/env bash
# A crawl of many hosts over sockets: whether its rounds keep their pace, and whether this machine's ports and files
# are enough for it.
#
#   bench/many-hosts.sh                  3,000 hosts of mweb, 500,000 URLs in rounds of 20,000
#   URLS=120000 bench/many-hosts.sh      fewer
#
# HOSTS=, URLS= and BATCH= say how many. All stages as a pipe, WARC files are written, all delays are 0.
# It prints a table for RESULTS.md, URLs/s by round, and what of them is mfetch. The exit status is 1 if a URL
# failed that the web has, if URLs were deferred, or if the last full rounds took more than half as long again as the first.
# The crawl lies in a temporary folder below TMPDIR, takes about 5 KB a URL there, and is deleted in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C BIN=${BIN:-$here/bin/}
hosts=${HOSTS:-3000} urls=${URLS:-500000}
export BATCH=${BATCH:-20000}
# More pages than the crawl comes to.
web=(--seed "${SEED:-1}" --hosts "$hosts" --pages $((urls + urls / 2)))

dir=$(mktemp -d)
server=
stop() {
	[ -z "$server" ] || { kill "$server" && wait "$server"; } 2> /dev/null || true
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

"${BIN}mweb" serve "${web[@]}" --dns 127.0.0.1:0 --ready "$dir/web.json" > /dev/null &
server=$!
until [ -s "$dir/web.json" ]; do
	kill -0 $server 2> /dev/null || { echo 'many-hosts.sh: mweb did not start' >&2; exit 1; }
	sleep 0.1
done
names=$(sed 's/.*"dns":"\([^"]*\)".*/\1/' "$dir/web.json")
port=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$dir/web.json")
"${BIN}mweb" seeds "${web[@]}" --port "$port" > "$dir/seeds.txt"

# shellcheck source=bench/pipe.sh
. "$here/bench/pipe.sh"
export CRAWL=$dir/crawl SEEDS=$dir/seeds.txt INIT_FLAGS=--quiet SEED_FLAGS=--quiet NEXT_FLAGS=--quiet
export MARK_FLAGS=--quiet EXTRACT_FLAGS=--quiet NEW_FLAGS=--quiet COMMIT_FLAGS=--quiet
export RESOLVE_FLAGS="--quiet --server $names" UPDATE_FLAGS='--quiet --max-attempts 1'
export FETCH_FLAGS="--quiet --stats $dir/fetch.json --allow-net 127.0.0.0/8"
export POLITENESS_FLAGS='--for 0 --min-delay 0 --delay-factor 0 --addr-delay 0'
number() { # KEY: the first number of that name
	awk -v key="\"$1\":" '$1 == key { sub(",", "", $2); print $2; exit }' "$dir/fetch.json"
}

printf '| round | URLs | s | URLs/s | mfetch: s of processor |\n|--:|--:|--:|--:|--:|\n'
n=0 done=0
while [ $done -lt "$urls" ] && status=0 && { "${BIN}mfrontier" stat --empty "$CRAWL/frontier" 2> /dev/null || status=$?; [ $status != 0 ]; }; do
	n=$((n + 1))
	t=$(date +%s.%N)
	rounds $n >> "$dir/log" 2>&1 || { tail -20 "$dir/log" >&2; exit 1; }
	took=$(echo "$(date +%s.%N) $t" | awk '{ print $1 - $2 }')
	passed=$(number passed)
	done=$((done + passed))
	echo "$n $passed $took" >> "$dir/rounds"
	awk -v n=$n -v all=$done -v now="$passed" -v took="$took" -v cpu="$(number cpu_s)" 'BEGIN { printf "| %d | %d | %.1f | %d | %.1f |\n", n, all, took, now / took, cpu }'
done

# Each URL that was fetched has the outcome that the oracle says.
"${BIN}mcat" --format tsv --columns role,url,outcome,status "$CRAWL"/rounds/r*/marked.arrows.zst |
	awk -F '\t' '$1 == "page" { print $2 "\t" $3 "\t" $4 }' | sort > "$dir/found.tsv"
"${BIN}mweb" oracle "${web[@]}" --port "$port" | sort > "$dir/oracle.tsv"
wrong=$(comm -23 "$dir/found.tsv" "$dir/oracle.tsv" | tee "$dir/wrong.tsv" | wc -l)
echo
awk -v batch="$BATCH" -v wrong="$wrong" '
	{ all += $2; time += $3 }
	$2 == batch { full[++m] = $3 }
	END {
		quarter = int((m + 3) / 4)
		for (i = 1; i <= quarter; i++) { first += full[i]; last += full[m + 1 - i] }
		printf "%d URLs in %d s, %d/s; the last quarter of the full rounds took %.2f times as long as the first; %d outcomes are not the oracle'"'"'s.\n", all, time, all / time, quarter ? last / first : 0, wrong
		exit wrong > 0 || quarter && last > 1.5 * first
	}' "$dir/rounds" || { head -5 "$dir/wrong.tsv" >&2; exit 1; }
