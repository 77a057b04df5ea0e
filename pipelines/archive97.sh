#!/bin/sh
# A crawl as the Internet Archive's crawler of 1997 made it: each crawler has up to 64 sites of its own, links between
# sites are logged, and a batch process makes seeds of them. The page archive97.md says what differs, and why.
#
#   archive97.sh archive seeds.txt
#
# Runs periods until no crawler has a seed left. Interrupt or kill it at any moment; the same command again goes on where it was.
# In the folder: sites.txt (all sites; the first SITES of them belong to crawler 000, and so on), crawlers/000 (a
# crawl folder of mcrawl for each crawler), merged (the cross-site URLs that became seeds), periods/N (a merge: its logs, the new
# URLs, and seeds for each crawler).
#
# Variables (all can stand in the environment):
#   SITES      sites of a crawler, fixed when the folder is made [64]     CONTACT  operator's address, for the User-Agent
#   PROCESSES  crawlers that run at a time [4]          BLOOM    size of each crawler's Bloom filter [2M]
#   FILTER     rules for links [default]                SET      more settings of crawl.toml: "key=value key=value"
#   PERIODS    stop after period N [0: when no seed is left]
#   BIN        folder of the commands, with a trailing slash [from PATH]
set -eu
: "${BIN:=}" "${SITES:=64}" "${PROCESSES:=4}" "${PERIODS:=0}" "${BLOOM:=2M}" "${FILTER=default}" "${CONTACT:=}" "${SET:=}"
die() { echo "archive97.sh: $1" >&2; [ -z "${2:-}" ] || echo "archive97.sh: hint: $2" >&2; exit 2; }
# --help prints the comment above.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
[ $# -ge 1 ] || die 'no folder, want a folder and files of seed URLs' 'archive97.sh archive seeds.txt'
for v in "SITES=$SITES" "PROCESSES=$PROCESSES"; do
  case ${v#*=} in '' | 0* | *[!0-9]*) die "$v, want a number from 1 on" ;; esac
done
dir=$1; shift
if [ -e "$dir/CURRENT" ] || [ -e "$dir/crawl.toml" ]; then die "$dir: a crawl of mcrawl, want a new folder or one of archive97.sh"; fi
z=arrows.zst

if [ ! -e "$dir/sites.txt" ]; then
  [ $# -ge 1 ] || die "$dir: no crawl yet and no seeds, want files of seed URLs" "archive97.sh $dir seeds.txt"
  mkdir -p "$dir/crawlers" "$dir/periods/1"
  "${BIN}murlset" create --quiet "$dir/merged"
  "${BIN}murlset" new --quiet "$dir/merged" --txn p1 --text --strict "$@" -o "$dir/periods/1/new.$z"
  : > "$dir/periods/1/urls.txt"
  # Crawlers ask "cross" first, whatever FILTER allows; the logged links are judged by FILTER alone.
  echo 'deny cross: not same-host' > "$dir/filter.txt"
  [ -z "$FILTER" ] || { echo "include $FILTER" > "$dir/rules.txt"; echo 'include rules.txt' >> "$dir/filter.txt"; }
  echo "$SITES" > "$dir/sites"
  : > "$dir/sites.txt"
elif [ $# -gt 0 ]; then
  for f in "$@"; do [ -e "$f" ] || [ "$f" = - ] || echo "archive97.sh: $f: no such file" >&2; done
  echo "archive97.sh: $dir: a crawl that has its seeds already: not read: $*" >&2
fi
dir=$(cd "$dir" && pwd)
[ "$(cat "$dir/sites")" = "$SITES" ] || die "$dir: $(cat "$dir/sites") sites a crawler, and SITES=$SITES" "SITES=$(cat "$dir/sites") archive97.sh $dir"

# Batch process, first half: the cross-site URLs that crawlers have logged since the period before.
collect() {
  [ -e "$p/urls.txt" ] && return
  find "$dir/crawlers" -path '*/rounds/r*/refused.arrows.zst' | LC_ALL=C sort > "$p/all.txt"
  cat "$dir"/periods/*/logs.txt 2> /dev/null | LC_ALL=C sort | LC_ALL=C comm -23 "$p/all.txt" - > "$p/logs.part"
  : > "$p/urls.part"
  if [ -s "$p/logs.part" ]; then
    tr '\n' '\0' < "$p/logs.part" | xargs -0 "${BIN}mcat" --quiet --format tsv --columns refused,url,link_kind,depth,src_url > "$p/logged.tsv"
    awk -F '\t' 'NR == 1 || $1 == "filter:cross"' "$p/logged.tsv" | cut -f 2- > "$p/cross.tsv"
    "${BIN}mcat" --quiet --from tsv --kind link -o "$p/cross.$z" "$p/cross.tsv"
    set --; [ ! -s "$dir/rules.txt" ] || set -- --filter "$dir/rules.txt"
    "${BIN}mextract" resolve --quiet "$@" -o "$p/wanted.$z" "$p/cross.$z"
    "${BIN}mcat" --quiet --format tsv --columns url "$p/wanted.$z" > "$p/wanted.tsv"
    sed 1d "$p/wanted.tsv" | LC_ALL=C sort -u > "$p/urls.part"
  fi
  sync
  mv "$p/urls.part" "$p/urls.txt"
  mv "$p/logs.part" "$p/logs.txt"
  rm -f "$p/logged.tsv" "$p/cross.tsv" "$p/cross.$z" "$p/wanted.$z" "$p/wanted.tsv" "$p/all.txt"
}

# Second half: those that were never merged before become seeds of their sites. A new site goes to the last
# crawler that has room, or to a new one.
merge() {
  [ -e "$p/new.$z" ] || "${BIN}murlset" new --quiet "$dir/merged" --txn "p$n" --text "$p/urls.txt" -o "$p/new.$z"
  "${BIN}mcat" --format tsv --columns host,url "$p/new.$z" > "$p/new.tsv"
  rm -f "$p"/seeds-*.txt
  awk -F '\t' -v sites="$SITES" -v known="$dir/sites.txt" -v all="$p/sites.part" -v prefix="$p/seeds-" '
    function own(site) { of[site] = int(count / sites); count++; print site > all }
    BEGIN { printf "" > all; while ((getline site < known) > 0) own(site) }
    FNR > 1 {
      if (!($1 in of)) own($1)
      file = prefix sprintf("%03d", of[$1]) ".txt"
      if (file != open) { if (open) close(open); open = file }
      print $2 >> file
    }' "$p/new.tsv"
  sync
  mv "$p/sites.part" "$dir/sites.txt"
}

# A crawler: reads its seeds from disk into queues of its sites, fetches from them in parallel, queues links to the page's
# own site, and logs the others. Its URL-seen test is a Bloom filter.
seeds() {
  for f in "$p"/seeds-*.txt; do
    [ -e "$f" ] || continue
    k=${f##*/seeds-}; k=${k%.txt}
    if [ ! -e "$dir/crawlers/$k/CURRENT" ]; then
      set -- --set sets.urls=bloom --set "sets.bloom_size=$BLOOM" --set "extract.filter=$dir/filter.txt" --set fetch.connections=64
      for s in $SET; do set -- "$@" --set "$s"; done
      "${BIN}mcrawl" new --quiet "$dir/crawlers/$k" --policy fifo --seeds "$f" ${CONTACT:+--contact "$CONTACT"} "$@"
    else
      "${BIN}mcrawl" add --quiet "$dir/crawlers/$k" -f "$f" > /dev/null
    fi
    printf '%s\0' "$dir/crawlers/$k" >> "$p/crawlers.part"
  done
  sync
  mv "$p/crawlers.part" "$p/crawlers"
}

# A crawler all of whose sites are dead fails at its end. That is no reason to stop; another failure is.
ended() {
  tr '\0' '\n' < "$p/crawlers" | while IFS= read -r c; do
    open=$("${BIN}mckpt" show "$c" --open-rounds) && [ -z "$open" ] && "${BIN}mfrontier" stat --json "$c/frontier" | grep -q '^ *"pending": 0,' || exit 1
  done || { echo "archive97.sh: a crawler failed; the same command goes on" >&2; exit 1; }
}

# A crawl at its end that fetched nothing is a failure.
anything() {
  [ -n "$(find "$dir/crawlers" -path '*/rounds/r*/marked.arrows.zst' -exec "${BIN}mcat" --quiet --format tsv --columns role,outcome {} + |
    awk '$1 == "page" && ($2 == "fetched" || $2 == "not-modified") { print; exit }')" ] || {
    echo "archive97.sh: $dir: the crawl is at its end, and nothing was fetched" >&2
    echo "archive97.sh: hint: \"mcrawl status $dir/crawlers/000\" says why" >&2
    exit 1
  }
}

n=1
while :; do
  p=$dir/periods/$n
  if [ ! -e "$p/done" ]; then
    mkdir -p "$p"
    collect
    [ -e "$p/crawlers" ] || { merge; : > "$p/crawlers.part"; seeds; }
    if [ ! -s "$p/crawlers" ]; then anything; break; fi
    xargs -0 -n 1 -P "$PROCESSES" "${BIN}mcrawl" run --quiet < "$p/crawlers" > /dev/null || ended
    touch "$p/done"
    echo "archive97.sh: period $n: $(($(wc -l < "$p/new.tsv") - 1)) seeds, $(wc -l < "$dir/sites.txt") sites, $(ls "$dir/crawlers" | wc -l) crawlers" >&2
  fi
  [ "$PERIODS" -eq 0 ] || [ $n -lt "$PERIODS" ] || break
  n=$((n + 1))
done
echo "archive97.sh: stopped after period $n" >&2
