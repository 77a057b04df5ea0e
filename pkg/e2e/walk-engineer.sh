#!/bin/sh
# A data engineer's day, on an embedded web: seeds with ids of their own from CSV, crawled by three machines and by one;
# outcomes and links in DuckDB, in-links by host, the ids found in the outcomes, three sets merged.
#
#   make walks          this and the other walks
#
# Each step checks what it got. Needs python3 with venv, and the network for duckdb from PyPI, which it installs into a
# temporary folder (VENV= names a folder that has it).
. "$(dirname "$0")/walk.sh"
trap 'exec 9>&-; rm -rf "$work"' EXIT
if [ -z "${VENV:-}" ]; then
  VENV=$work/venv
  python3 -m venv "$VENV"
  "$VENV/bin/pip" install --quiet --disable-pip-version-check duckdb
fi
sql() { "$VENV/bin/python" -c 'import duckdb, sys; [print(*r, sep="\t") for r in duckdb.sql(sys.argv[1]).fetchall()]' "$1"; }

mkfifo hold
mweb serve --seed 3 --hosts 12 --pages 400 --ready web.json --until-stdin-closes < hold > /dev/null &
web=$!
exec 9> hold
while [ ! -e web.json ]; do kill -0 $web || die "mweb did not start"; sleep 0.1; done

# run CRAWL SEEDS [FLAG]…: a crawl of that web from seeds in CSV.
run() {
  crawl=$1 seeds=$2; shift 2
  cat > "$crawl.toml" << TOML
batch = 100
[resolve]
servers = ["$(field web.json dns)"]
[network]
allow_net = ["127.0.0.0/8"]
[politeness]
min_delay = "0s"
delay_factor = 0.0
addr_delay = "0s"
[frontier]
max_attempts = 1
TOML
  mcrawl new "$crawl" --seeds "$seeds" --config "$crawl.toml" -q 9>&-
  mcrawl run "$crawl" -q "$@" > /dev/null 2> log 9>&- || { cat log >&2; die "mcrawl run $crawl failed"; }
}

# --- seeds with ids ---------------------------------------------------------------

mweb oracle --seed 3 --hosts 12 --pages 400 --port "$(field web.json port)" | cut -f 1 | awk 'NR % 10 == 1' > seeds.txt
awk 'BEGIN { print "url,x_id,x_from" } { print $0 ",doc-" NR ",\"list, of " NR "\"" }' seeds.txt > seeds.csv
run all seeds.csv
mcat --format csv --columns role,x_id,url,outcome,status,round all > outcomes.csv
ids=$(sql "select count(distinct x_id) from 'outcomes.csv' where role = 'page' and x_id like 'doc-%'")
[ "$ids" = "$(wc -l < seeds.txt | tr -d ' ')" ] || die "$ids ids in the outcomes"
sql "select url || ',' || x_id from 'outcomes.csv' where x_id is not null and role = 'page' order by all" > have
awk -F , 'NR > 1 { print $1 "," $2 }' seeds.csv | sort | cmp - have || die "the ids are not those of the seeds"
mcrawl export all --parquet tables -q > /dev/null
sql "select url || ',' || (nullif(x, '')->>'id') from 'tables/outcomes.parquet' where role = 'page' and x != '' order by all" | cmp - have || die "the ids in Parquet are not those of the seeds"
echo "ids       $ids, each with its URL"

# --- outcomes and links in DuckDB ---------------------------------------------------

mcat --format parquet --rows links all -o links.parquet
[ "$(sql "select count(*) from 'links.parquet'")" = "$(mcat --count --rows links all)" ] || die "not all links in the Parquet file"
sql "select host, count(distinct src_url) from 'links.parquet' where link_kind = 'a' group by host order by host" > have
mcat --format tsv --columns link_kind,src_url,host --rows links all | sed -n 's/^a	//p' | sort -u |
  awk -F '\t' '{ n[$2]++ } END { for (h in n) print h "\t" n[h] }' | sort > want
[ -s want ] || die "no links"
cmp want have || die "in-links by host differ between DuckDB and awk"
echo "in-links  of $(wc -l < have | tr -d ' ') hosts, by DuckDB and by awk"

# --- three machines ---------------------------------------------------------------------

for m in 1 2 3; do
  awk -v m=$m 'NR == 1 || NR % 3 == m % 3' seeds.csv > "seeds$m.csv"
  run "machine$m" "seeds$m.csv" --rounds 2
done
mmerge union --urls machine1 machine2 machine3 > have
for m in 1 2 3; do
  mcat --format text --rows links "machine$m"
  mcat --format text "machine$m/rounds/seed/new.arrows.zst"
done | sort -u > want
sort have | cmp want - || die "the union of three machines' URLs"
mmerge union -o union.fps machine1 machine2 machine3
[ "$(mcat --count union.fps)" = "$(wc -l < have | tr -d ' ')" ] || die "the union of three sets"
mmerge diff --urls all union.fps > left
[ "$(mmerge diff all union.fps | wc -l)" = "$(wc -l < left)" ] || die "what the three have not found"
echo "machines  three found $(wc -l < have | tr -d ' ') URLs; the whole crawl has $(wc -l < left | tr -d ' ') more"

exec 9>&-
wait $web
