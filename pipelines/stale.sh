#!/bin/sh
# Moves the stage files of rounds that abandon or restore has undone to
# rounds/undone/rN.EPOCH, so that no later round takes them for its own. Prints the
# number of the next round.
#
#   stale.sh CRAWL
#
# rounds/rN/epoch says in which epoch of the crawl the files were made.
set -eu
: "${BIN:=}"
epoch=$("${BIN}mckpt" show --epoch "$1")
next=$("${BIN}mckpt" show --next-round "$1")
for d in "$1"/rounds/r[0-9]*; do
  n=${d##*/r}
  if [ -d "$d" ] && [ "$n" -ge "$next" ] && [ "$(cat "$d/epoch" 2> /dev/null)" != "$epoch" ]; then
    to=$1/rounds/undone/${d##*/}.$(cat "$d/epoch" 2> /dev/null || echo unknown)
    rm -rf "$to" # files of the same round and epoch, which it made again
    mkdir -p "$1/rounds/undone" && mv "$d" "$to"
  fi
done

echo "$next"
