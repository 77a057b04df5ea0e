#!/usr/bin/env bash
# What part of a round's elapsed time is spent on names, one question at a time and many:
#
#   bench/dns-share.sh
#
# The round has one URL of each of HOSTS hosts [300] of "mweb serve --hard", whose names a server answers after DELAY
# [100ms]. Its stages run one after another, as mercator.mk runs them; the share is that of mresolve in the sum. It needs
# Go, and ends what it started.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$here/bin/} hosts=${HOSTS:-300} delay=${DELAY:-100ms}
die() { echo "dns-share.sh: $1" >&2; exit 1; }
[ -x "${bin}mresolve" ] || die "no ${bin}mresolve: run \"make build\""
dir=$(mktemp -d)
pids=
trap '[ -z "$pids" ] || kill $pids 2> /dev/null || true; wait; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP

"${bin}mweb" serve --quiet --hard --hosts "$hosts" --pages $((20 * hosts)) --ready "$dir/web.json" > "$dir/log" &
pids=$!
until [ -s "$dir/web.json" ]; do kill -0 "$pids" 2> /dev/null || die 'mweb did not start'; sleep 0.1; done
value() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$dir/web.json"; }
port=$(value port)
"${GO:-go}" build -C "$here" -o "$dir/slowdns" ./bench/slowdns
"$dir/slowdns" -delay "$delay" -forward "$(value dns)" > "$dir/slow" &
pids="$pids $!"
until [ -s "$dir/slow" ]; do sleep 0.05; done
for i in $(seq 0 $((hosts - 1))); do echo "http://h$i.mweb.test:$port/"; done > "$dir/seeds.txt"

stage() { # NAME COMMAND…: runs it, and keeps its time
	local name=$1 t0 t1
	shift
	t0=$(date +%s%N)
	"$@"
	t1=$(date +%s%N)
	echo "$name $((t1 - t0))" >> "$dir/times"
}
echo "$hosts hosts, names after $delay, $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg) before"
for flight in 1 1000; do
	crawl=$dir/crawl$flight z=arrows.zst r="--quiet --txn r1"
	d=$crawl/rounds/r1
	"${bin}mckpt" init "$crawl" > "$dir/log"
	mkdir -p "$d"
	"${bin}murlset" new --quiet "$crawl/urls" --txn seed "$dir/seeds.txt" | "${bin}mfrontier" add --quiet "$crawl/frontier" --txn seed
	"${bin}mckpt" commit --quiet "$crawl" --txn seed
	: > "$dir/times"
	# shellcheck disable=SC2086 # flags
	{
		stage next "${bin}mfrontier" next "$crawl/frontier" $r -o "$d/batch.$z"
		stage resolve "${bin}mresolve" "$crawl/dns" $r --family 4 --in-flight $flight --server "$(cat "$dir/slow")" "$d/batch.$z" -o "$d/resolved.$z"
		stage fetch "${bin}mfetch" "$crawl/fetch" $r --allow-net 127.0.0.0/8 --min-delay 20ms --delay-factor 0 --addr-delay 0 "$d/resolved.$z" -o "$d/fetched.$z"
		stage mark "${bin}mfpset" mark "$crawl/content" $r "$d/fetched.$z" -o "$d/marked.$z"
		stage extract "${bin}mextract" --warc "$crawl/fetch" $r "$d/marked.$z" -o "$d/links.$z"
		stage new "${bin}murlset" new "$crawl/urls" $r "$d/links.$z" -o "$d/new.$z"
		stage update "${bin}mfrontier" update "$crawl/frontier" $r --outcomes "$d/marked.$z" --links "$d/links.$z" "$d/new.$z"
		stage commit "${bin}mckpt" commit --quiet "$crawl" --txn r1
	}
	awk -v flight=$flight '{ sum += $2; if ($1 == "resolve") dns = $2; text = text sprintf(" %s %.2f", $1, $2 / 1e9) }
		END { printf "%4d in flight: %5.1f %% of %.1f s in names  (%s )\n", flight, 100 * dns / sum, sum / 1e9, text }' "$dir/times"
done
