#!/usr/bin/env bash
# Resolves the names of a generated zone that NSD serves on loopback, and compares with other programs:
#
#   pkg/e2e/dns.sh            ("make dns"; some ten seconds)
#
#   1. mresolve names, A and AAAA: each name has exactly one result, and its answers are those of dig.
#   2. mresolve as a filter, cold, warm, and after kill -9 while the cache was written: each row comes out once, in its
#      place, with the addresses that dig gives; the warm run asks nobody.
#
# The names: addresses of one family, of both and of neither, aliases in chains, a wildcard, names that do not exist.
# N= is how many [1000]. It needs nsd, dig (dnsutils) and python3, and ends what it started.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/../.." && pwd)
bin=${BIN:-$here/bin/} n=${N:-1000}
PATH=$PATH:/usr/sbin
# shellcheck source=pkg/e2e/nsd.sh
. "$here/pkg/e2e/nsd.sh"
die() { echo "dns.sh: $1" >&2; exit 1; }
for tool in nsd dig python3; do
	command -v $tool > /dev/null || die "$tool is not installed"
done
[ -x "${bin}mresolve" ] || die "no ${bin}mresolve: run \"make build\""

dir=$(mktemp -d)
pids=
trap '[ -z "$pids" ] || kill $pids 2> /dev/null || true; wait; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP

awk -v n="$n" -v zone="$dir/zone" -v names="$dir/names" 'BEGIN {
	print "$ORIGIN zone.test.\n$TTL 3600\n@ IN SOA ns root 1 2 3 4 300\n@ IN NS ns\nns IN A 127.0.0.1\n*.wild IN A 127.9.9.9" > zone
	for (i = 0; i < n; i++) {
		host = "h" i; four = "127." int(i / 65536) "." int(i / 256) % 256 "." i % 256; six = sprintf("2001:db8::%x", i)
		kind = i % 10
		if (kind < 4) print host, "IN A", four > zone
		if (kind == 4) print host, "IN AAAA", six > zone
		if (kind == 5) print host, "IN A", four "\n" host, "IN A 127.8.8.8\n" host, "IN AAAA", six > zone
		if (kind == 6) print host, "IN CNAME h" i - 6 > zone
		if (kind == 7) print host, "IN CNAME h" i - 1 > zone        # a chain: of 7 to 6 to 0
		if (kind == 8) { print host, "IN TXT no-address" > zone }
		if (kind == 9 && i % 20 == 9) host = host ".wild"           # the others of kind 9 do not exist
		print host ".zone.test" > names
	}
}'

# port prints one that is free in UDP and TCP.
port() {
	python3 - <<-'END'
		import socket
		while True:
		    t, u = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
		    t.bind(("127.0.0.1", 0))
		    try: u.bind(t.getsockname())
		    except OSError: continue
		    print(t.getsockname()[1])
		    break
	END
}
at=$(port)
nsd_start "$dir" "$at"
pids=$nsd
until dig +short +time=1 +tries=1 -p "$at" @127.0.0.1 ns.zone.test > /dev/null; do
	kill -0 $pids 2> /dev/null || { cat "$dir/nsd.log" >&2; die "nsd did not start"; }
	sleep 0.1
done

# digs PORT TYPE prints "name answer" for each answer of dig, and "name" for a name without.
digs() {
	dig -p "$1" @127.0.0.1 +noall +question +answer +time=5 -t "$2" -f "$dir/names" | awk '
		/^;[^;]/ { if (name != "" && !any) print name; name = substr($1, 2); sub(/\.$/, "", name); any = 0 }
		/^[^;]/ && NF > 4 { any = 1; a = $5; sub(/\.$/, "", a); print name, a }
		END { if (!any) print name }' | sort
}
same() { # WHAT FILE FILE
	cmp -s "$2" "$3" || { diff "$2" "$3" | head; die "$1: not the same"; }
	echo "$1: the same, $(wc -l < "$3") lines"
}

# --- names --------------------------------------------------------------------

for type in A AAAA; do
	digs "$at" $type > "$dir/dig.$type"
	"${bin}mresolve" names --quiet --server "127.0.0.1:$at" --type $type "$dir/names" > "$dir/json"
	[ "$(wc -l < "$dir/json")" = "$n" ] || die "names: $(wc -l < "$dir/json") results of $n"
	python3 -c '
import json, sys
for line in sys.stdin:
    r = json.loads(line)
    answers = r["data"]["answers"]
    for a in answers: print(r["name"], a["answer"])
    if not answers: print(r["name"])' < "$dir/json" | sort > "$dir/ours.$type"
	same "mresolve names and dig, $type" "$dir/dig.$type" "$dir/ours.$type"
done

# --- a filter -----------------------------------------------------------------

# The addresses that rows should have: those of dig, without the aliases.
cat "$dir/dig.A" "$dir/dig.AAAA" | awk 'NF == 2 && $2 ~ /^[0-9.]+$|:/' | sort -u > "$dir/addresses"
{ echo url; sed 's|.*|http://&/|' "$dir/names"; } | "${bin}mcat" --from tsv --kind url > "$dir/urls.arrows.zst"
resolve() { "${bin}mresolve" resolve "$dir/dns" --quiet --server "127.0.0.1:$at" --stats "$dir/stats.json" -o "$dir/out.arrows.zst" "$dir/urls.arrows.zst"; }
check() {
	"${bin}mcat" --quiet "$dir/out.arrows.zst" | python3 -c '
import json, sys
names = open(sys.argv[1]).read().split()
rows = [json.loads(line) for line in sys.stdin]
assert [r["host"] for r in rows] == names, "rows are not those that went in, in their order"
for r in rows:
    assert bool(r.get("addr")) != bool(r.get("addr_error")), r
    for a in filter(None, r.get("addr", "").split(",")): print(r["host"], a)' "$dir/names" | sort > "$dir/rows"
	same "$1" "$dir/addresses" "$dir/rows"
}
"${bin}mresolve" create "$dir/dns"
resolve; check 'rows, cold'
resolve; check 'rows, warm'
python3 -c 'import json,sys; s=json.load(open(sys.argv[1]))["names"]; assert s["asked"]==0 and s["cached"]==s["names"], s' "$dir/stats.json" || die 'the warm run asked'

rm -rf "$dir/dns"
"${bin}mresolve" create "$dir/dns"
killed=0
for wait in 0.01 0.02 0.03 0.05 0.08 0.12; do
	resolve & victim=$!
	sleep $wait
	if kill -KILL $victim 2> /dev/null; then killed=$((killed + 1)); fi
	wait $victim 2> /dev/null || true
done
resolve; check "rows, after $killed kills"
