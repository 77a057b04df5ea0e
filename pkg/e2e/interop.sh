#!/bin/sh
# Other programs read our files, and ours read theirs.
#
#   make interop
#
# Crawls a small mweb (gzip and chunked replies are in it), and then:
#   - warcio checks the WARC files, and so does jwarc; where make protocols could run,
#     warcio checks those of a crawl by FTP and Gopher, too;
#   - warcio reads the WET and WAT files that mcat makes of the crawl;
#   - of the sealed crawl, wacz validates the WACZ file; pywb replays pages from the folder
#     and from the WACZ file; warcio indexes the files where they are; DuckDB and pyarrow
#     open the Parquet files, and a query for Common Crawl's index runs in DuckDB;
#   - cdxj-indexer makes the index of the WARC files that mcat makes, with the same keys;
#   - after "zstd -dc", record files of each kind open in pyarrow with the rows and
#     columns that mcat prints, and in DuckDB from there;
#   - WARC files that wget wrote go through mcat and mextract, which finds in them
#     the links that it finds in ours;
#   - mweb serves the saved crawl, and a crawl of that web finds the same pages;
#   - stage-awk.sh and stage-python.sh stand in for stages, and the ledger balances.
#
# Needs python3 with venv, zstd and wget, and the network for what it installs into
# a temporary folder: warcio, pyarrow, duckdb, cdxj-indexer, wacz and pywb from PyPI (VENV= names a folder
# that has them), jwarc from Maven Central (JWARC= names its jar). Without java or
# mvn jwarc is left out, and the script says so.
set -eu
here=$(cd "$(dirname "$0")/../../pipelines" && pwd)
e2e=$here/../pkg/e2e
if [ -z "${BIN+x}" ]; then
  BIN=$here/../bin/
  [ -x "${BIN}mfetch" ] || BIN=
fi
export BIN
PATH=$here:$PATH:/usr/sbin
: "${VENV:=}" "${JWARC:=}"
jwarc_version=0.31.1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
say() { printf '%-9s %s\n' "$1" "$2"; }
die() { echo "interop.sh: $*" >&2; exit 1; }
for tool in python3 zstd wget; do
  command -v $tool > /dev/null || die "$tool is not there"
done

# --- the tools --------------------------------------------------------------

if [ -z "$VENV" ]; then
  VENV=$work/venv
  python3 -m venv "$VENV"
  "$VENV/bin/pip" install --quiet --disable-pip-version-check warcio pyarrow duckdb cdxj-indexer wacz pywb
fi
python=$VENV/bin/python
if [ -z "$JWARC" ]; then
  if command -v java > /dev/null && command -v mvn > /dev/null; then
    mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
      -Dartifact=org.netpreserve:jwarc:$jwarc_version -DoutputDirectory="$work" > "$work/mvn.log" 2>&1 ||
      { cat "$work/mvn.log" >&2; die "mvn could not get jwarc"; }
    JWARC=$work/jwarc-$jwarc_version.jar
  fi
fi

# --- a web and a crawl of it ------------------------------------------------

# serve NAME VERB FLAGS…: starts mweb; it ends when stop is called, or this script ends.
# It says whether the port was free.
serve() {
  name=$1; shift
  rm -f "$work/fifo"; mkfifo "$work/fifo"
  "${BIN}mweb" "$@" --ready "$work/$name.json" --until-stdin-closes < "$work/fifo" > /dev/null &
  web=$!
  exec 9> "$work/fifo"
  while [ ! -e "$work/$name.json" ]; do
    kill -0 $web 2> /dev/null || { exec 9>&-; return 1; }
    sleep 0.1
  done
  dns=$(sed 's/.*"dns":"\([^"]*\)".*/\1/' "$work/$name.json")
  port=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$work/$name.json")
}
stop() { exec 9>&-; wait $web; }

crawl() {
  make -s -f "$here/mercator.mk" CRAWL="$1" SEEDS="$work/seeds.txt" \
    INIT_FLAGS=-q SEED_FLAGS=-q NEXT_FLAGS=-q RESOLVE_FLAGS="-q --server $dns" MARK_FLAGS=-q EXTRACT_FLAGS=-q NEW_FLAGS=-q \
    POLITENESS_FLAGS='--min-delay 0 --delay-factor 0 --addr-delay 0' FETCH_FLAGS='-q --dedup --warc-block-digest --allow-net 127.0.0.0/8' \
    UPDATE_FLAGS='-q --max-attempts 1' COMMIT_FLAGS=-q 9>&- > /dev/null
}
found() {
  "${BIN}mcat" --format tsv --columns url,outcome,status,content_fp,role "$1"/rounds/r*/marked.arrows.zst |
    awk -F '\t' '$5 == "page"' | LC_ALL=C sort
}

shape='--seed 5 --hosts 6 --pages 120'
# Two webs have the same port, one after the other: one below those that the kernel
# gives to connections.
port=$((10000 + $$ % 20000))
# shellcheck disable=SC2086
until serve web serve --port $port $shape; do
  port=$((port + 1))
  [ $port -lt 31000 ] || die "mweb did not start"
done
# shellcheck disable=SC2086
"${BIN}mweb" seeds $shape --port "$port" > "$work/seeds.txt"
crawl "$work/crawl"
found "$work/crawl" > "$work/found.tsv"

# --- wget's WARC files ------------------------------------------------------

# The hosts' names are no names for wget: all requests go to one address, as to a proxy.
http_proxy=http://127.0.0.1:$port wget -q -r -l 4 -H -D mweb.test -e robots=off --delete-after -P "$work/wget" \
  --warc-file="$work/wget" --warc-max-size=100K -i "$work/seeds.txt" || [ $? = 8 ] # 8: some were 404
stop

# --- WARC files -------------------------------------------------------------

"${BIN}mcrawl" seal -q "$work/crawl" > /dev/null
"$python" "$e2e/interop.py" warc "$work"/crawl/fetch/*.warc.gz
"${BIN}mcat" --format cdxj "$work"/crawl/fetch/*.warc.gz > "$work/ours.cdxj"
"$python" "$e2e/interop.py" cdxj "$work/ours.cdxj" "$work"/crawl/fetch/*.warc.gz
"${BIN}mcat" --wet "$work/crawl" -o "$work/crawl.warc.wet.gz"
"${BIN}mcat" --wat "$work/crawl" -o "$work/crawl.warc.wat.gz"
"$python" "$e2e/interop.py" derived "$work/crawl.warc.wet.gz" "$work/crawl.warc.wat.gz"
if [ -n "$JWARC" ]; then
  java -jar "$JWARC" validate "$work"/crawl/fetch/*.warc.gz > "$work/jwarc.log" 2>&1 || { tail -20 "$work/jwarc.log" >&2; die "jwarc found fault"; }
  [ ! -s "$work/jwarc.log" ] || { tail -20 "$work/jwarc.log" >&2; die "jwarc has something to say"; }
  say jwarc "validate passes $("${BIN}mcat" --count "$work"/crawl/fetch/*.warc.gz) records"
else
  say jwarc "left out: java or mvn is not there"
fi

"${BIN}mcat" --check "$work"/wget*.warc.gz
links() { # source, link, kind; of the pages that both have
  "${BIN}mcat" --format tsv --columns src_url,url,link_kind | sed 1d | LC_ALL=C sort -u
}
"${BIN}mextract" -q --duplicates "$work"/wget*.warc.gz | links > "$work/wget.tsv"
"${BIN}mcat" --format arrow -q "$work"/crawl/rounds/r*/marked.arrows.zst |
  "${BIN}mextract" -q --duplicates --warc "$work/crawl/fetch" | links > "$work/ours.tsv"
for f in wget ours; do
  cut -f 1 "$work/$f.tsv" | LC_ALL=C sort -u > "$work/$f.pages"
done
LC_ALL=C comm -12 "$work/wget.pages" "$work/ours.pages" > "$work/pages"
[ "$(wc -l < "$work/pages")" -ge 50 ] || die "wget and the crawl have only $(wc -l < "$work/pages") pages in common"
for f in wget ours; do
  LC_ALL=C join -t "$(printf '\t')" "$work/pages" "$work/$f.tsv" > "$work/$f.links"
done
cmp "$work/wget.links" "$work/ours.links" || { diff "$work/wget.links" "$work/ours.links" | head; die "other links in wget's WARC files"; }
say wget "$("${BIN}mcat" --count "$work"/wget*.warc.gz) records read; on $(wc -l < "$work/pages") pages mextract finds the same $(wc -l < "$work/ours.links") links"

# --- the sealed crawl -------------------------------------------------------

"${BIN}mcrawl" export -q "$work/crawl" --wacz > /dev/null
"${BIN}mcrawl" export -q "$work/crawl" --parquet "$work/tables" > /dev/null
"$python" "$e2e/interop.py" replay "$work/crawl/index" "$work/crawl.wacz" "$work"/crawl/fetch/*.warc.gz
"$python" "$e2e/interop.py" parquet "$work/tables/outcomes.parquet" "$work"/crawl/rounds/r*/marked.arrows.zst
"$python" "$e2e/interop.py" parquet "$work/tables/robots.parquet" "$work"/crawl/rounds/r*/marked.arrows.zst
"$python" "$e2e/interop.py" index "$work/tables/outcomes.parquet" "$work"/crawl/rounds/r*/marked.arrows.zst
"$python" "$e2e/interop.py" parquet "$work/tables/links.parquet" "$work"/crawl/rounds/r*/links.arrows.zst

# --- record files -----------------------------------------------------------

r=$work/crawl/rounds/r3
"${BIN}mextract" -q --warc "$work/crawl/fetch" --modules "$work/modules.arrows.zst" -o "$work/again.arrows.zst" "$r/marked.arrows.zst"
for f in "$r/resolved" "$r/marked" "$r/links" "$work/modules"; do
  zstd -q -dc "$f.arrows.zst" > "$work/plain.arrows"
  "${BIN}mcat" "$f.arrows.zst" > "$work/rows.json"
  "$python" "$e2e/interop.py" arrow "$work/plain.arrows" "$work/rows.json"
done

# --- the saved crawl as a web -----------------------------------------------

serve saved replay "$work/crawl" --port "$port" || die "mweb did not start"
crawl "$work/again"
stop
found "$work/again" > "$work/again.tsv"
cmp -s "$work/found.tsv" "$work/again.tsv" || { diff "$work/found.tsv" "$work/again.tsv" | head; die "a crawl of the saved web found something else"; }
say mweb "serves the saved crawl: a crawl of it finds the same $(wc -l < "$work/found.tsv") URLs and documents"

# --- documents without HTTP ---------------------------------------------------

if command -v gophernicus > /dev/null && /usr/bin/python3 -c 'import pyftpdlib' 2> /dev/null; then
  VENV=$VENV "$e2e/protocols.sh"
else
  say warcio 'no documents by FTP and Gopher: gophernicus or python3-pyftpdlib is not there'
fi

# --- stages of our own ------------------------------------------------------

stages() { # a crawl of two rounds with both stages in the pipe
  c=$work/stages f=$work/crawl/fetch z=arrows.zst
  "${BIN}mckpt" init -q "$c"
  "${BIN}murlset" new -q "$c/urls" --txn seed "$work/crawl/rounds/seed/new.$z" | "${BIN}mfrontier" add -q "$c/frontier" --txn seed
  "${BIN}mckpt" commit -q "$c" --txn seed
  for t in r1 r2; do
    "${BIN}mfrontier" next -q "$c/frontier" --txn $t | "${BIN}mresolve" -q "$c/dns" --txn $t --replay "$f" |
      "${BIN}mfetch" -q "$c/fetch" --txn $t --replay "$f" | "${BIN}mfpset" mark -q "$c/content" --txn $t --copy "$c/$t.marked.$z" |
      "${BIN}mextract" -q --warc "$f" --txn $t --copy "$c/$t.links.$z" |
      stage-awk.sh noscript | "${BIN}murlset" new -q "$c/urls" --txn $t | stage-python.sh |
      "${BIN}mfrontier" update -q "$c/frontier" --txn $t --outcomes "$c/$t.marked.$z" --links "$c/$t.links.$z"
    "${BIN}mckpt" commit -q "$c" --txn $t
  done
  "${BIN}mckpt" verify -q "$c"
}
stages
say stages "awk and Python: the ledger balances; queues: $("${BIN}mfrontier" stat "$work/stages/frontier" | awk '/front queue/ { printf "%s ", $4 }')"
