#!/bin/sh
# A researcher's day, on an embedded web: policies compared, a prioritizer and a processing module in Python,
# another filter without fetching again, and the saved crawl served and crawled once more.
#
#   make walks          this and the other walks
#
# Each step checks what it got. Needs python3.
. "$(dirname "$0")/walk.sh"
trap 'exec 9>&-; rm -rf "$work"' EXIT

# serve NAME COMMAND…: a web that ends when descriptor 9 is closed.
serve() {
  name=$1; shift
  mkfifo "$name.hold"
  mweb "$@" --ready "$name.json" --until-stdin-closes < "$name.hold" > /dev/null &
  web=$!
  exec 9> "$name.hold"
  while [ ! -e "$name.json" ]; do kill -0 $web || die "mweb did not start"; sleep 0.1; done
}
close_web() { exec 9>&-; wait $web; }

# new CRAWL [--set KEY=VALUE]…: a crawl of that web.
new() {
  crawl=$1; shift
  mcrawl new "$crawl" -q --seeds seeds.txt --set "resolve.servers=$dns" --set network.allow_net=127.0.0.0/8 --set politeness.min_delay=0s \
    --set politeness.delay_factor=0 --set politeness.addr_delay=0s --set frontier.max_attempts=1 --set extract.filter= "$@" 9>&-
}
run() { mcrawl run "$@" -q > /dev/null 2> log 9>&- || { cat log >&2; die "mcrawl run $* failed"; }; }

# rows COLUMNS FILE, or rows COLUMNS CRAWL --rows NAME: without the line of names.
rows() { mcat --format tsv --columns "$@" | sed 1d; }
# outcomes CRAWL: of each page what became of it, and what it held.
outcomes() { rows role,url,outcome,status,content_fp "$1" --rows outcomes | sed -n 's/^page	//p' | sort; }

serve web serve --seed 5 --hosts 12 --pages 600
dns=$(field web.json dns) port=$(field web.json port)
mweb seeds --seed 5 --hosts 12 --pages 600 --port "$port" > seeds.txt

# --- everything, with a module in Python ---------------------------------------

new all --set "extract.modules=words=text/html:stay python3 $here/module-python.py"
run all
mweb oracle --seed 5 --hosts 12 --pages 600 --port "$port" > want
outcomes all | cut -f 1-3 | cmp - want || die "the crawl is not what the oracle says"
mckpt verify -q all || die "mckpt verify"
rows role,outcome,status,mime,duplicate all --rows outcomes | grep -c '^page	fetched	200	text/html	false' > pages
rows module,key,value all --rows modules | grep -c '^words	words	[1-9]' | cmp - pages || die "not each page has its words"
rows src_url,url all --rows links | sort -u | cut -f 2 | sort | uniq -c | awk '{ print $2 "\t" $1 }' > inlinks
echo "module    in Python: $(rows module all --rows modules | wc -l) findings on $(cat pages) pages"

# --- policies, within a budget of six rounds of 50 URLs ------------------------

# budget NAME: prints of its pages the mean number of links to them and the mean depth, and how many are HTML.
budget() {
  run "$1" --rounds 6
  outcomes "$1" | cut -f 1 > "$1.urls"
  links=$(join -t '	' "$1.urls" inlinks | awk -F '\t' '{ n += $2 } END { printf "%.2f", n / NR }')
  depth=$(rows role,depth "$1" --rows outcomes | awk '$1 == "page" { n += $2; all++ } END { printf "%.2f", n / all }')
  html=$(rows role,status,mime "$1" --rows outcomes | grep -c '^page	200	text/html')
  echo "$1 $links $depth $html $(wc -l < "$1.urls")" >> policies
}
for policy in fifo dynamic priority opic; do
  new $policy --policy $policy --set batch=50
  budget $policy
done
new own --set batch=50 --set frontier.queues=3 --set frontier.strict=true --set "frontier.prioritizer=python3 $here/prioritize-python.py"
budget own
awk '
  { links[$1] = $2; html[$1] = $4; if (NR > 1 && $5 != n) bad = "the budgets differ"; n = $5 }
  END {
    if (links["opic"] <= links["fifo"]) bad = "opic finds no better linked pages than fifo"
    if (html["own"] <= html["fifo"] || html["own"] <= html["priority"]) bad = "the prioritizer finds no more pages"
    print bad
    exit bad != ""
  }' policies > bad || die "$(cat bad)"
awk '{ printf "policy    %-8s %s links to a page, depth %s, %d of %d are HTML\n", $1, $2, $3, $4, $5 }' policies

# --- another filter, and the module again, from what is saved -------------------

close_web # from here on nobody can be asked
printf 'deny pictures: kind img\ndeny styles: suffix .css\ndefault allow\n' > new.rules
began=$(date +%s)
mextract -q --warc all/fetch --filter new.rules all -o links \
  --modules found --module "words=text/html:stay python3 $here/module-python.py"
took=$(($(date +%s) - began))
rows src_url,link_kind,url all --rows links | awk -F '\t' '$2 != "img" && $3 !~ /[.]css$/' | sort > want
rows src_url,link_kind,url links | sort | cmp - want || die "not the links that the filter leaves"
[ "$(wc -l < want)" -lt "$(rows url all --rows links | wc -l)" ] || die "the filter refuses nothing"
rows url_key,module,key,value all --rows modules > want
rows url_key,module,key,value found | cmp - want || die "the module found other things"
[ $((took * 475)) -le $((5 * $(cat pages) + 475)) ] || die "$took s for the module on $(cat pages) pages"
echo "filter    $(wc -l < want) findings and $(mcat --count links) of $(rows url all --rows links | wc -l) links, from what is saved"

# --- the saved crawl, served and crawled again -----------------------------------

serve saved replay all
dns=$(field saved.json dns)
new again --set "fetch.proxy=http://127.0.0.1:$(field saved.json port)"
run again
close_web
outcomes all > want
outcomes again | cmp - want || die "the crawl of the saved web has other outcomes"
echo "replay    $(wc -l < want) URLs with the same outcomes and contents"
