#!/usr/bin/env bash
# Opens the page of mcrawl report in headless Chromium, light and dark, at 1,280 and 400 pixels: every plot and table is there,
# nothing is wider than the page, axes can be read, the pointer shows values, sorting and searching work, tables are there
# without scripts, the console has no error, no request leaves the page, its figures are those of mcrawl stats --json.
#
#   pkg/e2e/report.sh [SCREENSHOT.png]        or: make report-check
#
# Needs chromium and python3. It contacts loopback alone.
set -euo pipefail
here=$(cd "$(dirname "$0")/../../pipelines" && pwd)
: "${BIN:=$(cd "$here/.." && pwd)/bin/}" "${CHROMIUM:=chromium}"
shot=${1:-}
command -v "$CHROMIUM" > /dev/null || { echo "report.sh: no $CHROMIUM" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${BIN}mcrawl" -q try "$dir/crawl" --hosts 12 --pages 600 > "$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
"${BIN}mcrawl" -q report "$dir/crawl" --compare "$dir/crawl" -o "$dir/two.html"
captions=$(realpath "${BIN}mcrawl"); (cd "$dir" && "$captions" -q report crawl) # which name the folder
"${BIN}mcrawl" stats "$dir/crawl" --json > "$dir/stats.json"

# Copies whose last script does what people do, and tells the page around it what is wrong; and that page, which shows them at 1,280 and at 400
# pixels, and one without scripts.
python3 - "$dir" << 'END'
import html, sys
dir = sys.argv[1]
walk = r"""<script>
const wrong = [], check = (ok, what) => { if (!ok) wrong.push(what); };
for (const e of document.querySelectorAll("body *"))
  if (!e.closest(".table") && e.getBoundingClientRect().right > innerWidth) wrong.push(`wider than the page: ${e.tagName} ${e.className}`);
check(document.documentElement.scrollWidth <= innerWidth, "the page scrolls sideways");
check(plots.length === document.querySelectorAll("figure").length && plots.length >= 9, `${plots.length} plots`);
const dark = matchMedia("(prefers-color-scheme: dark)").matches, light = text => text.match(/\d+/g).slice(0, 3).every(n => n > 127);
check(light(getComputedStyle(document.body).backgroundColor) !== dark, "the page has the wrong colors");
for (const u of plots) {
  for (const a of u.axes) {
    check(a.label && a.font[1] >= 11 && a.labelFont[1] >= 11, `an axis without a title, or with small labels: ${a.label} ${a.font}`);
    check(a._values.filter(v => v).length >= 2, `an axis with less than two labels: ${a.label}`);
    check(a.stroke() === color("soft") && light(getComputedStyle(u.root).color) === dark, "a plot has the wrong colors");
  }
  const box = u.over.getBoundingClientRect();
  u.over.dispatchEvent(new MouseEvent("mousemove", {clientX: box.left + box.width * 0.05, clientY: box.top + box.height / 2, bubbles: true}));
}
for (const e of document.querySelectorAll(".table thead th"))
  check(!e.textContent || e.closest("table").tBodies[0].rows.length < 2 || e.querySelector("button").tabIndex === 0, `no button: ${e.textContent}`);
const hosts = document.querySelector("table.hosts"), rows = () => [...hosts.tBodies[0].rows].filter(r => !r.hidden), bytes = hosts.tHead.rows[0].cells[3];
for (const order of ["descending", "ascending"]) {
  bytes.querySelector("button").click();
  const list = rows().map(r => Number(r.cells[3].dataset.v) * (order === "descending" ? -1 : 1));
  check(bytes.ariaSort === order && list.length > 2 && list.every((b, i) => i === 0 || list[i - 1] <= b), `a click on a heading does not sort: ${order}`);
}
hosts.tHead.rows[0].cells[0].querySelector("button").click();
check(hosts.querySelectorAll("[aria-sort]").length === 1, "two headings say that they sort");
const input = document.querySelector("input[type=search]"), all = rows().length;
input.value = rows()[0].cells[0].textContent; input.dispatchEvent(new Event("input"));
check(rows().length >= 1 && rows().length < all && rows().every(r => r.cells[0].textContent.includes(input.value)), "the search does not find hosts");
requestAnimationFrame(() => requestAnimationFrame(() => {
  for (const e of document.querySelectorAll(".u-value")) check(/\d/.test(e.textContent), `no value under the pointer: ${e.parentElement.textContent}`);
  document.body.dataset.walked = "true";
  parent.postMessage(`${innerWidth} ${dark ? "dark" : "light"}: ${wrong.join("; ") || "good"}`, "*");
}));
</script></body>"""
frame = '<iframe style="position: fixed; top: 0; left: 0; border: 0; height: 900px; width: %spx" %s></iframe>'
page = open(dir + '/crawl-report.html').read()
around = '<!doctype html><meta name="color-scheme" content="light dark"><body><script>addEventListener("message", m => document.body.append(`[${m.data}]`))</script>'
around += frame % (1280, 'id="without" sandbox="allow-same-origin" srcdoc="' + html.escape(page) + '"')
for name in ['crawl-report', 'two']:
    text = open(f'{dir}/{name}.html').read()
    assert text.count('</body>') == 1
    open(f'{dir}/{name}-walked.html', 'w').write(text.replace('</body>', walk))
    around += frame % (1280, f'src="{name}-walked.html"') + frame % (400, f'src="{name}-walked.html"')
around += """<script>addEventListener("load", () => {
  const page = document.getElementById("without").contentDocument, shows = s => page.querySelector(s).getBoundingClientRect().height > 0;
  document.body.append(`[without: ${shows("noscript p") && shows("table.hosts") && !page.querySelector("canvas, button") ? "good" : "no tables, or no word about figures"}]`);
})</script>"""
open(dir + '/around.html', 'w').write(around)
END

# open_page FILE OPTION…: Chromium without a network.
open_page() {
  local file=$1; shift
  "$CHROMIUM" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --user-data-dir="$dir/profile" \
    --host-resolver-rules='MAP * ~NOTFOUND' --enable-logging=stderr --log-net-log="$dir/net.json" "$@" "file://$file" 2> "$dir/console"
  if [ -z "${asks:-}" ] && grep CONSOLE "$dir/console" | grep -v -e "Blocked script execution in 'about:srcdoc'" -e 'source: chrome://'; then echo "report.sh: the console says this" >&2; exit 1; fi
}
said() { grep -o '\[\(without\|[0-9]* [a-z]*\): [^]$]*\]' "$dir/around.out" | sort; }
for scheme in dark light; do
  number=1; [ $scheme = light ] || number=0 # of Blink
  open_page "$dir/around.html" --window-size=1400,1000 --virtual-time-budget=20000 --blink-settings=preferredColorScheme=$number --dump-dom > "$dir/around.out"
  want=$(printf '[%s]\n' "1280 $scheme: good" "1280 $scheme: good" "400 $scheme: good" "400 $scheme: good" "without: good" | sort)
  [ "$(said)" = "$want" ] || { printf 'report.sh: a walk through the page says:\n%s\nwant\n%s\n' "$(said)" "$want" >&2; exit 1; }
done
open_page "$dir/crawl-report-walked.html" --virtual-time-budget=20000 --dump-dom > "$dir/dom.html"
python3 - "$dir" << 'END'
import json, re, sys
dir = sys.argv[1]
dom, stats = open(dir + '/dom.html').read(), json.load(open(dir + '/stats.json'))
figures = json.loads(re.search(r'<script type="application/json" class="figures">(.*?)</script>', dom, re.S).group(1))
assert figures == stats, 'the figures of the page are not those of mcrawl stats --json'
assert dom.count('<canvas') == 9 and 'data-walked="true"' in dom, f'{dom.count("<canvas")} plots, want 9'
for table in ['times', 'outcomes', 'statuses', 'types', 'domains', 'drops', 'hosts']:
    assert re.search(rf'<table class="{table}">', dom), f'no table of {table}'
for name, rows in [('outcomes', stats['outcomes']), ('statuses', stats['statuses']), ('types', stats['types'])]:
    body = re.search(rf'<table class="{name}">.*?<tbody>(.*?)</tbody>', dom, re.S).group(1)
    shown = [int(re.sub(r'\D', '', n)) for n in re.findall(r'<tr><td>.*?</td><td class="n"[^>]*>(.*?)</td>', body)]
    want = [r.get('n', r.get('documents')) for r in rows]
    assert shown == want, f'{name}: {shown}, want {want}'
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
[ -z "$shot" ] || open_page "$dir/crawl-report.html" --hide-scrollbars --window-size=1280,800 --screenshot="$shot"
echo "report.sh: 9 plots with values under the pointer, tables that sort and search, light and dark, at 1,280 and 400 pixels; tables without scripts; figures as mcrawl stats --json; no request left the page"
