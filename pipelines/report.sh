#!/usr/bin/env bash
# Opens the page of mcrawl report in headless Chromium: every plot and table is there, the console has no error, no
# request leaves the page, its figures are those of mcrawl stats --json, sorting and searching work.
#
#   pipelines/report.sh [SCREENSHOT.png]        or: make report-check
#
# Needs chromium and python3. It contacts loopback alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${BIN:=$(cd "$here/.." && pwd)/bin/}" "${CHROMIUM:=chromium}"
shot=${1:-}
command -v "$CHROMIUM" > /dev/null || { echo "report.sh: no $CHROMIUM" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${BIN}mcrawl" -q try "$dir/crawl" --hosts 12 --pages 600 > "$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
"${BIN}mcrawl" -q report "$dir/crawl" --compare "$dir/crawl" -o "$dir/two.html"
captions=$(realpath "${BIN}mcrawl"); (cd "$dir" && "$captions" -q report crawl) # which name the folder
"${BIN}mcrawl" stats "$dir/crawl" --json > "$dir/stats.json"

# A copy whose last script presses what people press, and leaves what it saw in the page.
python3 - "$dir" << 'END'
import sys
page = open(sys.argv[1] + '/crawl-report.html').read()
press = '''<script>
const hosts = document.querySelector("table.hosts"), names = () => [...hosts.tBodies[0].rows].filter(r => !r.hidden).map(r => r.cells[0].textContent);
hosts.tHead.rows[0].cells[3].click();
const bytes = [...hosts.tBodies[0].rows].map(r => Number(r.cells[3].dataset.v));
const input = document.querySelector("input[type=search]");
input.value = names()[0]; input.dispatchEvent(new Event("input"));
document.body.dataset.sorted = String(bytes.every((b, i) => i === 0 || bytes[i - 1] >= b));
document.body.dataset.found = String(names().length >= 1 && names().every(n => n.includes(input.value)) && names().length < bytes.length);
</script></body>'''
open(sys.argv[1] + '/pressed.html', 'w').write(page.replace('</body>', press))
END

# open_page FILE OPTION…: Chromium without a network.
open_page() {
  local file=$1; shift
  "$CHROMIUM" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --user-data-dir="$dir/profile" \
    --host-resolver-rules='MAP * ~NOTFOUND' --enable-logging=stderr --log-net-log="$dir/net.json" "$@" "file://$file" 2> "$dir/console"
  if [ -z "${asks:-}" ] && grep -q 'CONSOLE' "$dir/console"; then echo "report.sh: the console says:" >&2; grep CONSOLE "$dir/console" >&2; exit 1; fi
}
open_page "$dir/pressed.html" --dump-dom > "$dir/dom.html"
python3 - "$dir" << 'END'
import json, re, sys
dir = sys.argv[1]
dom, stats = open(dir + '/dom.html').read(), json.load(open(dir + '/stats.json'))
figures = json.loads(re.search(r'<script type="application/json" class="figures">(.*?)</script>', dom, re.S).group(1))
assert figures == stats, 'the figures of the page are not those of mcrawl stats --json'
assert dom.count('<svg') == 9, f'{dom.count("<svg")} plots, want 9'
for table in ['times', 'outcomes', 'statuses', 'types', 'domains', 'drops', 'hosts']:
    assert re.search(rf'<table class="(sort )?{table}">', dom), f'no table of {table}'
for name, rows in [('outcomes', stats['outcomes']), ('statuses', stats['statuses']), ('types', stats['types'])]:
    body = re.search(rf'<table class="(?:sort )?{name}">.*?<tbody>(.*?)</tbody>', dom, re.S).group(1)
    shown = [int(re.sub(r'\D', '', n)) for n in re.findall(r'<tr><td>.*?</td><td class="n"[^>]*>(.*?)</td>', body)]
    want = [r.get('n', r.get('documents')) for r in rows]
    assert shown == want, f'{name}: {shown}, want {want}'
assert 'data-sorted="true"' in dom, 'a click on a heading does not sort'
assert 'data-found="true"' in dom, 'the search does not find hosts'
times = stats['times']
body = re.search(r'<table class="times">.*?<tbody>(.*?)</tbody>', dom, re.S).group(1)
shown = dict(re.findall(r'<tr><td>(\w+)[^<]*</td><td class="n" data-v="([^"]*)"', body))
want = {name[:-2]: s for name, s in times.items() if name.endswith('_s') and name not in ('span_s', 'elapsed_s', 'lookups_s', 'contacts_s') and s > 0}
assert {name: float(s) for name, s in shown.items()} == want and {'names', 'fetching', 'sets'} <= want.keys(), f'times: {shown}, want {want}'
assert abs(sum(want.values()) - times['elapsed_s']) < 1e-6, 'the parts of the time do not add up'
for name in ['elapsed', 'thread']:
    share = re.search(rf'<b class="names-of-{name}">([\d.]+) %', dom).group(1)
    assert abs(float(share) - 100 * times['names_of_' + name]) < 0.06 and float(share) > 0, f'names of {name}: {share}, want {times}'
assert times['rounds'] == len(times['by_round']) > 1 and times['rounds_without'] == 0, 'rounds without times'
END
# requests NET.JSON: the URLs that a page asked for. Chromium asks hosts of its maker by itself, from no page.
requests() {
  python3 - "$1" << 'END'
import json, sys, urllib.parse
text = open(sys.argv[1]).read().rstrip().rstrip(',')
try:
    log = json.loads(text)
except ValueError: # it ended before it closed the list
    log = json.loads(text + ']}')
urls = set()
for event in log['events']:
    p = event.get('params', {})
    if 'url' not in p or 'network_isolation_key' not in p: # the event that begins a request has both
        continue
    url = urllib.parse.urlsplit(p['url'])
    own = (url.hostname or '').endswith(('.google.com', '.googleapis.com', '.gvt1.com')) and 'file:' not in p['network_isolation_key']
    if not own and url.scheme not in ('file', 'data', 'chrome', 'devtools', 'about'):
        urls.add(p['url'])
print(*sorted(urls), sep='\n')
END
}
left=$(requests "$dir/net.json")
[ -z "$left" ] || { echo "report.sh: requests leave the page: $left" >&2; exit 1; }
# The same look at a page that does ask finds what it asks for.
echo '<link rel="stylesheet" href="https://fonts.googleapis.com/css"><img src="http://mweb.test/x"><script>fetch("http://127.0.0.1:9/y").catch(() => 0)</script>' > "$dir/asks.html"
asks=1 open_page "$dir/asks.html" --dump-dom > /dev/null
[ "$(requests "$dir/net.json" | tr '\n' ' ')" = 'http://127.0.0.1:9/y http://mweb.test/x https://fonts.googleapis.com/css ' ] ||
  { echo "report.sh: Chromium's log does not show what a page asks for: $(requests "$dir/net.json")" >&2; exit 1; }
for size in 1200,3000 390,3000; do
  open_page "$dir/two.html" --hide-scrollbars --window-size=$size --screenshot="$dir/shot.png"
  [ "$(stat -c %s "$dir/shot.png")" -gt 20000 ] || { echo "report.sh: an empty picture at $size" >&2; exit 1; }
done
[ -z "$shot" ] || { open_page "$dir/crawl-report.html" --hide-scrollbars --window-size=1200,3000 --screenshot="$shot"; }
echo "report.sh: 9 plots, their tables, sorting and searching; figures as mcrawl stats --json; no request left the page"
