#!/bin/sh
# Makes a golden crawl: a few dozen pages of mweb, crawled by mercator.mk, with
# every file of it and the digests of what the files hold.
#
#   BIN=bin/ testdata/golden/make.sh testdata/golden/v1
#
# TestGolden reads, verifies and repeats the golden crawl, and compares digests
# of rows, never of compressed bytes. It shows that a change leaves the formats as
# they are. The crawl of a release stays: when a format gets another version number,
# the next release's stands beside it, and TestUpgrade continues each.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
: "${BIN:=}"
case $BIN in */*) BIN=$(cd "$BIN" && pwd)/ ;; esac
export BIN
dir=$1
[ ! -e "$dir" ] || { echo "make.sh: $dir exists; remove it first" >&2; exit 1; }
mkdir -p "$dir"

hold=$(mktemp -d)
trap 'rm -rf "$hold"' EXIT
trap 'exit 130' INT TERM
mkfifo "$hold/fifo"
"${BIN}mweb" serve --seed 9 --hosts 3 --pages 24 --ready "$hold/web.json" --until-stdin-closes < "$hold/fifo" > /dev/null &
exec 9> "$hold/fifo" # the web ends when this script does
while [ ! -e "$hold/web.json" ]; do sleep 0.1; done
json() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$hold/web.json"; }
"${BIN}mweb" seeds --seed 9 --hosts 3 --pages 24 --port "$(json port)" > "$hold/seeds.txt"

# Failed URLs are tried again at once, and batches are cut short now and then.
make -s -f "$here/../../pipelines/mercator.mk" CRAWL="$dir/crawl" SEEDS="$hold/seeds.txt" BATCH=30 ROUNDS=6 \
  INIT_FLAGS=--quiet NEXT_FLAGS=--quiet RESOLVE_FLAGS="--quiet --server $(json dns)" \
  POLITENESS_FLAGS='--for 0 --min-delay 0 --delay-factor 0 --addr-delay 0' FETCH_FLAGS='--quiet --allow-net 127.0.0.0/8 --max-bytes 100K' \
  UPDATE_FLAGS='--quiet --max-attempts 2 --retry-delay 0s' 9>&-
"${BIN}mckpt" gc --quiet --keep 2 "$dir/crawl"
"$here/digest.sh" "$dir/crawl" > "$dir/digests"
