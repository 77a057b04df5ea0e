#!/usr/bin/env bash
# A processing module in Python over 475 pages: a program that stays, and the same started for each document.
#
#   bench/modules.sh
#   PAGES=2000 ROUNDS=5 bench/modules.sh
#
# It needs python3, takes the commands of bin/ (or BIN=), and stays on loopback. It prints the median seconds of mextract
# without modules, with the one that stays, and with a process for each page. Its exit status is 1 if the one that stays
# takes more than 5 s for each 475 pages, or the answers differ.
set -euo pipefail
pages=${PAGES:-475} rounds=${ROUNDS:-3}
here=$(cd "$(dirname "$0")/.." && pwd)
BIN=${BIN-$here/bin/}
dir=$(mktemp -d)
trap 'exec 9>&-; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
cd "$dir"

web=(--seed 3 --hosts 20 --pages $((pages + 50)))
mkfifo hold
"${BIN}mweb" serve "${web[@]}" --ready web.json --until-stdin-closes < hold > /dev/null &
exec 9> hold
until [ -s web.json ]; do kill -0 $! || exit 1; sleep 0.1; done
dns=$(sed 's/.*"dns":"\([^"]*\)".*/\1/' web.json) port=$(sed 's/.*"port":\([0-9]*\).*/\1/' web.json)
"${BIN}mweb" oracle "${web[@]}" --port "$port" | awk '$3 == 200 { print $1 }' > urls.txt
"${BIN}mfetch" create store
"${BIN}mfetch" -q fetch store --server "$dns" --allow-net 127.0.0.0/8 --min-delay 0 --delay-factor 0 --addr-delay 0 urls.txt -o all
"${BIN}mcat" all | awk -v n="$pages" '/"status":200/ && /"mime":"text.html"/ && n-- > 0' | "${BIN}mcat" -q --from json --kind fetch -o rows
n=$("${BIN}mcat" --count rows)

cat > once.sh << END
cat > "\$\$"
{ printf '{"charset":"%s","length":%d}\n' "\$MERCATOR_CHARSET" "\$(wc -c < "\$\$")"; cat "\$\$"; } | python3 '$here/pipelines/module-python.py'
rm "\$\$"
END
run() { # NAME MODULE…: seconds
	local name=$1 began=$EPOCHREALTIME
	shift
	"${BIN}mextract" -q --warc store rows --modules "$name" "$@" -o links
	awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", b - a }' >> "$name.s"
}
for _ in $(seq "$rounds"); do
	run none --module page=none/none
	run stays --module "m=text/html:stay python3 '$here/pipelines/module-python.py'"
	run each --module "m=text/html:sh '$dir/once.sh'"
done
"${BIN}mcat" stays | sed -n 's/.*"key":"words","value":"\([0-9]*\)".*/\1/p' > a
"${BIN}mcat" each | sed -n 's/.*{\\"words\\": \([0-9]*\).*/\1/p' > b
cmp a b
[ "$(wc -l < a)" = "$n" ]
for name in none stays each; do
	printf '%-6s %s s\n' $name "$(sort -n $name.s | sed -n "$((rounds / 2 + 1))p")"
done
awk -v s="$(sort -n stays.s | sed -n "$((rounds / 2 + 1))p")" -v n="$n" 'BEGIN { print n " pages"; exit s > 5 * n / 475 }'
