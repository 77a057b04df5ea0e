#!/usr/bin/env bash
# What a round costs that fetches one URL a shard at most, by what runs its tasks: this machine, Slurm, Spark.
#
#   bench/engines.sh               5 rounds of crawls of 2 and of 4 shards
#   N=20 SHARDS="2 8" ON=slurm bench/engines.sh
#
# A crawl of one shard has no tasks for Slurm or Spark: it takes two. The daemons are those of make engines, on loopback. From the time of N + 1 rounds that of one is taken off, with the start of a
# driver and of Spark's application in it. Pages are mweb's, without delays. All is in a temporary folder and is deleted.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
[ -n "${MERCATOR_ENGINES:-}" ] || exec "$here/pkg/e2e/engines.sh" "$here/bench/engines.sh"
export LC_ALL=C
BIN=${BIN:-$here/bin/}
n=${N:-5}
dir=$MERCATOR_ENGINES/bench
mkdir "$dir"
"${BIN}mweb" serve --hosts 8 --pages 500 --ready "$dir/web.json" > /dev/null & # it ends with the daemons
until [ -s "$dir/web.json" ]; do sleep 0.1; done
dns=$(sed 's/.*"dns":"\([^"]*\)".*/\1/' "$dir/web.json")
sed 's/.*\["\([^"]*\)".*/\1/' "$dir/web.json" > "$dir/seeds.txt"
seconds() { # COMMAND…: elapsed
  local TIMEFORMAT=%R
  { time "$@" > /dev/null 2> "$dir/said"; } 2>&1 || { cat "$dir/said" >&2; exit 1; }
}
for shards in ${SHARDS:-2 4}; do
  for on in ${ON:-local slurm spark}; do
    crawl=$dir/$on-$shards
    "${BIN}mcrawl" new "$crawl" --quiet --shards "$shards" --seeds "$dir/seeds.txt" --contact bench@example.org --set batch=1 --set network.allow_net=127.0.0.0/8 \
      --set "resolve.servers=$dns" --set politeness.min_delay=0s --set politeness.delay_factor=0 --set politeness.addr_delay=0s
    [ $on != spark ] || args="$SPARK_ARGS"
    "${BIN}mcrawl" run "$crawl" -q --on local --rounds 3
    few=$(seconds "${BIN}mcrawl" run "$crawl" -q --rounds 4 --on $on --engine-args="${args:-}")
    many=$(seconds "${BIN}mcrawl" run "$crawl" -q --rounds $((n + 5)) --on $on --engine-args="${args:-}")
    echo "$few $many" | awk -v n="$n" -v on=$on -v shards="$shards" '{ printf "%-6s %d shards: %.2f s a round; a run of one round takes %.1f s\n", on, shards, ($2 - $1) / n, $1 }'
    args=
  done
done
cut -d ' ' -f 1 /proc/loadavg | sed 's/^/load: /'
