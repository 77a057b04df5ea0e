#!/usr/bin/env bash
# How fast mresolve resolves: N names [100000] of a zone that NSD serves on the same machine.
#
#   bench/dns.sh                        three rounds; medians
#   MASSDNS=path/to/massdns ZDNS=path/to/zdns DNSX=path/to/dnsx bench/dns.sh     beside these, in the same rounds
#   N=10000000 MEMORY=filter bench/dns.sh    instead, the peak memory of one cold run of the filter
#   N=10000000 MEMORY=names bench/dns.sh     or of mresolve names, type A
#
# It prints, in names a second, with the processor time that a name takes:
#
#   names       mresolve names, type A, 1,000 in flight
#   massdns     the same questions, JSON lines, -s 1000
#   zdns, dnsx  the same, JSON lines, with as many threads as they take by themselves (zdns loses answers with 1,000)
#   cold        mresolve as a filter, IPv4, empty store
#   warm        the same again, from the store
#   delay       200 ms for each answer, 20,000 names: of what 1,000 in flight allow (5,000 a second)
#   live        mresolve names from a server that takes 1 ms
#   dead        the same, where 1 % of the names are never answered: the time beyond the 3.5 s that one name's attempts
#               take, against that of live
#   flive, fdead  the same in the filter, IPv4, from an empty store
#
# It needs nsd and Go, and ends what it started.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$here/bin/} n=${N:-100000} rounds=${ROUNDS:-3} memory=${MEMORY:-}
PATH=$PATH:/usr/sbin
# shellcheck source=pkg/e2e/nsd.sh
. "$here/pkg/e2e/nsd.sh"
die() { echo "dns.sh: $1" >&2; exit 1; }
command -v nsd > /dev/null || die 'nsd is not installed'
[ -x "${bin}mresolve" ] || die "no ${bin}mresolve: run \"make build\""
dir=$(mktemp -d)
pids=
trap '[ -z "$pids" ] || kill $pids 2> /dev/null || true; wait; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP

at=${PORT:-5391}
awk -v n="$n" -v zone="$dir/zone" -v names="$dir/names" 'BEGIN {
	print "$ORIGIN zone.test.\n$TTL 3600\n@ IN SOA ns root 1 2 3 4 300\n@ IN NS ns\nns IN A 127.0.0.1" > zone
	if (n > 1000000) print "* IN A 127.1.2.3" > zone
	for (i = 0; i < n; i++) {
		if (n <= 1000000) print "h" i " IN A 127." int(i / 65536) % 256 "." int(i / 256) % 256 "." i % 256 > zone
		print "h" i ".zone.test" > names
	}
}'
nsd_start "$dir" "$at"
pids=$nsd
until [ "$(echo ns.zone.test | "${bin}mresolve" names --quiet --server "127.0.0.1:$at" 2> /dev/null | grep -c 127.0.0.1)" = 1 ]; do
	kill -0 $pids 2> /dev/null || { cat "$dir/nsd.log" >&2; die 'nsd did not start'; }
	sleep 0.2
done
[ "$memory" = names ] || { echo url; sed 's|.*|http://&/|' "$dir/names"; } | "${bin}mcat" --from tsv --kind url > "$dir/urls.arrows.zst"
filter() { "${bin}mresolve" resolve "$dir/dns" --quiet --family 4 --server "127.0.0.1:$at" --stats "$dir/stats.json" -o "$dir/out.arrows.zst" "$dir/urls.arrows.zst"; }
fresh() { rm -rf "$dir/dns"; "${bin}mresolve" create "$dir/dns"; }

names() { "${bin}mresolve" names --quiet --server "127.0.0.1:$at" --stats "$dir/stats.json" "$dir/names"; }

case $memory in
'') ;;
filter | names)
	fresh
	$memory > /dev/null
	grep -E '"(max_rss|elapsed|peak)[a-z_]*"' "$dir/stats.json"
	exit
	;;
*) die "MEMORY=$memory: want filter or names" ;;
esac

timed() { # LABEL NAMES COMMAND…
	local label=$1 names=$2 TIMEFORMAT='%R %U %S'
	shift 2
	{ time "$@" > "$dir/result" 2>&3; } 3>&2 2> "$dir/time"
	awk -v l="$label" -v n="$names" '{ printf "%s %.0f %.1f\n", l, n / $1, 1e6 * ($2 + $3) / n }' "$dir/time" >> "$dir/rates"
}
slow() { # NAME FLAG…: a slow server, whose address is then in the file of that name
	"$dir/slowdns" "${@:2}" > "$dir/$1" &
	pids="$pids $!"
	until [ -s "$dir/$1" ]; do sleep 0.05; done
}
ask() { "${bin}mresolve" names --quiet --timeout 500ms --attempts 3 --server "$(cat "$dir/$1")" "$2"; }
behind() { # NAME: the filter asks the server whose address is in that file
	fresh
	"${bin}mresolve" resolve "$dir/dns" --quiet --family 4 --timeout 500ms --attempts 3 --server "$(cat "$dir/$1")" -o "$dir/out.arrows.zst" "$dir/urls.arrows.zst"
}
"${GO:-go}" build -C "$here" -o "$dir/slowdns" ./bench/slowdns
slow delay -delay 200ms
slow live -delay 1ms
slow dead -delay 1ms -dead 100
head -20000 "$dir/names" > "$dir/some"
echo "127.0.0.1:$at" > "$dir/resolvers"
echo "$n names, $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg) before"
for _ in $(seq "$rounds"); do
	timed names "$n" names
	[ "$(grep -c '"NOERROR"' "$dir/result")" = "$n" ] || die 'names: not all were found'
	[ -z "${MASSDNS:-}" ] || timed massdns "$n" "$MASSDNS" -r "$dir/resolvers" -t A -o J -s 1000 -q --root "$dir/names"
	[ -z "${ZDNS:-}" ] || timed zdns "$n" "$ZDNS" A -q --name-servers "127.0.0.1:$at" -f "$dir/names"
	[ -z "${DNSX:-}" ] || timed dnsx "$n" "$DNSX" -l "$dir/names" -r "127.0.0.1:$at" -a -json -silent -disable-update-check -auth=false
	fresh
	timed cold "$n" filter
	timed warm "$n" filter
	timed delay 20000 ask delay "$dir/some"
	timed live "$n" ask live "$dir/names"
	timed dead "$n" ask dead "$dir/names"
	timed flive "$n" behind live
	timed fdead "$n" behind dead
done
awk -v n="$n" '
	{ r[$1] = r[$1] " " $2; c[$1] = c[$1] " " $3; if (!($1 in seen)) { seen[$1] = 1; order[++k] = $1 } }
	function median(list, a, n, i, j, t) {
		n = split(list, a, " ")
		for (i = 2; i <= n; i++) for (j = i; j > 1 && a[j] + 0 < a[j-1] + 0; j--) { t = a[j]; a[j] = a[j-1]; a[j-1] = t }
		return a[int((n + 1) / 2)] }
	function ratio(a, b, wanted) { printf "%-22s %.2f  (wanted: %s)\n", a " ÷ " b, m[a] / m[b], wanted }
	function beyond(a, b, rounds, i, live, dead, all) {
		rounds = split(r[a], live, " ")
		split(r[b], dead, " ")
		for (i = 1; i <= rounds; i++) all = all " " sprintf("%.2f", (n / dead[i] - 3.5) / (n / live[i]))
		printf "%-22s %.2f  (%s; wanted: at most 1.3)\n", b " - 3.5 s ÷ " a, median(all), all }
	END {
		for (i = 1; i <= k; i++) { m[order[i]] = median(r[order[i]]); printf "%-8s %9d names/s  (%s ), %s µs of processor each\n", order[i], m[order[i]], r[order[i]], median(c[order[i]]) }
		if ("massdns" in m) ratio("names", "massdns", "1")
		if ("zdns" in m) ratio("names", "zdns", "4")
		if ("dnsx" in m) ratio("names", "dnsx", "1.5")
		ratio("warm", "cold", "10")
		m["allowed"] = 5000
		ratio("delay", "allowed", "0.9")
		beyond("live", "dead")
		beyond("flive", "fdead")
	}' "$dir/rates"
