#!/usr/bin/env bash
# The main job, as "make crawl" runs it: a whole crawl, checked, and a summary.
#
#   make crawl                                     the embedded web, to its end
#   make crawl SEEDS=seeds.txt CONTACT=you@x.org   the addresses in seeds.txt
#   make crawl POLICY=walk ROUNDS=20               by another policy, for so many rounds
#
# Without SEEDS it starts mweb (about 50 hosts, some thousand pages) on loopback,
# crawls it with mercator.mk, and compares what was fetched with mweb's oracle: a
# crawl that has come to its end must have found all that there is, each URL with its
# outcome; one that stopped before (ROUNDS=), or that has no end, nothing else.
# Run again after an interruption it goes on; CRAWL= names the folder [crawl].
# SEED=, HOSTS= and PAGES= choose another web. Other variables: see mercator.mk.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${BIN+x}" ]; then
  # The commands beside this script, where it stands in the source, else those in PATH.
  BIN=
  if [ -x "$here/../bin/mfetch" ] && [ -e "$here/../go.mod" ]; then
    BIN=$(cd "$here/.." && pwd)/bin/
    [ "$BIN" != "$PWD/bin/" ] || BIN=bin/
  fi
fi
: "${CRAWL:=crawl}" "${SEEDS:=}" "${CONTACT:=}" "${CONFIG:=}" "${SEED:=1}" "${HOSTS:=50}" "${PAGES:=3000}"
: "${POLITENESS_FLAGS:=}" "${FETCH_FLAGS:=}" "${RESOLVE_FLAGS:=}" "${UPDATE_FLAGS:=}"
export BIN CRAWL SEEDS CONTACT CONFIG POLITENESS_FLAGS FETCH_FLAGS RESOLVE_FLAGS UPDATE_FLAGS
mcat=${BIN}mcat
begun=0 # the number of the next round: 0 before the seeds
if [ -e "$CRAWL/CURRENT" ]; then
  begun=$("${BIN}mckpt" show --next-round "$CRAWL")
fi
for file in $SEEDS; do
  [ "$begun" != 0 ] || [ -r "$file" ] || { echo "crawl.sh: $file: no file of seed URLs here" >&2; exit 2; }
done

json() { # the value of a key in the one-line object that mweb prints
  sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$2"
}

# What a crawl folder was begun with, so that it is not taken up with something else.
same() { # same FILE TEXT WHAT
  if [ "$begun" != 0 ] && [ -e "$1" ] && [ "$(cat "$1")" != "$2" ]; then
    echo "crawl.sh: $CRAWL holds a crawl of other $3: name another folder with CRAWL=" >&2
    [ "$3" != seeds ] || echo "crawl.sh: or add URLs to it, and go on without SEEDS=:
  ${BIN}murlset new $CRAWL/urls --txn more --text $SEEDS | ${BIN}mfrontier add $CRAWL/frontier --txn more && ${BIN}mckpt commit $CRAWL --txn more" >&2
    exit 2
  fi
  mkdir -p "$CRAWL"
  printf '%s\n' "$2" > "$1"
}
if [ -n "$SEEDS" ]; then
  if [ "$begun" != 0 ] && [ -e "$CRAWL/web.json" ]; then
    echo "crawl.sh: $CRAWL holds a crawl of the embedded web: name another folder with CRAWL=" >&2
    exit 2
  fi
  # shellcheck disable=SC2086 # a list of files
  seeds=$(cat $SEEDS)
  same "$CRAWL/seeds.txt" "$seeds" seeds
  rm -f "$CRAWL/web.json"
fi

embedded=
if [ -z "$SEEDS" ] && { [ "$begun" = 0 ] || [ -e "$CRAWL/web.json" ]; }; then
  embedded=1
  same "$CRAWL/web.txt" "seed $SEED, $HOSTS hosts, $PAGES pages" "seed, hosts or pages"
  # URLs hold the port: a crawl that is taken up again needs the same one.
  port=0
  if [ -e "$CRAWL/web.json" ]; then
    port=$(json port "$CRAWL/web.json")
  fi
  hold=$(mktemp -d)
  trap 'rm -rf "$hold"' EXIT
  trap 'exit 130' INT TERM
  mkfifo "$hold/fifo"
  "${BIN}mweb" serve --seed "$SEED" --hosts "$HOSTS" --pages "$PAGES" --port "$port" \
    --ready "$hold/web.json" --until-stdin-closes < "$hold/fifo" > /dev/null &
  web=$!
  exec 9> "$hold/fifo" # the web ends when this script does, however it ends
  while [ ! -e "$hold/web.json" ]; do
    kill -0 $web 2> /dev/null || { echo "crawl.sh: the embedded web did not start" >&2; exit 1; }
    sleep 0.1
  done
  cp "$hold/web.json" "$CRAWL/web.json"
  port=$(json port "$CRAWL/web.json")
  "${BIN}mweb" seeds --seed "$SEED" --hosts "$HOSTS" --pages "$PAGES" --port "$port" > "$CRAWL/seeds.txt"
  SEEDS=$CRAWL/seeds.txt
  RESOLVE_FLAGS="$RESOLVE_FLAGS --server $(json dns "$CRAWL/web.json")"
  FETCH_FLAGS="$FETCH_FLAGS --allow-net 127.0.0.0/8"
  POLITENESS_FLAGS="$POLITENESS_FLAGS --min-delay 20ms --delay-factor 0 --addr-delay 0"
  UPDATE_FLAGS="$UPDATE_FLAGS --max-attempts 1" # its errors are for good: trying again later is of no use
  echo "The embedded web: seed $SEED, $HOSTS hosts on 127.0.0.0/8, port $port."
fi

began=$(date +%s)
"${MAKE:-make}" --no-print-directory -f "$here/mercator.mk" crawl 9>&- || exit 1
seconds=$(($(date +%s) - began))
[ "$begun" -le 1 ] || seconds=0 # the rate of a part would mislead

set -- "$CRAWL"/rounds/r*/marked.arrows.zst
[ -e "$1" ] || set -- "$CRAWL"/rounds/r*/fetched.arrows.zst # a walk
[ -e "$1" ] || { echo "crawl.sh: no round was finished" >&2; exit 1; }
status=0
if [ -n "$embedded" ]; then
  # What was put off has no outcome yet; what had not changed is there as it was.
  "$mcat" --format tsv --columns url,outcome,status,role "$@" |
    awk -F '\t' -v OFS='\t' '$2 == "not-modified" { $2 = "fetched"; $3 = 200 } $4 == "page" && $2 != "deferred" { print $1, $2, $3 }' |
    LC_ALL=C sort > "$CRAWL/found.tsv"
  "${BIN}mweb" oracle --seed "$SEED" --hosts "$HOSTS" --pages "$PAGES" --port "$port" | LC_ALL=C sort > "$CRAWL/oracle.tsv"
  ended=0
  "${BIN}mfrontier" stat --empty "$CRAWL/frontier" || ended=$?
  [ $ended = 0 ] || [ $ended = 6 ] || exit 1
  echo
  if [ $ended = 0 ] && cmp -s "$CRAWL/oracle.tsv" "$CRAWL/found.tsv"; then
    echo "The crawl equals the oracle: $(wc -l < "$CRAWL/found.tsv") URLs, each with its outcome."
  elif [ $ended = 6 ] && [ -s "$CRAWL/found.tsv" ] && LC_ALL=C sort -u "$CRAWL/found.tsv" | LC_ALL=C comm -23 - "$CRAWL/oracle.tsv" | cmp -s - /dev/null; then
    echo "The crawl is not at its end. Its $(wc -l < "$CRAWL/found.tsv") visits, of $(LC_ALL=C sort -u "$CRAWL/found.tsv" | wc -l) URLs, had the outcomes that the oracle says; it knows $(wc -l < "$CRAWL/oracle.tsv") URLs."
  else
    echo "The crawl differs from the oracle (< oracle, > crawl):"
    diff "$CRAWL/oracle.tsv" "$CRAWL/found.tsv" | { [ $ended = 0 ] && cat || grep '^>'; } | head -20 || true
    status=1
  fi
fi
"$here/summary.sh" "$CRAWL" "$seconds"
exit $status
