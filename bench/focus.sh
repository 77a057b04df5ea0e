#!/usr/bin/env bash
# How many of the fetched URLs are relevant: the focused crawler beside policies fifo, priority and opic.
#
#   bench/focus.sh                     some 10,000 URLs, 20 topics, 2 of them relevant; some minutes
#   SMALL=1 bench/focus.sh             1,700 URLs, and fails unless the focused crawl has 3 times fifo's harvest
#   SEED=7 bench/focus.sh              another web
#
# All crawl the same web with topics (mweb serve --topics), with the query "Mouse" and mweb's own dictionary, from the web's seeds,
# which are not relevant. Batches are one percent of the web. A URL is relevant if the oracle says that it is about one of
# the two senses. Harvest: relevant ÷ fetched. Recall: relevant fetched ÷ relevant in the web. "no hubs" is the focused
# crawl without the distiller.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
if [ -z "${BIN+x}" ]; then
	BIN=$here/bin/
fi
export LC_ALL=C PATH=$BIN:$PATH
dir=$(mktemp -d)
web=
trap 'if [ -n "$web" ]; then kill "$web"; fi; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
cd "$dir"

shape="--topics 20 --size 600 --no-sitemaps --seed ${SEED:-11} --hosts 60 --pages 6000"
if [ -n "${SMALL:-}" ]; then
	shape="--topics 20 --size 400 --no-sitemaps --seed ${SEED:-11} --hosts 20 --pages 1000"
fi
mweb serve $shape --ready ready.json > /dev/null &
web=$!
until [ -s ready.json ]; do sleep 0.1; done
port=$(sed 's/.*"port":\([0-9]*\).*/\1/' ready.json) dns=$(sed 's/.*"dns":"\([^"]*\)".*/\1/' ready.json)
mweb oracle $shape --port "$port" | awk -F '\t' '{ print $1 "\t" ($3 == 200 && $4 ~ /^mouse\./) }' > oracle.tsv
mweb topics $shape > words.tsv
mweb seeds $shape --port "$port" > seeds.txt
urls=$(wc -l < oracle.tsv) relevant=$(awk -F '\t' '$2' oracle.tsv | wc -l)
rounds=27

crawl() { # NAME, then the command that makes the crawl NAME and runs it
	local name=$1
	shift
	"$@" --seeds seeds.txt --contact bench@example.org --set network.allow_net=127.0.0.0/8 --set resolve.servers="$dns" --set politeness.min_delay=0s \
		--set politeness.delay_factor=0 --set politeness.addr_delay=0s --set frontier.max_attempts=1 --set batch=$((urls / 100)) > log 2>&1 ||
		{ cat log >&2; exit 1; }
	if [ "$2" = new ]; then
		mcrawl run "$name" -q --rounds $rounds > log 2>&1 || { cat log >&2; exit 1; }
	fi
	for ((r = 1; r <= rounds; r++)); do
		if [ -e "$name/rounds/r$r/marked.arrows.zst" ]; then
			mcat --format tsv --columns url,role "$name/rounds/r$r/marked.arrows.zst"
		fi
	done | awk -F '\t' -v name="$name" -v urls="$urls" -v all="$relevant" '
		NR == FNR { good[$1] = $2; next }
		$2 != "page" { next }
		{ n++; hit += good[$1] }
		n == int(urls * 5 / 100) || n == int(urls / 10) || n == int(urls / 4) { row = row sprintf(" %.1f %% / %.0f %% |", 100 * hit / n, 100 * hit / all); at[n] = hit / n }
		END { print "| " name " |" row; print name, at[int(urls / 10)] > "harvest." name }' oracle.tsv -
}

echo "commit $(git -C "$here" rev-parse --short HEAD 2> /dev/null || echo unknown), $(uname -sm), load $(cut -d ' ' -f 1 /proc/loadavg), $(date -u +%FT%RZ); $urls URLs, $relevant relevant"
echo "| harvest / recall after | 5 % | 10 % | 25 % |"
echo "|---|--:|--:|--:|"
crawl fifo mcrawl new fifo --policy fifo
if [ -z "${SMALL:-}" ]; then
	crawl priority mcrawl new priority --policy priority
	crawl opic mcrawl new opic --policy opic
	crawl "nohubs" mcrawl focus nohubs Mouse --dictionary words.tsv --set focus.distill=0 --set focus.patience=0 --rounds $rounds
fi
crawl focus mcrawl focus focus Mouse --dictionary words.tsv --set focus.patience=0 --rounds $rounds
awk '{ at[$1] = $2 } END { printf "harvest at 10 %%: %.1f times fifo\n", at["focus"] / at["fifo"]; exit !(at["focus"] >= 3 * at["fifo"]) }' harvest.*
