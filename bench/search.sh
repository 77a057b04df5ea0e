#!/usr/bin/env bash
# What an index of msearch takes, on pages that nobody here wrote: the HTML files of the Debian packages below DOCS, crawled from loopback.
#
#   bench/search.sh                      KB a document, seconds to build, ms a query
#   BEFORE=DIR/ bench/search.sh          the same with the msearch in DIR, in turns
#   CRAWL=DIR bench/search.sh            keeps the crawl there, or takes the one that is there
#
# ROUNDS= is how often each is built [3], QUERIES= how often each query is asked [5]. It needs python3, whose SQLite also says which table takes what.
# A query's time has the start of the command; the least counts.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C
bin=${BIN:-$here/bin/}
docs=${DOCS:-/usr/share/doc/apache2-doc /usr/share/doc/postgresql-doc-15 /usr/share/doc/python3.11 /usr/share/doc/cmake-doc /usr/share/doc/r-doc-html /usr/share/doc/libcairo2-doc}
dir=$(mktemp -d)
web=
trap 'if [ -n "$web" ]; then kill "$web"; fi; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
crawl=${CRAWL:-$dir/crawl}

if [ ! -d "$crawl" ]; then
	python3 -c '
import functools, http.server
class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory="/usr/share/doc"))
print(s.server_port, flush=True)
s.serve_forever()' > "$dir/port" &
	web=$!
	until [ -s "$dir/port" ]; do sleep 0.1; done
	# shellcheck disable=SC2086
	find -L $docs -name '*.html' | LC_ALL=C sort | sed "s|^/usr/share/doc|http://127.0.0.1:$(cat "$dir/port")|" > "$dir/seeds"
	"${bin}mcrawl" new "$crawl" --seeds "$dir/seeds" --contact bench@example.org --set network.allow_net=127.0.0.0/8 --set politeness.min_delay=0s \
		--set politeness.delay_factor=0 --set politeness.addr_delay=0s --set batch=1000000 --set round_time=0s > "$dir/log" 2>&1
	"${bin}mcrawl" run "$crawl" -q --rounds 1 > "$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
fi

python3 - "$crawl" "${ROUNDS:-3}" "${QUERIES:-5}" "$bin" ${BEFORE:+"$BEFORE"} <<'PY'
import glob, os, resource, sqlite3, statistics, subprocess, sys, time
crawl, rounds, repeats, bins = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
queries = ["fsync", "autovacuum_naptime", "the", "file", '"regular expression"', '"the name of the"', "conf*", "s*", "replication slot", "virtual host -module"]
names = {"rare": [0, 1], "common": [2, 3], "phrase": [4, 5], "prefix": [6, 7], "two words": [8, 9]}
db = os.path.join(crawl, "search.db")
built, asked, size, docs, tables = {b: [] for b in bins}, {b: {} for b in bins}, {}, {}, {}
def run(*args):
    before, at = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode not in (0, 6):
        sys.exit(p.stderr.decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - at, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
for _ in range(rounds):
    for b in bins:
        for f in glob.glob(db + "*"):
            os.remove(f)
        built[b].append(run(b + "msearch", "update", "-q", crawl))
        size[b] = os.path.getsize(db)
        c = sqlite3.connect(db)
        docs[b] = c.execute("SELECT count(*) FROM doc").fetchone()[0]
        tables[b] = c.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC").fetchall()
        c.close()
        for q in queries:
            for _ in range(repeats):
                asked[b].setdefault(q, []).append(run(b + "msearch", "query", "--json", "--", crawl, q)[1])
for b in bins:
    wall, cpu = (statistics.median(v) for v in zip(*built[b]))
    print(f"{b}: {docs[b]} documents, {size[b] / docs[b] / 1000:.2f} KB each; built in {wall:.1f} s, {cpu:.1f} of processor")
    print("  bytes a document: " + ", ".join(f"{n} {s / docs[b]:.0f}" for n, s in tables[b]))
    print("  ms of processor a query: " + ", ".join(f"{n} {sum(min(asked[b][queries[i]]) for i in of) / len(of) * 1000:.0f}" for n, of in names.items()))
PY
