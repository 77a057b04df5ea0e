#!/bin/sh
# Keeps under rounds/ the stage files of the rounds that count: moves those of
# rounds that abandon or restore has undone to rounds/undone/rN.EPOCH, so that no
# later round takes them for its own, and puts back those of rounds that a later
# restore has taken again. Prints the number of the next round.
#
#   stale.sh CRAWL
#
# rounds/rN/epoch says in which epoch of the crawl the files were made.
set -eu
: "${BIN:=}"
rounds=$1/rounds
epoch=$("${BIN}mckpt" show --epoch "$1")
next=$("${BIN}mckpt" show --next-round "$1")

aside() { # FOLDER
  to=$rounds/undone/${1##*/}.$(cat "$1/epoch" 2> /dev/null || echo unknown)
  rm -rf "$to" # files of the same round and epoch, which it made again
  mkdir -p "$rounds/undone" && mv "$1" "$to"
}

for d in "$rounds"/r[0-9]*; do
  n=${d##*/r}
  if [ -d "$d" ] && [ "$n" -ge "$next" ] && [ "$(cat "$d/epoch" 2> /dev/null)" != "$epoch" ]; then
    aside "$d"
  fi
done

# The rounds closed by the checkpoints from which the crawl goes on, and their epochs.
"${BIN}mckpt" list "$1" | awk '
  { if ($1 == "*") { at = $2; sub(/^\* */, "") } round[$1] = $2; after[$1] = $4; epoch[$1] = $5 }
  END { for (; at > 0 && at in round; at = after[at]) if (round[at] ~ /^r[0-9]+$/) print round[at], epoch[at] }' |
  while read -r r e; do
    d=$rounds/$r
    if [ "$(cat "$d/epoch" 2> /dev/null || echo "$e")" != "$e" ]; then
      aside "$d"
    fi
    if [ ! -e "$d" ] && [ -d "$rounds/undone/$r.$e" ]; then
      mv "$rounds/undone/$r.$e" "$d"
    fi
  done

echo "$next"
