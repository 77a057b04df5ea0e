#!/bin/sh
# A crawl as Google's crawler of 1998 made it: a URL server, crawlers, a StoreServer, an indexer, a URL
# resolver. The page google98.md says what differs, and why.
#
#   google98.sh crawl seeds.txt
#
# Runs rounds until no URL is left. Interrupt or kill it at any moment; the same command again goes on where it was.
# In the folder: urlfile (the URLs that wait), urls (those ever found), crawlerK (a crawler's names and spool),
# pages/rN.warc.gz (what the StoreServer stored), rounds/rN (what the processes hand each other).
#
# Variables (all can stand in the environment):
#   CRAWLERS  crawler processes, 1 to 9 [4]       CONTACT  operator's address, for the User-Agent
#   BATCH     URLs a round [10000]                ROUNDS   stop after round N [0: when no URL is left]
#   FILTER    rules for links [default]           BIN      folder of the commands, with a trailing slash [from PATH]
# Delays, for the URL server and the crawlers alike: POLITENESS_FLAGS ['--for 30s'].
# Flags for one command each: SEED_FLAGS [--strict] RESOLVE_FLAGS FETCH_FLAGS COPY_FLAGS UPDATE_FLAGS
# A web on this machine, such as that of mweb: RESOLVE_FLAGS="--server 127.0.0.1:15353" FETCH_FLAGS="--allow-net 127.0.0.0/8".
# A crawl that ended without a page puts its seeds in once more when you run it again, so you can correct such flags.
# The StoreServer refuses a record above a quarter of its memory: COPY_FLAGS="--memory 1G" takes larger ones.
set -eu
: "${BIN:=}" "${CRAWLERS:=4}" "${BATCH:=10000}" "${ROUNDS:=0}" "${FILTER=default}" "${CONTACT:=}"
: "${POLITENESS_FLAGS:=--for 30s}" "${SEED_FLAGS:=--strict}" "${RESOLVE_FLAGS:=}" "${FETCH_FLAGS:=}" "${COPY_FLAGS:=}" "${UPDATE_FLAGS:=}"
die() { echo "google98.sh: $1" >&2; [ -z "${2:-}" ] || echo "google98.sh: hint: $2" >&2; exit 2; }
# --help prints the comment above.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
[ $# -ge 1 ] || die 'no folder, want a folder and files of seed URLs' 'google98.sh crawl seeds.txt'
case $CRAWLERS in [1-9]) ;; *) die "CRAWLERS=$CRAWLERS, want 1 to 9" ;; esac
dir=$1; shift
if [ -e "$dir/CURRENT" ] || [ -e "$dir/crawl.toml" ]; then die "$dir: a crawl of mcrawl, want a new folder or one of google98.sh"; fi
all=$(i=0; while [ $i -lt "$CRAWLERS" ]; do echo $i; i=$((i + 1)); done)
z=arrows.zst

# The stores, and the seeds in the URL file. Each command does nothing if it was done.
if [ ! -e "$dir/crawlers" ]; then
  [ $# -ge 1 ] || die "$dir: no crawl yet and no seeds, want files of seed URLs" "google98.sh $dir seeds.txt"
  mkdir -p "$dir/pages" "$dir/rounds/seed"
  "${BIN}mfrontier" create --quiet "$dir/urlfile" --policy fifo
  "${BIN}murlset" create --quiet "$dir/urls"
  for k in $all; do
    mkdir -p "$dir/crawler$k"
    "${BIN}mresolve" create --quiet "$dir/crawler$k/dns"
    "${BIN}mfetch" create --quiet "$dir/crawler$k/fetch"
  done
  "${BIN}murlset" new --quiet "$dir/urls" --txn seed --text $SEED_FLAGS "$@" -o "$dir/rounds/seed/new.$z"
  "${BIN}mfrontier" add --quiet "$dir/urlfile" --txn seed "$dir/rounds/seed/new.$z"
  echo "$CRAWLERS" > "$dir/crawlers.part"
  mv "$dir/crawlers.part" "$dir/crawlers"
elif [ $# -gt 0 ]; then
  for f in "$@"; do [ -e "$f" ] || [ "$f" = - ] || echo "google98.sh: $f: no such file" >&2; done
  echo "google98.sh: $dir: a crawl that has its seeds already: not read: $*" >&2
fi
# Hosts belong to crawlers by their number.
[ "$(cat "$dir/crawlers")" = "$CRAWLERS" ] || die "$dir: a crawl of $(cat "$dir/crawlers") crawlers, and CRAWLERS=$CRAWLERS" "CRAWLERS=$(cat "$dir/crawlers") google98.sh $dir"

# URL server: reads URLs out of the file, and forwards them to the crawlers. All URLs of a host go to one.
url_server() {
  [ -e "$d/batch.$z" ] ||
    "${BIN}mfrontier" next --progress off "$dir/urlfile" --txn "$r" -n "$BATCH" --connections $((300 * CRAWLERS)) $POLITENESS_FLAGS -o "$d/batch.$z"
  "${BIN}mmerge" split --quiet --buckets "$CRAWLERS" -o "$d/forwarded" "$d/batch.$z"
}

# Crawler K: up to 300 servers at a time by asynchronous I/O, with a cache of names of its own. Its pages are not compressed.
crawler() {
  [ -e "$d/fetched-$1.$z" ] || {
    "${BIN}mresolve" resolve --quiet "$dir/crawler$1/dns" --txn "$r" $RESOLVE_FLAGS "$d/forwarded-00$1.$z" |
      "${BIN}mfetch" fetch --quiet "$dir/crawler$1/fetch" --txn "$r" --connections 300 --warc-codec none ${CONTACT:+--contact "$CONTACT"} \
        $POLITENESS_FLAGS $FETCH_FLAGS -o "$d/fetched-$1.$z"
  }
}

# StoreServer: takes the pages of all crawlers, compresses them, and stores them.
store_server() {
  [ -e "$dir/pages/$r.warc.gz" ] || {
    set --
    for k in $all; do set -- "$@" --from "$dir/crawler$k/fetch"; done
    for k in $all; do set -- "$@" "$d/fetched-$k.$z"; done
    "${BIN}mfetch" copy --quiet --robots --warc-codec gzip $COPY_FLAGS -o "$dir/pages/$r.warc.gz" "$@"
  }
}

# Indexer: reads the pages back, and saves their links as they are written.
indexer() {
  [ -e "$d/raw.$z" ] || "${BIN}mextract" links --quiet --raw "$dir/pages/$r.warc.gz" -o "$d/raw.$z"
}

# URL resolver: makes the links absolute, and adds to the URL file those that were never found before.
url_resolver() {
  [ -e "$d/new.$z" ] ||
    "${BIN}mextract" resolve --quiet --txn "$r" ${FILTER:+--filter "$FILTER"} "$d/raw.$z" | "${BIN}murlset" new --quiet "$dir/urls" --txn "$r" -o "$d/new.$z"
  for k in $all; do cat "$d/fetched-$k.$z"; done > "$d/outcomes.$z"
  "${BIN}mfrontier" update --quiet "$dir/urlfile" --txn "$r" $UPDATE_FLAGS --outcomes "$d/outcomes.$z" "$d/new.$z"
}

# Puts the seeds in once more. Nothing was fetched: what the names were said to be may be why.
seeds_again() {
  for k in $all; do
    rm -rf "$dir/crawler$k/dns"
    "${BIN}mresolve" create --quiet "$dir/crawler$k/dns"
  done
  "${BIN}mcat" --quiet --format tsv --columns url "$dir/rounds/seed/new.$z" > "$dir/rounds/seed/again.tsv"
  sed 1d "$dir/rounds/seed/again.tsv" > "$dir/rounds/seed/again.txt"
  "${BIN}mfrontier" add --quiet "$dir/urlfile" --txn "seed$n" --text "$dir/rounds/seed/again.txt"
  echo "google98.sh: $dir: the seeds are tried once more" >&2
}

n=1 made=0
while [ "$ROUNDS" -eq 0 ] || [ $n -le "$ROUNDS" ]; do
  r=r$n d=$dir/rounds/r$n
  if [ ! -e "$d/done" ]; then
    if [ ! -e "$d/batch.$z" ]; then
      if "${BIN}mfrontier" stat --empty "$dir/urlfile"; then break; else s=$?; fi
      if [ $s = 1 ] && [ $made = 0 ]; then
        seeds_again
      elif [ $s != 6 ]; then
        echo "google98.sh: hint: correct RESOLVE_FLAGS or FETCH_FLAGS (google98.sh --help), and \"google98.sh $dir\" tries the seeds once more" >&2
        exit $s
      fi
    fi
    mkdir -p "$d"
    url_server
    crawlers=
    for k in $all; do
      crawler "$k" &
      crawlers="$crawlers $!"
    done
    failed=0
    for p in $crawlers; do wait "$p" || failed=$?; done
    [ $failed = 0 ] || exit $failed
    store_server
    indexer
    url_resolver
    touch "$d/done"
    made=1
    echo "google98.sh: round $n: $("${BIN}mcat" --count "$d/batch.$z") URLs, $("${BIN}mcat" --count "$d/new.$z") new" >&2
  fi
  n=$((n + 1))
done
echo "google98.sh: stopped after round $((n - 1))" >&2
