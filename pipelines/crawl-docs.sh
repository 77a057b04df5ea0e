#!/bin/sh
# A crawl of real pages, as "make crawl-docs" runs it, compared with wget.
#
#   make crawl-docs
#
# nginx serves three documentation packages of Debian as three named hosts on
# three loopback addresses, dnsmasq resolves the names, and mcrawl crawls them
# to the end with all delays 0. Then "wget -r" walks the same servers. The URLs
# that each got with status 200 are compared, by nginx's own log; a difference
# must fall under a rule named below, or the exit status is 1 and the URLs are
# printed. The crawl's records must also say what nginx's log says.
#
# Needs no root. Run again after an interruption it goes on; CRAWL= names the
# folder [crawl-docs], PORT= and DNS_PORT= the ports [8081, 5381].
#
# The rules:
#   duplicate   only wget's: linked from a document that is a copy of another one. Mercator looks
#               for links in the first copy alone (the content-seen test).
#   through     only wget's: linked from a document that falls under a rule itself.
# What only our crawl got falls under none: wget follows all that these pages hold.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C
if [ -z "${BIN+x}" ]; then
  BIN=$here/../bin/
  [ -x "${BIN}mfetch" ] || BIN=
fi
: "${CRAWL:=crawl-docs}" "${PORT:=8081}" "${DNS_PORT:=5381}"
case $BIN in /*) ;; */*) BIN=$PWD/$BIN ;; esac
export BIN CRAWL

die() { echo "crawl-docs.sh: $1" >&2; exit 1; }

need() { # PROGRAM PACKAGE
  command -v "$1" > /dev/null || die "$1 is not installed: apt-get install $2"
}
need nginx nginx-light
need dnsmasq dnsmasq-base
need wget wget

# name, address, package, folder
sites="postgresql.docs.test 127.10.0.1 postgresql-doc-15 /usr/share/doc/postgresql-doc-15/html
python.docs.test 127.10.0.2 python3.11-doc /usr/share/doc/python3.11/html
cmake.docs.test 127.10.0.3 cmake-doc /usr/share/doc/cmake-data/html"
resolver=127.10.0.4

each_site() { # COMMAND..., with name, address, package and folder after it
  echo "$sites" | while read -r name address package folder; do
    "$@" "$name" "$address" "$package" "$folder" || exit
  done
}

check() { [ -e "$4/index.html" ] || die "$4/index.html is not there: apt-get install $3"; }
each_site check

mkdir -p "$CRAWL"
CRAWL=$(cd "$CRAWL" && pwd)
case $CRAWL in *[[:space:]]*) die "$CRAWL: a space in the name of a folder, which flags and nginx.conf cannot hold" ;; esac
dir=$(mktemp -d)
nginx=
dnsmasq=
stop() {
  for pid in $nginx $dnsmasq; do
    kill "$pid" 2> /dev/null && wait "$pid" || true
  done
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

# --- the servers ------------------------------------------------------------

server() {
  cat << END
  server { listen $2:$PORT; server_name $1; root $4; }
END
}
cat > "$dir/nginx.conf" << END
daemon off;
worker_processes 2;
pid $dir/nginx.pid;
events { worker_connections 1024; }
http {
  include /etc/nginx/mime.types;
  client_body_temp_path $dir/t1; proxy_temp_path $dir/t2; fastcgi_temp_path $dir/t3;
  uwsgi_temp_path $dir/t4; scgi_temp_path $dir/t5;
  log_format line "\$status\thttp://\$host:$PORT\$request_uri\t\$http_referer";
  map \$http_user_agent \$wget { default 0; ~^Wget/ 1; }
  map \$http_user_agent \$ours { default 0; ~^mercator 1; }
  access_log $CRAWL/wget.log line if=\$wget;
  access_log $CRAWL/access.log line if=\$ours;
$(each_site server)
}
END
nginx -p "$dir" -c "$dir/nginx.conf" -e "$dir/error.log" &
nginx=$!

record() { echo "--host-record=$1,$2"; }
# shellcheck disable=SC2046 # one word a site
dnsmasq --keep-in-foreground --conf-file=/dev/null --pid-file= --user="$(id -un)" --no-resolv --no-hosts \
  --bind-interfaces --listen-address=$resolver --port="$DNS_PORT" --local=/test/ $(each_site record) &
dnsmasq=$!

answers() { wget -q -O "$dir/page" --tries=1 "http://$2:$PORT/"; }
n=0
while :; do
  kill -0 $nginx 2> /dev/null || { cat "$dir/error.log" >&2; die "nginx ended; is port $PORT taken? PORT= chooses another"; }
  kill -0 $dnsmasq 2> /dev/null || die "dnsmasq ended; is port $DNS_PORT taken? DNS_PORT= chooses another"
  each_site answers && break
  n=$((n + 1))
  [ $n -lt 100 ] || die "nginx does not answer on port $PORT"
  sleep 0.2
done
: > "$CRAWL/wget.log" # what an earlier run and the questions above left

# --- our crawl --------------------------------------------------------------

seed() { echo "http://$1:$PORT/"; }
each_site seed > "$dir/seeds.txt"
if [ -e "$CRAWL/seeds.txt" ] && ! cmp -s "$dir/seeds.txt" "$CRAWL/seeds.txt"; then
  die "$CRAWL is a crawl of other URLs: give it the port that it had, or name another folder"
fi
cp "$dir/seeds.txt" "$CRAWL/seeds.txt"
rule() { echo "allow $3: host $1:$PORT"; }
{ each_site rule; echo 'default deny'; } > "$CRAWL/filter.txt"

began=$(date +%s)
cat > "$CRAWL/crawl.toml" << EOF
seeds = ["seeds.txt"]
[politeness]
min_delay = "0s"
delay_factor = 0
addr_delay = "0s"
[network]
allow_net = ["127.0.0.0/8"]
[resolve]
servers = ["$resolver:$DNS_PORT"]
[extract]
filter = "filter.txt"
ignore_nofollow = true
EOF
[ -e "$CRAWL/CURRENT" ] || "${BIN}mckpt" init "$CRAWL"
"${BIN}mcrawl" run "$CRAWL"
ours_took=$(($(date +%s) - began))
"${BIN}mckpt" verify "$CRAWL" > /dev/null

# --- wget -------------------------------------------------------------------

# Each server stands in as wget's proxy, so that the names need no resolving.
walk() {
  echo "wget -r http://$1:$PORT/"
  wget --no-config -q -r -l inf -e robots=off --delete-after -P "$dir/$1" \
    -e use_proxy=yes -e no_proxy= -e "http_proxy=$2:$PORT" "http://$1:$PORT/" ||
    { status=$?; [ $status = 8 ] || die "wget ended with exit status $status"; } # 8: some were 404
}
began=$(date +%s)
each_site walk
wget_took=$(($(date +%s) - began))

# --- the comparison ---------------------------------------------------------

canonical() { "${BIN}murlset" key | cut -f 2 | sort -u; }
cd "$CRAWL"
awk -F '\t' '$1 == 200 { print $2 }' access.log | canonical > ours.txt
awk -F '\t' '$1 == 200 { print $2 }' wget.log | canonical > wget.txt
"${BIN}mcat" --format tsv --columns role,status,duplicate,url rounds/r*/marked.arrows.zst |
  awk -F '\t' '$1 == "page" && $2 == 200 { print $4 "\t" $3 }' | sort > records.tsv

failed=
if ! cut -f 1 records.tsv | cmp -s - ours.txt; then
  echo "The records differ from nginx's log (< log, > records):"
  cut -f 1 records.tsv | diff ours.txt - | grep '^[<>]' | head -20
  failed=1
fi
comm -13 wget.txt ours.txt > only-ours.txt
if [ -s only-ours.txt ]; then
  echo "Only our crawl got these, and no rule says why (link kind, page):"
  "${BIN}mcat" --format tsv --columns url,link_kind,src_url rounds/r*/links.arrows.zst |
    awk -F '\t' 'NR == FNR { only[$1] = 1; next } $1 in only { delete only[$1]; print "  " $0 }' only-ours.txt - | head -20
  failed=1
fi
# Where wget met each of its URLs: nginx logs the Referer. Rules apply until no more URL falls under one.
comm -23 wget.txt ours.txt > only-wget.txt
awk -F '\t' '
  FILENAME == "records.tsv" { if ($2 == "true") duplicate[$1] = 1; next }
  FILENAME == "only-wget.txt" { only[$1] = 1; next }
  $2 in only { from[$2] = $3 }
  END {
    for (u in only) if (from[u] in duplicate) rule[u] = "duplicate"
    for (more = 1; more; ) { more = 0; for (u in only) if (!(u in rule) && from[u] in rule) { rule[u] = "through"; more = 1 } }
    for (u in only) print (u in rule ? rule[u] : "none") "\t" u "\t" from[u]
  }' records.tsv only-wget.txt wget.log | sort > differences.tsv
if grep -q '^none' differences.tsv; then
  echo "Only wget got these, and no rule says why (URL, page):"
  grep '^none' differences.tsv | cut -f 2,3 | head -20 | sed 's/^/  /'
  failed=1
fi

echo
echo "$(wc -l < ours.txt) URLs with status 200 in our crawl ($ours_took s), $(wc -l < wget.txt) in wget's ($wget_took s)"
cut -f 1 differences.tsv | uniq -c | while read -r n rule; do echo "$n only in wget's, by rule: $rule"; done
[ -z "$failed" ] || die "the crawl and wget differ; $CRAWL/differences.tsv has wget's side"
echo "The crawl equals wget's, but for these rules."
