#!/bin/sh
# A crawl over FTP, Gopher and a program's own scheme, to the end, against servers of
# Debian.
#
#   make protocols
#
# Serves a folder by pyftpdlib (once with MLSD and EPSV, once without) and gophernicus
# on loopback, crawls from the roots, and demands that each file was found by the
# listings and menus and came whole. A page on the FTP server links to a scheme that a
# program fetches (fetch.exec in crawl.toml), and whose state it keeps (fetch.exec_state): mfetch is killed at its
# first URL and at its commit, and the state counts each round once. Then one file gets another time, and of all that are
# asked for again, with what the first answers said, only that one is sent.
#
# Needs Debian's python3-pyftpdlib and gophernicus. With VENV=, a Python environment that
# has warcio, that checks the WARC files too ("make interop" does this).
set -eu
here=$(cd "$(dirname "$0")/../../pipelines" && pwd)
e2e=$here/../pkg/e2e
if [ -z "${BIN+x}" ]; then
  BIN=$here/../bin/
  [ -x "${BIN}mfetch" ] || BIN=
fi
export BIN
PATH=$PATH:/usr/sbin

work=$(mktemp -d)
trap 'exec 9>&-; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
die() { echo "protocols.sh: $*" >&2; exit 1; }
command -v gophernicus > /dev/null || die "gophernicus is not there"
/usr/bin/python3 -c 'import pyftpdlib' || die "python3-pyftpdlib is not there"

# --- what is served ---------------------------------------------------------

chmod 755 "$work"
site=$work/site
mkdir -p "$site/sub/deep" "$site/with space"
echo 'a text' > "$site/a.txt"
printf 'one\n.two\n..three\n' > "$site/sub/dots.txt"
head -c 300000 /dev/urandom > "$site/sub/deep/large.bin"
: > "$site/empty.txt"
echo 'percent' > "$site/with space/100% #1;x.txt"
echo '<a href="tree://127.0.0.5/hello">by a program</a> <a href="sub">no slash</a>' > "$site/page.html"
mkdir "$site/private"
echo 'not for crawlers' > "$site/private/x.txt"
printf 'User-agent: *\nDisallow: /private\n' > "$site/robots.txt"
chmod -R a+rX "$site"

mkfifo "$work/fifo"
/usr/bin/python3 "$e2e/protocols.py" "$site" "$work/ready" < "$work/fifo" 2> "$work/servers.log" &
servers=$!
exec 9> "$work/fifo"
while [ ! -e "$work/ready" ]; do
  kill -0 $servers 2> /dev/null || { cat "$work/servers.log" >&2; die "the servers did not start"; }
  sleep 0.1
done
read -r new old gopher < "$work/ready"
printf 'ftp://127.0.0.2:%s/\nftp://127.0.0.3:%s/\ngopher://127.0.0.4:%s/\n' "$new" "$old" "$gopher" > "$work/seeds.txt"

cat > "$work/tree.sh" << 'END'
work=${0%/*}
case $MERCATOR_EVENT in
begin) echo "begin $MERCATOR_TXN" >> "$MERCATOR_MODULE_DIR/log"; exit ;;
commit) sort >> "$MERCATOR_MODULE_DIR/log" ;;
esac
# The first fetch and the first commit with a URL kill mfetch, whose process is the first argument.
if grep -q hello "$MERCATOR_MODULE_DIR/log" || [ "$MERCATOR_EVENT" = fetch ]; then
  mkdir "$work/killed-$MERCATOR_EVENT" 2> /dev/null && kill -9 "$1"
fi
[ "$MERCATOR_EVENT" != fetch ] || printf 'Content-Type: text/plain\n\n%s at %s\n' "$2" "$MERCATOR_ADDR"
END
cat > "$work/crawl.toml" << END
seeds = ["$work/seeds.txt"]
schemes = ["http", "ftp", "gopher", "tree:7"]
[fetch]
exec = ["tree=sh $work/tree.sh \$PPID"]
exec_state = ["tree"]
[politeness]
min_delay = "0s"
delay_factor = 0.0
addr_delay = "0s"
[network]
allow_net = ["127.0.0.0/8"]
END

# --- the crawl --------------------------------------------------------------

crawl() {
  make -s -f "$here/mercator.mk" CRAWL="$work/crawl" CONFIG="$work/crawl.toml" INIT_FLAGS=-q SEED_FLAGS=-q NEXT_FLAGS=-q \
    RESOLVE_FLAGS=-q FETCH_FLAGS=-q MARK_FLAGS=-q EXTRACT_FLAGS='-q --duplicates' NEW_FLAGS=-q UPDATE_FLAGS=-q COMMIT_FLAGS=-q 9>&- > /dev/null
}
for event in fetch commit; do
  if crawl 2> "$work/killed.log"; then die "mfetch was not killed at $event"; fi
  [ -d "$work/killed-$event" ] || die "before $event: $(cat "$work/killed.log")"
done
crawl

# --- again, only what has changed ---------------------------------------------

touch -d 2001-02-03 "$site/a.txt"
"${BIN}mcat" "$work"/crawl/rounds/r*/fetched.arrows.zst |
  sed -n 's|.*"url":"\(ftp:[^"]*[^/"]\)".*"addr":"\([^"]*\)","etag":"\(.*\)","last_modified":"\([^"]\{1,\}\)".*"role":"page".*|{"url":"\1","addr":"\2","etag":"\3","last_modified":"\4","last_content_fp":"0000000000000001"}|p' |
  "${BIN}mcat" --from json --kind url > "$work/again.arrows.zst"
"${BIN}mfetch" create "$work/again" > /dev/null
"${BIN}mfetch" "$work/again" -q --allow-net 127.0.0.0/8 --min-delay 0s --delay-factor 0 --addr-delay 0s "$work/again.arrows.zst" -o "$work/changed.arrows.zst"
"${BIN}mcat" --format tsv --columns url,role,outcome,status,warc_record_length "$work/changed.arrows.zst" | awk -F '\t' '$2 == "page"' > "$work/changed.tsv"
exec 9>&-
wait $servers || true

[ "$(awk -F '\t' '$3 == "not-modified" && $4 == 304 && $5 == 0' "$work/changed.tsv" | wc -l)" = 12 ] || die "want 12 files not sent again: $(cat "$work/changed.tsv")"
[ "$(grep -c '/a\.txt	page	fetched	200	' "$work/changed.tsv")" = 2 ] && [ "$(wc -l < "$work/changed.tsv")" = 14 ] || die "want two files sent again: $(cat "$work/changed.tsv")"

"${BIN}mcat" --format tsv --columns url,outcome,status,body_length,error,role "$work"/crawl/rounds/r*/fetched.arrows.zst | awk -F '\t' '$6 == "page"' > "$work/rows.tsv"
bad=$(awk -F '\t' '!/^ftp:.*\/private\/	robots-denied/ && ($2 != "fetched" || $3 != 200 && $3 != 301)' "$work/rows.tsv")
[ -z "$bad" ] || die "not fetched: $bad"
[ "$(grep -c '^ftp:[^	]*/private/	robots-denied' "$work/rows.tsv")" = 2 ] || die "robots.txt does not hold over FTP"

# --- each file came, and came whole -----------------------------------------

(cd "$site" && find . -name private -prune -o -type f -printf '%s %P\n') | while read -r size path; do
  escaped=$(/usr/bin/python3 -c 'import sys, urllib.parse; print(urllib.parse.quote(sys.argv[1], safe="/-._~"))' "$path")
  for url in "ftp://127.0.0.2:$new/$escaped" "ftp://127.0.0.3:$old/$escaped"; do
    awk -F '\t' -v url="$url" -v size="$size" '$1 == url && $4 == size { n++ } END { exit n != 1 }' "$work/rows.tsv" || die "$url: want one row of $size bytes"
  done
done
# Gopher sends text with line ends of its own, and gophernicus escapes names in selectors.
grep '^gopher:[^	]*/[09]/\|^gopher:[^	]*/h/page' "$work/rows.tsv" > "$work/gopher.tsv" || true
[ "$(wc -l < "$work/gopher.tsv")" = "$(find "$site" -type f | wc -l)" ] || die "other files by gopher: $(cat "$work/gopher.tsv")"
grep -q '^gopher:[^	]*/9/sub/deep/large.bin	fetched	200	300000	' "$work/gopher.tsv" || die "gopher: large.bin is not whole"
grep -q '^gopher:[^	]*/0/sub/dots.txt	fetched	200	20	' "$work/gopher.tsv" || die "gopher: dots.txt is not as it was"
grep -q '^tree://127.0.0.5/hello	fetched	200	' "$work/rows.tsv" || die "the program's URL was not fetched"
[ "$(grep -c '^ftp://[^	]*/sub	fetched	301	' "$work/rows.tsv")" = 2 ] || die "a directory without slash is no redirect"
"${BIN}mfetch" audit "$work"/crawl/rounds/r*/fetched.arrows.zst > /dev/null
"${BIN}mcat" --check "$work"/crawl/fetch/*.warc.gz*
"${BIN}mckpt" verify -q "$work/crawl"

# --- the program's state counts each round, and each URL, once -----------------

"${BIN}mextract" state "$work/crawl/modules/tree" | tar xO log > "$work/tree.log"
[ "$(grep -c '^begin' "$work/tree.log")" = "$(find "$work/crawl/rounds" -name fetched.arrows.zst | wc -l)" ] && [ -z "$(grep '^begin' "$work/tree.log" | sort | uniq -d)" ] ||
  die "the program's rounds: $(cat "$work/tree.log")"
[ "$(grep -c '	url	tree://127.0.0.5/hello$' "$work/tree.log")" = 1 ] && [ "$(grep -c '	outcome	fetched$' "$work/tree.log")" = 1 ] || die "the program's URL: $(cat "$work/tree.log")"
[ -z "${VENV:-}" ] || "$VENV/bin/python" "$e2e/interop.py" documents "$work"/crawl/fetch/*.warc.gz*
echo "protocols: $(wc -l < "$work/rows.tsv") URLs by ftp, gopher and a program, each file whole"
