#!/bin/sh
# The focused crawler on WordNet as Debian has it.
#
#   make focus
#
# Compares senses, synonyms and kinds with what WordNet's own program wn says. Makes the
# topics of queries, in one go and under kills, by two processes at once, and demands that
# they are the same; and that memory is bounded. Crawls the paper's example, "Mouse", in one go and
# under kills, and demands three times the harvest of policy fifo.
#
# Needs Debian's wordnet, which brings wordnet-base.
set -eu
here=$(cd "$(dirname "$0")/../../pipelines" && pwd)
if [ -z "${BIN+x}" ]; then
  BIN=$here/../bin/
  [ -x "${BIN}mfocus" ] || BIN=
fi
export BIN
WORDNET=${WORDNET:-/usr/share/wordnet}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
die() { echo "focus.sh: $*" >&2; exit 1; }
command -v wn > /dev/null || die "wn is not there: apt-get install wordnet"

# --- senses, as wn has them -------------------------------------------------

(cd "$here/.." && MERCATOR_WORDNET=$WORDNET ${GO:-go} test -count=1 ./pkg/focus/words -run TestAgainstWN)

# --- the paper's query ------------------------------------------------------

"${BIN}mfocus" query Mouse | "${BIN}mfocus" words | "${BIN}mfocus" expand "$work/mouse.db" --dictionary "$WORDNET" > "$work/out" 2> "$work/log" || { cat "$work/log" >&2; die "Mouse failed"; }
"${BIN}mfocus" topics "$work/mouse.db" --topic mouse.n.01,mouse.n.04 -o "$work/mouse.jsonl"
# has TOPIC WORD: the topic has the word.
has() { grep -q "^{\"topic\":\"$1\".*{\"word\":\"$2\"," "$work/mouse.jsonl"; }
has mouse.n.01 rodent && has mouse.n.01 'field mouse' && has mouse.n.04 cursor && has mouse.n.04 'computer mouse' || die "a sense of Mouse lacks its words"
! has mouse.n.01 cursor && ! has mouse.n.04 rodent || die "the senses of Mouse are mixed"

# --- a model of them, and a text of each ------------------------------------

"${BIN}mfocus" train -o "$work/mouse.model" --topics "$work/mouse.jsonl"
# topic TEXT: what the model takes it for.
topic() { echo "$1" > "$work/text.txt"; "${BIN}mfocus" explain --model "$work/mouse.model" "$work/text.txt" | sed -n 's/^score .*, topic \([^,]*\), .*/\1/p'; }
t=$(topic "The wood mouse is a small rodent with large ears and a long tail. It lives in woods and fields.")
[ "$t" = mouse.n.01 ] || die "a text about rodents is of the topic '$t'"
t=$(topic "Move the mouse, and the cursor moves on the screen of the computer. Press the left button of the device.")
[ "$t" = mouse.n.04 ] || die "a text about the device is of the topic '$t'"
t=$(topic "The city council voted on Tuesday to raise the price of bus tickets. Commuters complained about late trains.")
[ "$t" = none ] || die "a text about neither is of the topic '$t'"

# --- kills, and two at once -------------------------------------------------

cat > "$work/queries" <<'END'
computer science
dogs and cats
the history of music
END
expand() { "${BIN}mfocus" expand -q "$1" --dictionary "$WORDNET" --depth 3 --words 500 --stats "$work/stats.$2" < "$work/queries" > "$work/out.$2" 2>> "$work/log"; }
expand "$work/once.db" 0
"${BIN}mfocus" topics "$work/once.db" > "$work/once.jsonl"
rss=$(sed -n 's/.*"peak_rss_bytes": \([0-9]*\).*/\1/p' "$work/stats.0")
[ "$rss" -le $((64 << 20)) ] || die "memory: $rss bytes, want at most 64 MiB"
kills=0
for wait in 0.02 0.05 0.1 0.15 0.2 0.3 0.4; do
  "${BIN}mfocus" expand -q "$work/killed.db" --dictionary "$WORDNET" --depth 3 --words 500 < "$work/queries" > /dev/null 2>> "$work/log" &
  one=$!
  sleep $wait
  kill -9 $one 2> /dev/null && kills=$((kills + 1))
  wait $one 2> /dev/null || true
done
[ $kills -gt 0 ] || die "nothing was killed"
expand "$work/killed.db" 1 & first=$!
expand "$work/killed.db" 2 & second=$!
wait $first && wait $second || { cat "$work/log" >&2; die "two at once failed"; }
"${BIN}mfocus" topics "$work/killed.db" | cmp - "$work/once.jsonl" || die "after $kills kills the topics are others"
echo "focus.sh: $(wc -l < "$work/once.jsonl") topics of $(wc -l < "$work/queries") queries, the same after $kills kills; $((rss >> 20)) MiB"

# --- the crawl --------------------------------------------------------------

(cd "$here/.." && MERCATOR_BIN=${BIN%/} MERCATOR_LONG=1 ${GO:-go} test -count=1 ./pkg/e2e -run 'TestMouse$')
SMALL=1 "$here/../bench/focus.sh"
