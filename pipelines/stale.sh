#!/bin/sh
# Keeps under rounds/ the stage files of the rounds that count: moves those of
# rounds that abandon or restore has undone to rounds/undone/rN.EPOCH, so that no
# later round takes them for its own, and puts back those of rounds that a later
# restore has taken again. Prints the number of the next round.
#
#   stale.sh CRAWL
#
# rounds/rN/epoch.E, empty, says that the files were made in epoch E of the crawl.
set -eu
: "${BIN:=}"
rounds=$1/rounds
epoch=$("${BIN}mckpt" show --epoch "$1")
next=$("${BIN}mckpt" show --next-round "$1")

made_in() { # FOLDER UNKNOWN: prints the epoch in which its files were made
  e=
  for f in "$1"/epoch.*; do [ ! -e "$f" ] || e=${f##*.}; done
  echo "${e:-$2}"
}

aside() { # FOLDER
  to=$rounds/undone/${1##*/}.$(made_in "$1" unknown)
  rm -rf "$to" # files of the same round and epoch, which it made again
  mkdir -p "$rounds/undone" && mv "$1" "$to"
  echo "stale.sh: $1: its files are not of the round that counts: moved to $to" >&2
}

for d in "$rounds"/r[0-9]*; do
  n=${d##*/r}
  if [ -d "$d" ] && [ "$n" -ge "$next" ] && [ "$(made_in "$d" unknown)" != "$epoch" ]; then
    aside "$d"
  fi
done

# The rounds closed by the checkpoints from which the crawl goes on, and their epochs.
list=$("${BIN}mckpt" list "$1")
closed=$(echo "$list" | awk '
  { if ($1 == "*") { at = $2; sub(/^\* */, "") } round[$1] = $2; after[$1] = $4; epoch[$1] = $5 }
  END { for (; at > 0 && at in round; at = after[at]) if (round[at] ~ /^r[0-9]+$/) print round[at], epoch[at] }')
echo "$closed" | while read -r r e; do
  d=$rounds/$r
  if [ -n "$r" ] && [ "$(made_in "$d" "$e")" != "$e" ]; then
    aside "$d"
  fi
  if [ -n "$r" ] && [ ! -e "$d" ] && [ -d "$rounds/undone/$r.$e" ]; then
    mv "$rounds/undone/$r.$e" "$d"
  fi
done

echo "$next"
