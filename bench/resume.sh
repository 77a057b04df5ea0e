#!/usr/bin/env bash
# What it costs to go on with a round of mfetch that was killed: memory and time, by the contacts that it had archived.
#
#   bench/resume.sh                    a round of about 180,000 URLs, killed when most are archived
#   PAGES=2000000 HOSTS=20000 bench/resume.sh
#
# Pages come from the synthetic web inside mfetch (--sim), all delays 0; only host names are asked of a server, mweb, on
# loopback. The first run is killed (kill -9) when its archive has BYTES for each URL, and run again. It prints
# peak resident memory, processor time and elapsed time of that second run, and fails if a URL has not one row, or
# the bound of 128 MiB does not hold. The files lie in a temporary folder below TMPDIR, some 2 KB a URL, and are deleted.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C
BIN=${BIN:-$here/bin/}
web=(--seed 1 --hosts "${HOSTS:-2000}" --pages "${PAGES:-100000}")
bytes=${BYTES:-1500}

# shellcheck source=bench/web.sh
. "$here/bench/web.sh"
fetch=
stop() {
	for p in $server $fetch; do { kill -9 "$p" && wait "$p"; } 2> /dev/null || true; done
	rm -rf "$dir"
}

serve_web "${web[@]}"
"${BIN}mweb" oracle "${web[@]}" --port 80 | cut -f 1 > "$dir/urls.txt"
urls=$(wc -l < "$dir/urls.txt")

"${BIN}mfetch" create --quiet "$dir/store"
run=("${BIN}mfetch" fetch "$dir/store" --txn r1 --server "$names" --sim "seed=1,hosts=${HOSTS:-2000},pages=${PAGES:-100000}" --connections 256
	--min-delay 0 --delay-factor 0 --addr-delay 0 --quiet --stats "$dir/stats.json" -o "$dir/fetched.arrows.zst" "$dir/urls.txt")
"${run[@]}" &
fetch=$!
until [ "$(du -sb "$dir/store" | cut -f 1)" -ge $((urls * bytes)) ]; do
	kill -0 $fetch 2> /dev/null || { echo 'resume.sh: the first run ended before it had so many bytes: give fewer as BYTES' >&2; exit 1; }
	sleep 0.2
done
kill -9 $fetch
wait $fetch 2> /dev/null || true
fetch=
"${BIN}mcat" --quiet "$dir"/store/*.warc.gz* 2> /dev/null | grep -c '"type":"metadata"' > "$dir/archived" || true
"${run[@]}"
number() { awk -v key="\"$1\":" '$1 == key { sub(",", "", $2); print $2; exit }' "$dir/stats.json"; }
rss=$(number peak_rss_bytes)
echo "$urls URLs, $(cat "$dir/archived") contacts archived before; again: $((rss / 1048576)) MiB, $(number cpu_s) s of processor, $(number elapsed_s) s"
"${BIN}mcat" --format tsv --columns role,url "$dir/fetched.arrows.zst" | awk -F '\t' '$1 == "page" { print $2 }' | sort > "$dir/rows"
sort "$dir/urls.txt" | cmp - "$dir/rows" || { echo 'resume.sh: a URL has no row, or two' >&2; exit 1; }
[ "$rss" -le $((128 * 1048576)) ]
