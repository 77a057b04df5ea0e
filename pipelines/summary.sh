#!/usr/bin/env bash
# Prints what a crawl did, from its records.
#
#   summary.sh CRAWL [SECONDS]
#
# SECONDS is how long it took, for the rate; left out, the rate is too.
set -euo pipefail
: "${BIN:=}"
crawl=$1
seconds=${2:-0}
policy=$("${BIN}mckpt" show "$crawl" --param frontier.policy)
set -- "$crawl"/rounds/r*/marked.arrows.zst
what='URLs finished'
[ "$policy" != revisit ] || what=visits
[ -e "$1" ] || { what=visits; set -- "$crawl"/rounds/r*/fetched.arrows.zst; } # a walk
[ -e "$1" ] || { echo "summary.sh: $crawl: no finished round" >&2; exit 1; }
first=$1

echo
"${BIN}mcat" --format tsv --columns role,host,outcome,status,duplicate,body_length,url,error,truncated "$@" |
  awk -F '\t' -v rounds=$# -v what="$what" -v seconds="$seconds" '
    $1 == "robots" { robots++ }
    $1 != "page" { next }
    { outcome[$3]++; hosts[$2] = 1; bytes += $6; urls++ }
    $3 != "fetched" && why < 3 { reason[why++] = $7 ": " $3 ($8 == "" ? "" : ": " $8) }
    $9 != "" { cut[$9]++ }
    $3 == "fetched" { pages++; if ($4 >= 200 && $4 < 300) ok++; if ($5 == "true") dup++ }
    END {
      for (h in hosts) nh++
      printf "%9d %s on %d hosts in %d rounds\n", urls, what, nh, rounds
      printf "%9d replies, %d of them 2xx, %d duplicates; %d robots.txt contacts; %.1f MB of bodies\n", pages, ok, dup, robots, bytes / 1e6
      if (seconds > 0) printf "%9.0f replies/s over %d s, all stages\n", pages / seconds, seconds
      if (pages == 0) { print "No page was fetched:"; for (i = 0; i < why; i++) print "          " reason[i] }
      for (c in cut) printf "%9d documents are cut: %s\n", cut[c], c == "length" ? "longer than --max-body (fetch.max_body in crawl.toml)" : c | "sort -rn"
      close("sort -rn")
      for (o in outcome) if (o != "fetched") printf "%9d %s\n", outcome[o], o | "sort -rn"
      close("sort -rn")
      exit pages == 0
    }'
"${BIN}mfrontier" stat "$crawl/frontier" | awk -v release="${BIN}mfrontier release $crawl/frontier" '
    $1 == "parked," { n += $3; by = by (by == "" ? "" : ", ") $2 " " $3 }
    END { if (n > 0) printf "%9d URLs are parked (%s): \"%s\" puts them back\n", n, by, release }'
echo "Drops by reason:"
set --
for d in "$crawl"/rounds/r*; do # a crawl by pipe keeps no new.arrows.zst: its links are the last in a round
  for f in "$d/new.arrows.zst" "$d/links.arrows.zst"; do
    [ -e "$f" ] && set -- "$@" "$f" && break
  done
done
"${BIN}mcat" --trailer "$@" |
  awk '
    # One object a line; a stream has the ledger of its own stage and of all before it in the round.
    { line = $0
      while (match(line, /"name":"[^"]*"/)) {
        name = substr(line, RSTART + 8, RLENGTH - 9); line = substr(line, RSTART + RLENGTH)
        end = match(line, /"name":"/); stage = end ? substr(line, 1, end - 1) : line
        while (match(stage, /"(drops|refused)":\[[^]]*\]/)) {
          list = substr(stage, RSTART, RLENGTH); stage = substr(stage, RSTART + RLENGTH)
          while (match(list, /"reason":"[^"]*","n":[0-9]+/)) {
            item = substr(list, RSTART, RLENGTH); list = substr(list, RSTART + RLENGTH)
            split(item, part, "\""); n = part[7]; gsub(/[^0-9]/, "", n)
            count[name ": " part[4]] += n
          } } } }
    END { for (c in count) printf "%9d %s\n", count[c], c | "sort -rn" }'
cat <<EOF

Records of each round: $crawl/rounds/rN/*.arrows.zst   WARC files: $crawl/fetch   State: $crawl

Try next:
  ${BIN}mcat $first --head 2
  ${BIN}mckpt list $crawl
  ${BIN}mfetch audit $crawl/rounds/r*/fetched.arrows.zst
EOF
