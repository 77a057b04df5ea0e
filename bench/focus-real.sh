#!/usr/bin/env bash
# The focused crawler on text that nobody here wrote: documentation that Debian packages carry, with its own links.
#
#   bench/focus-real.sh                         all topics of focus/web.py, with the words of a query and with twelve examples
#   TOPICS="mouse,git" bench/focus-real.sh      some of them
#   WEB=further bench/focus-real.sh             another web, of packages and topics that nothing was tuned on
#
# Downloads the packages (apt-get download) into DOCS (default: a temporary folder), makes a web of them (focus/web.py, which labels pages by
# package, section and file name), serves it on loopback, and crawls it from a page that links to the first page of each package. Batches are one
# percent of the web. Harvest: relevant ÷ fetched at 10 % of the web; ceiling: the most that it can be. Verdicts: precision and recall among
# the documents fetched by 25 % of the web, as the crawl judged them, and then by all that it has learned (mfocus score). Told: relevant documents
# by mcrawl stats, beside those by label. Needs python3, and WordNet for queries.
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
docs=${DOCS:-$dir/docs}
packages="gnome-user-docs gimp-help-en postgresql-doc-15 python3.11-doc git-doc apache2-doc sqlite3-doc nodejs-doc exim4-doc-html python-django-doc
	debian-handbook debian-reference-en erlang-doc anarchism gnucash-docs fortunes manpages manpages-dev gpm imwheel xdotool unclutter xserver-xorg-input-mouse
	xserver-xorg-input-evdev xserver-xorg-input-libinput xserver-xorg-input-synaptics"
[ "${WEB:-}" != further ] || packages="lilypond-doc-html krb5-doc postfix-doc bind9-doc ntpsec-doc maxima-doc cmake-doc libcairo2-doc aptitude-doc-en debian-policy valgrind octave-doc libreoffice-help-en-us"
mkdir -p "$docs"
for p in $packages; do
	if [ ! -d "$docs/$p" ]; then
		(cd "$dir" && apt-get download -q "$p" > /dev/null 2>&1 && dpkg-deb -x "$p"_*.deb "$docs/$p" && rm "$p"_*.deb) || echo "focus-real.sh: without $p" >&2
	fi
done
cd "$dir"
python3 "$here/bench/focus/web.py" "$docs" site ${WEB:+"$WEB"}
python3 -c '
import functools, http.server, sys
class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory="site"))
print(s.server_port, flush=True)
s.serve_forever()' > port &
web=$!
until [ -s port ]; do sleep 0.1; done
root=http://127.0.0.1:$(cat port)/
urls=$(wc -l < site.tsv)
set=(--contact bench@example.org --set network.allow_net=127.0.0.0/8 --set politeness.min_delay=0s --set politeness.delay_factor=0 --set politeness.addr_delay=0s
	--set frontier.max_attempts=1 --set batch=$((urls / 100)) --set extract.filter="$dir/filter.txt" --seeds seeds.txt)
echo "${root}index.html" > seeds.txt
printf 'allow web: host 127.0.0.1\ndefault deny\n' > filter.txt # no name is asked for

rows() { # CRAWL: URL, score, topic, media type of each page fetched, in order
	for ((r = 1; r <= 26; r++)); do
		if [ -e "$1/rounds/r$r/marked.arrows.zst" ]; then
			mcat --format tsv --columns url,score,topic,mime,role,status "$1/rounds/r$r/marked.arrows.zst" 2> /dev/null || mcat --format tsv --columns url,score,mime,role,status "$1/rounds/r$r/marked.arrows.zst"
		fi
	done
}

again() { # CRAWL: the same, by all that it has learned
	mfocus score -q --model "$1/focus.model" "$1" | mcat --format tsv --columns url,score,topic,mime,role,status -
}

tell() { # TOPIC, rows on standard input: harvest at 10 %, precision, recall, told, truth
	sed "s|^$root||" | awk -F '\t' -v topic="$1" -v urls="$urls" '
		NR == FNR { split($2, t, ","); for (i in t) if (t[i] == topic) good[$1] = 1; next }
		$NF == 200 || $(NF - 1) == "page" { n++; is = good[$1]; hit += is; if (n <= urls / 10) early += is; if (n <= urls / 10) first = n
			v = NF == 6 && $2 > 0.5 && $3 != ""; told += v; both += v * is }
		END { printf "%d %.4f %.2f %.2f %d %d", n, first ? early / first : 0, told ? both / told : 0, hit ? both / hit : 0, told, hit }' site.tsv -
}

mcrawl new fifo --policy fifo "${set[@]}" > log 2>&1 && mcrawl run fifo -q --rounds 26 > log 2>&1 || { cat log >&2; exit 1; }
echo "commit $(git -C "$here" rev-parse --short HEAD 2> /dev/null || echo unknown), $(uname -sm), $(date -u +%F); $urls files"
echo "| topic | pages | fifo at 10 % | ceiling | with | at 10 % | × fifo | precision, recall | by all that was learned | told by stats, by label |"
echo "|---|--:|--:|--:|---|--:|--:|---|---|--:|"
cut -f 2 site.tsv | tr ',' '\n' | sort -u | grep . > topics
if [ -n "${TOPICS:-}" ]; then
	echo "$TOPICS" | tr ',' '\n' > topics
fi
while read -r topic; do
	awk -F '\t' -v t="$topic" '{ n = split($2, l, ","); for (i = 1; i <= n; i++) if (l[i] == t) print $1 }' site.tsv > pages
	all=$(wc -l < pages)
	read -r _ fifo _ <<< "$(rows fifo | tell "$topic")"
	rm -rf examples query twelve
	mkdir examples
	awk -v all="$all" 'int(NR * 12 / all) > int((NR - 1) * 12 / all)' pages | while read -r p; do cp "site/$p" "examples/$(echo "$p" | tr / _)"; done
	for how in query twelve; do
		more=()
		if [ $how = twelve ]; then
			first=$(mfocus expand -q "w$$.db" "$topic" > /dev/null 2>&1 && mfocus topics "w$$.db" --query "$topic" 2> /dev/null | sed -n '1s/^{"topic":"\([^"]*\)".*/\1/p')
			more=(--topic "$first" --examples "$first=examples")
		fi
		mcrawl focus $how "$topic" "${set[@]}" "${more[@]}" --set focus.patience=0 --rounds 26 > log 2>&1 < /dev/null || { cat log >&2; exit 1; }
		read -r n at precision recall told truth <<< "$(rows $how | tell "$topic")"
		read -r _ _ precision2 recall2 _ <<< "$(again $how | tell "$topic")"
		stats=$(mcrawl stats $how --json 2> /dev/null | tr ',{' '\n\n' | sed -n 's/^ *"relevant": *\([0-9]*\).*/\1/p' | head -1)
		awk -v topic="$topic" -v all="$all" -v urls="$urls" -v fifo="$fifo" -v at="$at" -v verdicts="$precision, $recall | $precision2, $recall2" -v told="${stats:-$told}" -v truth="$truth" -v how=$how 'BEGIN {
			top = all * 10 / urls; if (top > 1) top = 1
			printf "| %s | %d | %.1f %% | %.1f %% | %s | %.1f %% | %s | %s | %d, %d |\n", topic, all, 100 * fifo, 100 * top, how == "query" ? "a query" : "12 examples", 100 * at, fifo ? sprintf("%.1f", at / fifo) : "-", verdicts, told, truth }'
	done
done < topics
