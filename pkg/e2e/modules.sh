#!/bin/sh
# Programs of Debian as processing modules.
#
#   make modules
#
# Crawls a small mweb with tidy as a module that keeps state (module-tidy.sh), and
# demands that its totals are those of the rounds' findings, and the findings of each
# saved page those that tidy has of it by hand. Then catdoc reads the text of a
# word processor's file.
#
# Between the two it crawls the same web with SQLite as both seen-tests (stage-seen.py) and an order
# of its own (stage-order.py), kills that crawl, and demands the same URLs with the same outcomes.
#
# Needs Debian's tidy and catdoc, and python3.
set -eu
here=$(cd "$(dirname "$0")/../../pipelines" && pwd)
if [ -z "${BIN+x}" ]; then
  BIN=$here/../bin/
  [ -x "${BIN}mfetch" ] || BIN=
fi
export BIN

work=$(mktemp -d)
trap 'exec 9>&-; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
die() { echo "modules.sh: $*" >&2; exit 1; }
for tool in tidy catdoc python3; do
  command -v $tool > /dev/null || die "$tool is not there"
done

# --- a crawl with tidy ------------------------------------------------------

mkfifo "$work/fifo"
"${BIN}mweb" serve --seed 3 --hosts 2 --pages 20 --ready "$work/web.json" --until-stdin-closes < "$work/fifo" > /dev/null &
web=$!
exec 9> "$work/fifo"
while [ ! -e "$work/web.json" ]; do
  kill -0 $web 2> /dev/null || die "mweb did not start"
  sleep 0.1
done
dns=$(sed 's/.*"dns":"\([^"]*\)".*/\1/' "$work/web.json")
port=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$work/web.json")
"${BIN}mweb" seeds --seed 3 --hosts 2 --pages 20 --port "$port" > "$work/seeds.txt"
cat > "$work/crawl.toml" <<EOF
seeds = ["$work/seeds.txt"]
batch = 15
[frontier]
max_attempts = 1
[politeness]
min_delay = "0s"
delay_factor = 0
addr_delay = "0s"
[network]
allow_net = ["127.0.0.0/8"]
[resolve]
servers = ["$dns"]
[extract]
modules = ["page", "tidy=text/html:$here/module-tidy.sh"]
module_state = ["tidy"]
EOF
{ "${BIN}mcrawl" new -q "$work/crawl" --config "$work/crawl.toml" && "${BIN}mcrawl" run "$work/crawl"; } 9>&- > /dev/null 2> "$work/log" || { cat "$work/log" >&2; die "the crawl failed"; }

# --- the same with stages of one's own ---------------------------------------

sed '/^\[extract\]/,$d; s/^\[frontier\]/&\nqueues = 3\nstrict = true/' "$work/crawl.toml" > "$work/own.toml"
cat >> "$work/own.toml" <<EOF
[stages]
seen = "python3 $here/stage-seen.py"
content = "python3 $here/stage-seen.py content"
new = "python3 $here/stage-order.py"
EOF
"${BIN}mcrawl" new -q "$work/own" --config "$work/own.toml"
for after in 0.5 1 2; do timeout -s KILL $after "${BIN}mcrawl" run "$work/own" 9>&- > /dev/null 2>&1 || true; done
"${BIN}mcrawl" run "$work/own" 9>&- > /dev/null 2> "$work/log" || { cat "$work/log" >&2; die "the crawl with stages of its own failed"; }
"${BIN}mckpt" verify "$work/own" > /dev/null 2> "$work/log" || { cat "$work/log" >&2; die "its state is damaged"; }
grep -q 'own/urls: the state of a program' "$work/log" || die "mckpt verify does not say what it cannot read"
outcomes() {
  "${BIN}mcat" --format tsv --columns url,outcome,status,role "$1"/rounds/r*/marked.arrows.zst | grep 'page$' | grep -v deferred | LC_ALL=C sort
}
outcomes "$work/crawl" > "$work/want"
outcomes "$work/own" | cmp - "$work/want" || die "with stages of its own the crawl found something else"
"${BIN}mextract" state "$work/own/urls" | tar xO seen.db > "$work/seen.db"
n=$(python3 -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM seen").fetchone())' "$work/seen.db")
[ "$n" -eq "$(wc -l < "$work/want")" ] || die "the table has $n URLs, the crawl $(wc -l < "$work/want")"
echo "stages    $n URLs by SQLite, in an order of their own, with three kills: outcomes as with mercator's sets"
exec 9>&-
wait $web

tab=$(printf '\t')
for f in "$work"/crawl/rounds/r*/modules.arrows.zst; do
  "${BIN}mcat" --format tsv --columns module,key,value,url_key "$f"
done | grep "^tidy$tab" > "$work/findings"
cut -f 2,3 "$work/findings" | LC_ALL=C sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\2'"$tab"'\1/' | LC_ALL=C sort > "$work/want"
"${BIN}mextract" state "$work/crawl/modules/tidy" | tar xO totals > "$work/totals"
cmp "$work/want" "$work/totals" || die "the totals are not those of the findings"

# The same pages once more: from the archive, one module, other threads.
"${BIN}mcat" --quiet --format arrow "$work"/crawl/rounds/r*/marked.arrows.zst |
  "${BIN}mextract" -q -@ 7 --warc "$work/crawl/fetch" --modules "$work/again" --module "tidy=text/html:$here/module-tidy.sh" > /dev/null
"${BIN}mcat" --format tsv --columns module,key,value,url_key "$work/again" | grep "^tidy$tab" | cmp - "$work/findings" ||
  die "repeated by hand, the findings differ"
[ -s "$work/totals" ] || die "tidy found nothing"
echo "tidy      $(wc -l < "$work/findings") complaints on $(cut -f 4 "$work/findings" | sort -u | wc -l) pages; the totals of the whole crawl are their sums"

# --- catdoc -----------------------------------------------------------------

text='{\rtf1\ansi Written by a {\b word processor}.\par}'
printf 'WARC/1.1\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\nWARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: http://example.org/a.doc\r\nContent-Type: application/msword\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n' \
  ${#text} "$text" > "$work/doc.warc"
"${BIN}mextract" -q "$work/doc.warc" --modules "$work/doc" --module "text-of-doc=application/msword:catdoc -d utf-8" > /dev/null
"${BIN}mcat" --format tsv --columns value "$work/doc" | grep -q 'Written by a word processor' || die "catdoc gave no text"
echo "catdoc    reads what the module text does not"
