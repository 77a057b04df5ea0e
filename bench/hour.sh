#!/usr/bin/env bash
# A long crawl of a synthetic web through all stages, over sockets, driven by mcrawl: whether its figures stay flat.
#
#   bench/hour.sh                60 minutes of each web: pages of mweb (5 KB, the mean of all replies), and pages of 40 KB
#   bench/hour.sh 5              five minutes of each
#   WEBS=small bench/hour.sh 2   two minutes of the first alone, as CI does
#
# HOSTS= (3000), BATCH= (20,000 URLs a round; 5,000 in runs of under 20 minutes), PAGES= of each web (300,000 a minute), SMALL=
# and LARGE= (median sizes of HTML pages, 4096 and 40,000: mweb serves small pictures and so on, too), OUT= (a folder for the
# figures; by default one below TMPDIR, whose name is printed). The text of mweb's pages is deflated to a tenth, that of real ones to a quarter.
#
# WARC files and state are written, all delays are 0. bench/hour samples by the minute, or 20 times in a shorter run, and writes
# OUT/small.csv, OUT/small.svg and so on: pages/s, URLs known and waiting, peak resident memory of each command, seconds a round,
# processor time a page, files, and bytes on disk by store. On a machine that does other work, read "alone": pages/s of the
# time that other processes left. Afterwards mckpt verify, mcrawl stats and mcrawl report must pass within their memory.
#
# The exit status is 1 if something is not flat: in the last quarter of the run less than 0.8 of the pages/s of the second one, or
# more bytes a page or files a round (1.15 times; 1.3 in a run of under 20 minutes); if a command took more than its bound of
# memory; or if a URL was deferred or has an outcome that no URL of the web has. If "alone" of the last quarter is over 1.25 times that
# of the second, there is no verdict (but in a run of under 20 minutes), and the status is 1: other work slowed the second
# quarter, and a fall would not show. A crawl takes 3 to 5 KB a page below TMPDIR, at 3,000 pages/s some 35 GB in an hour. If there
# will be no room for it, the run ends after a tenth of its time. It is deleted in the end. Needs Linux (/proc).
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
minutes=${1:-${MINUTES:-60}} webs=${WEBS:-small large} hosts=${HOSTS:-3000}
short=$(awk -v m="$minutes" 'BEGIN { print (m < 20) }')
batch=${BATCH:-$((short ? 5000 : 20000))}
pages=${PAGES:-$(awk -v m="$minutes" 'BEGIN { printf "%d", m * 300000 }')} # more than the crawl comes to
# shellcheck source=bench/web.sh
. "$here/bench/web.sh"
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
(cd "$here" && go build -trimpath -o "$dir/hour" ./bench/hour)
echo "$(df -h --output=avail "$dir" | tail -1 | tr -d ' ') free in $dir"
echo "commit $(git -C "$here" rev-parse --short HEAD 2> /dev/null || echo unknown), $(uname -sm), $(getconf _NPROCESSORS_ONLN) cores, load $(cut -d ' ' -f 1 /proc/loadavg), $(date -u +%FT%RZ)"
status=0
for web in $webs; do
	case $web in
	small) size=${SMALL:-4096} ;;
	large) size=${LARGE:-40000} ;;
	*) echo "hour.sh: WEBS: $web, want small or large" >&2; exit 2 ;;
	esac
	mkdir "$dir/$web"
	"$dir/hour" -bin "${BIN:-$here/bin}" -dir "$dir/$web" -out "$out" -name "$web" -minutes "$minutes" -size "$size" -pages "$pages" -hosts "$hosts" -batch "$batch" &
	server=$!
	wait $server || status=1
	server=
	rm -rf "${dir:?}/$web"
done
echo "figures by the minute: $out"
exit $status
