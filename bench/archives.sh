#!/usr/bin/env bash
# What our commands read in archives and PDF files, beside what others read: record counts, statuses, keys and digests beside warcio,
# FastWARC and cdxj-indexer, words and links of PDF files beside pypdf.
#
#   bench/archives.sh FILE...      WARC, ARC and PDF files (a few hundred a minute)
#   bench/archives.sh              the archives and PDF files of the tests, and archives that GNU Wget, warcio, FastWARC, warcit and
#                                  pywb's recorder make of a small web on loopback (make archives)
#
# Differences are counted by kind, and each kind says whose they are. One that no kind explains is printed, and the exit code is 1.
#
# Needs python3 with venv and the network for what it installs into a temporary folder, from PyPI: warcio, fastwarc, cdxj-indexer, warcit,
# pywb, pypdf and setuptools below 81, which pywb imports (VENV= names a folder that has them); without files also wget.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
export BIN=${BIN:-$here/bin/}
work=$(mktemp -d)
pids=()
ended() { for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" 2> /dev/null || :; wait "$pid" 2> /dev/null || :; done; rm -rf "$work"; }
trap ended EXIT
trap 'exit 130' INT TERM HUP
if [ -z "${VENV:-}" ]; then
	VENV=$work/venv
	python3 -m venv "$VENV"
	"$VENV/bin/pip" install --quiet --disable-pip-version-check warcio fastwarc cdxj-indexer warcit pywb pypdf 'setuptools<81'
fi
PATH=$VENV/bin:$PATH

# port waits for the file into which a server writes its port.
port() {
	for _ in $(seq 600); do
		[ ! -s "$1" ] || { cat "$1"; return; }
		sleep 0.1
	done
	echo "archives.sh: $1: no server" >&2
	exit 1
}

# made makes archives by other programs, of a web of a few pages.
made() {
	mkdir -p "$work/web/sub" "$work/made"
	for n in 1 2 3 4 5 6; do
		echo "<!doctype html><title>Page $n</title><p>words of page $n <a href=/sub/$n.html>next</a> <img src=/i.png>" > "$work/web/$n.html"
		echo "<p>page below $n, <a href=../$(((n + 1) % 6 + 1)).html>on</a>" > "$work/web/sub/$n.html"
	done
	cp "$work/web/1.html" "$work/web/index.html"
	printf '\211PNG\r\n\032\n' > "$work/web/i.png"
	cat > "$work/web.py" <<-'PY'
		import functools, http.server, sys
		class Quiet(http.server.SimpleHTTPRequestHandler):
		    protocol_version = "HTTP/1.1"
		    def log_message(self, *args): pass
		s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=sys.argv[1]))
		with open(sys.argv[2] + ".new", "w") as f: f.write(str(s.server_port))
		import os; os.rename(sys.argv[2] + ".new", sys.argv[2])
		s.serve_forever()
	PY
	python3 "$work/web.py" "$work/web" "$work/port" &
	pids+=($!)
	web=http://127.0.0.1:$(port "$work/port")

	(cd "$work/made" && no_proxy='*' wget -q -r -l 3 -e robots=off --delete-after --warc-file=wget --warc-cdx "$web/" 2> /dev/null
		no_proxy='*' wget -q -r -l 3 -e robots=off --delete-after --warc-file=wget-dedup --warc-dedup=wget.cdx "$web/" 2> /dev/null
		no_proxy='*' wget -q --no-warc-compression -e robots=off --delete-after --warc-file=wget-plain "$web/1.html" 2> /dev/null
		rm -f wget.cdx)
	python3 - "$web" "$work/made" <<-'PY'
		import http.client, sys
		from warcio.capture_http import capture_http
		import requests
		web, to = sys.argv[1:]
		for name, version in ("warcio.warc.gz", "1.0"), ("warcio-1.1.warc", "1.1"):
		    with requests.Session() as s, capture_http(to + "/" + name, warc_version=version):
		        s.trust_env = False
		        for n in range(1, 7): s.get("%s/%d.html" % (web, n)); s.get("%s/none/%d" % (web, n))
	PY
	warcio recompress "$work/made/wget-plain.warc" "$work/made/warcio-recompressed.warc.gz" > /dev/null
	fastwarc recompress -q -c gzip "$work/made/wget-plain.warc" "$work/made/fastwarc.warc.gz" > /dev/null 2>&1 ||
		python3 - "$work/made/wget-plain.warc" "$work/made/fastwarc.warc.gz" <<-'PY'
			import sys
			from fastwarc.stream_io import GZipStream, FileStream
			from fastwarc.warc import ArchiveIterator
			out = GZipStream(FileStream(sys.argv[2], "wb"))
			for r in ArchiveIterator(FileStream(sys.argv[1], "rb"), parse_http=False): r.write(out)
			out.close()
		PY
	(cd "$work" && warcit --quiet -o --name "$work/made/warcit.warc.gz" http://site.example/ web/ > /dev/null 2>&1)

	# pywb records what is asked of it as a proxy would: /live/record/URL.
	mkdir "$work/pywb"
	(cd "$work/pywb" && wb-manager init rec > /dev/null 2>&1)
	python3 - "$work/pywb" "$work/pywb.port" > "$work/pywb.log" 2>&1 <<-'PY' &
		import os, sys
		os.chdir(sys.argv[1])
		with open("config.yaml", "w") as f: f.write("recorder: live\ncollections:\n  live: $live\n")
		from gevent import monkey; monkey.patch_all()
		from gevent.pywsgi import WSGIServer
		from pywb.apps.frontendapp import FrontEndApp
		app = FrontEndApp(config_file="./config.yaml", custom_config={"enable_auto_colls": True, "debug": True})
		s = WSGIServer(("127.0.0.1", 0), app); s.start()
		with open(sys.argv[2] + ".new", "w") as f: f.write(str(s.server_port))
		os.rename(sys.argv[2] + ".new", sys.argv[2])
		s.serve_forever()
	PY
	pids+=($!)
	pywb=http://127.0.0.1:$(port "$work/pywb.port")
	for n in 1 2 3; do no_proxy='*' wget -q -O /dev/null "$pywb/rec/record/id_/$web/$n.html" || { tail -5 "$work/pywb.log" >&2; exit 1; }; done
	n=0
	for _ in $(seq 100); do
		n=$(find "$work/pywb/collections" -name '*.warc.gz' -size +1k | wc -l)
		[ "$n" = 0 ] || break
		sleep 0.1
	done
	for f in "$work"/pywb/collections/rec/archive/*.warc.gz; do cp "$f" "$work/made/pywb.warc.gz"; done
	for program in wget wget-dedup warcio fastwarc warcit pywb; do
		[ -s "$work/made/$program.warc.gz" ] || { echo "archives.sh: $program made no archive" >&2; exit 1; }
	done
}

if [ $# = 0 ]; then
	made
	set -- "$work"/made/*.warc* "$here"/formats/warc/testdata/good/0[2-9]*.warc* "$here"/formats/warc/testdata/other/*arc* "$here"/pkg/web/pdf/testdata/*.pdf
fi
python3 "$here/bench/archives.py" "$@"
