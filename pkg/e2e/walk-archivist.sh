#!/bin/sh
# An archivist's week, on a small site on loopback: crawled, killed, gone on with, a section excluded, a seed added,
# pages that changed fetched again, replayed in pywb, and handed on as WACZ.
#
#   make walks          this and the other walks
#
# Each step checks what it got. Needs python3 with venv, and the network for wacz and pywb from PyPI, which it installs
# into a temporary folder (VENV= names a folder that has them).
. "$(dirname "$0")/walk.sh"
server=
finish() {
  [ -z "$server" ] || kill "$server" 2> /dev/null || true
  rm -rf "$work"
}
trap finish EXIT
if [ -z "${VENV:-}" ]; then
  VENV=$work/venv
  python3 -m venv "$VENV"
  "$VENV/bin/pip" install --quiet --disable-pip-version-check wacz pywb
fi

# --- a site ---------------------------------------------------------------------

# page FILE TITLE LINK…
page() {
  file=site/$1 title=$2; shift 2
  mkdir -p "$(dirname "$file")"
  { echo "<title>$title</title>"; for link; do echo "<a href=\"$link\">$link</a>"; done; } > "$file"
}
news='' docs=''
for i in $(seq 40); do
  page "news/$i.html" "News $i" "deep$i.html"
  page "news/deep$i.html" "Behind news $i"
  page "docs/$i.html" "Manual $i"
  news="$news news/$i.html" docs="$docs $i.html"
done
# shellcheck disable=SC2086
page index.html Home docs/index.html $news
# shellcheck disable=SC2086
page docs/index.html Manuals $docs
page hidden/index.html 'Linked from nowhere' more.html
page hidden/more.html 'More of it'
cat > serve.py << 'PYTHON'
# Serves the folder site, slowly, says 304 where it may, and logs path and status.
import functools, http.server, os, time

class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        time.sleep(0.02)
        super().do_GET()

    def log_request(self, code="-", size="-"):
        with open("log", "a") as f:
            print(self.path, int(code), file=f)

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory="site"))
server.handle_error = lambda *args: None  # a client that was killed
with open("port.new", "w") as f:
    print(server.server_port, file=f)
os.rename("port.new", "port")
server.serve_forever()
PYTHON
: > log
python3 serve.py &
server=$!
while [ ! -e port ]; do kill -0 $server || die 'the site did not start'; sleep 0.1; done
url=http://127.0.0.1:$(cat port)

asked() { grep -c "$1" log || true; } # requests that match
captures() { grep -c "\"url\":\"$url/$1\".*\"status\":\"200\"" arc/index/index.cdxj || true; }
run() { mcrawl run arc -q "$@" > out 2>&1 || { cat out >&2; die "mcrawl run $*"; }; }

# --- crawled, killed, gone on with -------------------------------------------------

mcrawl site "$url/" --into arc --rounds 2 --contact archivist@example.org --set network.allow_net=127.0.0.0/8 \
  --set politeness.min_delay=0s --set politeness.delay_factor=0 --set politeness.addr_delay=0s > out 2>&1 &
crawl=$!
until [ "$(asked /news/)" -ge 10 ]; do kill -0 $crawl || { cat out >&2; die 'the crawl ended early'; }; sleep 0.01; done
kill -9 $crawl
wait $crawl 2> /dev/null || true
[ "$(asked /news/)" -lt 40 ] || die 'it was killed too late'
run --rounds 2
[ "$(grep -c '^/news/[0-9]*.html 200' log)" -le 42 ] || die 'more was fetched twice than was in flight'
[ "$(grep '^/news/[0-9]*.html 200' log | sort -u | wc -l)" = 40 ] || die 'a page was forgotten'
[ "$(asked '^/docs/[0-9]')" = 0 ] || die 'manuals were fetched before their round'

# --- a section excluded, while its pages wait ---------------------------------------

{ echo "deny manuals: prefix $url/docs/"; cat arc/filter.txt; } > rules
mv rules arc/filter.txt
run
[ "$(asked '^/docs/[0-9]')" = 0 ] || die 'excluded pages were fetched'
[ "$(asked '^/news/deep')" = 40 ] || die 'pages beside them were not'
! ls arc/fetch/*.open 2> /dev/null || die 'the crawl is at its end and not sealed'
[ "$(mcrawl refused arc --rule manuals | grep -c "$url/docs/[0-9]")" = 40 ] || die 'refused pages are not told'

# --- a seed added ---------------------------------------------------------------------

files=$(ls arc/fetch/*.warc.gz)
mcrawl add arc "$url/hidden/" > /dev/null
run
[ "$(captures hidden/more.html)" = 1 ] || die 'the new section is not in the index'
[ "$files" != "$(ls arc/fetch/*.warc.gz)" ] || die 'a sealed file was written to'

# --- changed pages fetched again --------------------------------------------------------

for i in 1 2 3; do
  page "news/$i.html" "News $i, corrected" "deep$i.html"
  touch -d '1 minute' "site/news/$i.html"
done
sleep 1.1
: > log
mcrawl again arc --older 1s > /dev/null
run
[ "$(asked ' 304$')" -ge 70 ] || die "$(asked ' 304$') pages were not modified"
[ "$(asked '^/docs/[0-9]')" = 0 ] || die 'excluded pages were fetched again'
for i in 1 2 3; do
  [ "$(captures "news/$i.html")" = 2 ] || die "news/$i.html has $(captures "news/$i.html") captures, want the old and the new one"
done
[ "$(captures news/4.html)" = 1 ] || die 'a page that did not change was kept twice'
mckpt verify -q arc || die 'mckpt verify'

# --- replayed, and handed on --------------------------------------------------------------

"$VENV/bin/python" "$e2e/interop.py" pages arc/index arc/index/index.cdxj 200
mcrawl export arc -q --wacz > /dev/null
"$VENV/bin/wacz" validate -f arc.wacz | grep -q 'Validation succeeded' || die 'wacz validate'
python3 -c '
import json, zipfile
lines = zipfile.ZipFile("arc.wacz").open("pages/pages.jsonl").read().decode().splitlines()
titles = [json.loads(line).get("title") for line in lines]
assert "News 1" in titles and "News 1, corrected" in titles and "Manual 1" not in titles, titles'
echo "archivist: $(wc -l < arc/index/index.cdxj) captures replayed and exported, $(wc -c < arc.wacz) bytes of WACZ"
