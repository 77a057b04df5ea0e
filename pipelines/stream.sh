#!/bin/sh
# A Mercator crawl, each round one pipe in which all stages run at once.
#
#   CRAWL=crawl SEEDS=seeds.txt CONTACT=you@example.org stream.sh
#
# Runs rounds until the frontier is empty, but for parked URLs, or ROUNDS is reached (ROUNDS=1: one).
# Interrupt or kill it, or any command of it, at any moment; the same command
# again goes on where it was, once what it left running has ended. No pipefail is
# needed: a stage that dies leaves the stream without its trailer, so the last
# stage of the pipe does not commit.
#
# A walk (POLICY=walk) goes by both seen-tests, and needs ROUNDS, as in mercator.mk;
# a crawl of policy revisit goes on without it until it is interrupted.
#
# Variables as in mercator.mk, some of which win over the crawl folder's
# crawl.toml: CRAWL SEEDS CONFIG CONTACT ROUNDS BATCH POLICY BIN
# CHECKPOINT_INTERVAL, POLITENESS_FLAGS and the other *_FLAGS.
set -u
: "${CRAWL:=crawl}" "${SEEDS:=}" "${CONFIG:=}" "${CONTACT:=}" "${ROUNDS:=}" "${BATCH:=}" "${POLICY:=}" "${BIN:=}"
export BIN
: "${CHECKPOINT_INTERVAL:=}"
: "${POLITENESS_FLAGS:=}" "${INIT_FLAGS:=}" "${SEED_FLAGS=--strict}" "${NEXT_FLAGS:=}" "${RESOLVE_FLAGS:=}" "${FETCH_FLAGS:=}" "${MARK_FLAGS:=}"
: "${EXTRACT_FLAGS:=}" "${NEW_FLAGS:=}" "${UPDATE_FLAGS:=}" "${COMMIT_FLAGS:=}"

# A command that was killed says nothing itself.
fail() {
  echo "stream.sh: $1 failed (exit status $2)" >&2
  exit "$2"
}
show() { "${BIN}mckpt" show "$CRAWL" "$@"; }

# The *_FLAGS are lists of words, and are split as such on purpose.
# shellcheck disable=SC2086
seed() {
  "${BIN}murlset" new "$CRAWL/urls" --txn seed --text --copy "$CRAWL/rounds/seed/new.arrows.zst" $SEED_FLAGS $SEEDS |
    "${BIN}mfrontier" add "$CRAWL/frontier" --txn seed &&
    "${BIN}mckpt" commit --quiet "$CRAWL" --txn seed
}

# What became of the next batch, and the links of its pages.
# shellcheck disable=SC2086
contact() {
  r=$1; shift
  "${BIN}mfrontier" next "$CRAWL/frontier" --txn "$r" ${BATCH:+-n "$BATCH"} $POLITENESS_FLAGS $NEXT_FLAGS |
    "${BIN}mresolve" "$CRAWL/dns" --txn "$r" $RESOLVE_FLAGS |
    "${BIN}mfetch" "$CRAWL/fetch" --txn "$r" ${CONTACT:+--contact "$CONTACT"} $POLITENESS_FLAGS $FETCH_FLAGS "$@"
}

# shellcheck disable=SC2086
links() {
  "${BIN}mextract" --warc "$CRAWL/fetch" --txn "$1" --copy "$d/links.arrows.zst" ${modules:+--modules "$d/modules.arrows.zst"} $EXTRACT_FLAGS
}

# shellcheck disable=SC2086
round() {
  d=$CRAWL/rounds/$1
  mkdir -p "$d" && epoch=$(show --epoch) && rm -f "$d"/epoch.* && : > "$d/epoch.$epoch" || return
  for name in BATCH POLITENESS_FLAGS NEXT_FLAGS MARK_FLAGS EXTRACT_FLAGS NEW_FLAGS UPDATE_FLAGS; do # for replay.mk
    eval "value=\$$name"
    [ -z "$value" ] || printf '%s=%s\n' "$name" "$value"
  done > "$d/flags" || return
  modules=$(show --setting extract.modules) || return
  if [ "$policy" = walk ]; then
    contact "$1" --copy "$d/fetched.arrows.zst" |
      links "$1" |
      "${BIN}mfrontier" update "$CRAWL/frontier" --txn "$1" $UPDATE_FLAGS --outcomes "$d/fetched.arrows.zst"
  else
    contact "$1" |
      "${BIN}mfpset" mark "$CRAWL/content" --txn "$1" --copy "$d/marked.arrows.zst" $MARK_FLAGS |
      links "$1" |
      "${BIN}murlset" new "$CRAWL/urls" --txn "$1" $NEW_FLAGS |
      "${BIN}mfrontier" update "$CRAWL/frontier" --txn "$1" $UPDATE_FLAGS \
        --outcomes "$d/marked.arrows.zst" --links "$d/links.arrows.zst"
  fi &&
    "${BIN}mckpt" commit --quiet "$CRAWL" --txn "$1" ${CHECKPOINT_INTERVAL:+--interval "$CHECKPOINT_INTERVAL"} $COMMIT_FLAGS &&
    totals=$("${BIN}mfrontier" stat "$CRAWL/frontier") || return
  echo "$totals" |
    awk -v r="$1" '/^pending/ { waiting = $2 } /^finished/ { done = $2 } END { printf "%s: %d URLs finished, %d waiting\n", r, done, waiting }'
}

if [ "${1:-}" != held ]; then # no other driver of this crawl may run, nor what one has left
  if [ ! -e "$CRAWL/CURRENT" ]; then
    for file in $SEEDS; do
      [ "$file" = - ] || [ -r "$file" ] || { echo "stream.sh: $file: no file of seed URLs here" >&2; exit 2; }
    done
    # shellcheck disable=SC2086
    "${BIN}mckpt" init "$CRAWL" ${CONFIG:+--config "$CONFIG"} ${POLICY:+--policy "$POLICY"} $INIT_FLAGS || fail "mckpt init" $?
  fi
  exec "${BIN}mckpt" hold "$CRAWL" sh "$0" held
fi
policy=$(show --param frontier.policy) || fail "mckpt show" $?
[ -z "$POLICY" ] || [ "$policy" = "$POLICY" ] || {
  echo "stream.sh: $CRAWL is a crawl of policy $policy, which cannot change: for POLICY=$POLICY give another folder with CRAWL=" >&2
  exit 2
}
n=$(show --next-round) || fail "mckpt show" $?
if [ "$n" = 0 ]; then
  [ -n "$SEEDS" ] || SEEDS=$(show --setting seeds) || fail "mckpt show" $?
  [ -n "$SEEDS" ] || { echo 'stream.sh: name a file of seed URLs: SEEDS=seeds.txt, or seeds in crawl.toml' >&2; exit 2; }
  seed || fail "putting the seeds in" $?
fi
n=$("$(dirname "$0")/stale.sh" "$CRAWL") || fail stale.sh $?
[ -n "$ROUNDS" ] || ROUNDS=$(show --setting rounds) || fail "mckpt show" $?
if [ "${ROUNDS:=0}" -eq 0 ] && [ "$policy" = walk ]; then
  echo 'stream.sh: a walk has no end: say how many rounds, ROUNDS=50, or rounds in crawl.toml' >&2
  exit 2
fi
while [ "$ROUNDS" -eq 0 ] || [ "$n" -le "$ROUNDS" ]; do
  "${BIN}mfrontier" stat --empty "$CRAWL/frontier"
  case $? in
    0) echo "stream.sh: the frontier is empty after round $((n - 1))"; exit 0 ;;
    6) ;;
    *) fail "mfrontier stat" $? ;;
  esac
  round "r$n" || fail "round r$n" $?
  n=$((n + 1))
done
echo "stream.sh: stopped after round $((n - 1))"
