#!/bin/sh
# An association archives its members' site: an application behind nginx that wants a login, with a certificate of its own authority; page parts on another
# host (nginx), and a picture on one that speaks HTTP/2 alone (nghttpd). It is replayed in pywb, in Chromium: no request fails.
#
#   make walks          this and the other walks
#
# Each step checks what it got. Needs nginx, nghttpd, openssl, chromium, python3 with venv, and the network for pywb from PyPI, which it installs into a
# temporary folder (VENV= names a folder that has it). The servers and Chromium contact loopback alone.
. "$(dirname "$0")/walk.sh"
for program in nginx nghttpd openssl "${CHROMIUM:=chromium}"; do command -v "$program" > /dev/null || die "no $program"; done
pids=
finish() {
  # shellcheck disable=SC2086 # one each
  [ -z "$pids" ] || kill $pids 2> /dev/null || true
  wait
  rm -rf "$work"
}
trap finish EXIT
if [ -z "${VENV:-}" ]; then
  VENV=$work/venv
  python3 -m venv "$VENV"
  "$VENV/bin/pip" install --quiet --disable-pip-version-check pywb
fi

# --- the servers ------------------------------------------------------------------

# shellcheck disable=SC2046 # four of them
set -- $(python3 -c '
import socket
all = [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]
print(*(s.getsockname()[1] for s in all))')
app=$1 tls=$2 cdn=$3 two=$4 replay=$5
site=https://127.0.0.1:$tls parts=http://127.0.0.2:$cdn
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj '/CN=Our authority' -days 2 2> /dev/null
openssl req -newkey rsa:2048 -nodes -keyout site.key -out site.csr -subj '/CN=site' 2> /dev/null
echo 'subjectAltName=IP:127.0.0.1' > san
openssl x509 -req -in site.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out site.pem -days 2 -extfile san 2> /dev/null

mkdir parts two temp
for picture in parts/photo parts/back parts/imported two/seal; do
  printf 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==' | base64 -d > $picture.png
done
printf '@import "more.css";\nbody { background: url(back.png) }\n' > parts/site.css
echo 'h1 { background: url(imported.png) }' > parts/more.css
echo 'document.title += ", with its script"' > parts/site.js
echo '<title>Elsewhere</title>' > parts/page.html

cat > app.py << 'PYTHON'
# The members' site: a form with a hidden token, and sessions of ten requests.
import http.server, secrets, sys, urllib.parse

tokens, sessions = set(), {}
head = ('<!doctype html><html lang=en><link rel=stylesheet href=%s/site.css><script src=%s/site.js></script>'
        '<title>%%s</title><h1>%%s</h1><img src=%s/photo.png><img src=%s/seal.png>' % (*[sys.argv[2]] * 3, sys.argv[3]))

class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, text="", **head):
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        for name, value in head.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        session = (self.headers["Cookie"] or "").removeprefix("session=")
        if self.path == "/login":
            tokens.add(token := secrets.token_hex())
            return self.answer(200, "<form action=/find><input name=q></form><form method=post action=/enter><input type=hidden name=token value=%s>"
                               "<input name=user><input type=password name=password></form>" % token)
        if self.path in ("/robots.txt", "/favicon.ico"):
            return self.answer(404)
        if self.path == "/logout":
            sessions.clear()
        if sessions.get(session, 0) == 0:
            return self.answer(302, Location="/login")
        sessions[session] -= 1
        links = "".join("<a href=/minutes/%d>%d</a> " % (i, i) for i in range(30)) if self.path == "/" else ""
        self.answer(200, head % (self.path, "For members") + links + '<a href=/logout>log out</a><a href="%s/page.html">elsewhere</a>' % sys.argv[2])

    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        if form.get("token") not in tokens or form.get("password") != "s3cret&more":
            return self.answer(302, Location="/login")
        sessions[session := "s3cret" + secrets.token_hex()] = 10
        self.answer(302, Location="/", Set_Cookie="session=" + session)

    def log_message(self, *args):
        print(self.path, args[2], file=sys.stderr)

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
PYTHON
user=; [ "$(id -u)" != 0 ] || user='user root;' # else nginx reads the folder as nobody
cat > nginx.conf << NGINX
daemon off; $user pid nginx.pid; error_log nginx.log; events {}
http {
  types { text/html html; text/css css; text/javascript js; image/png png; }
  access_log off; client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp; uwsgi_temp_path temp; scgi_temp_path temp;
  server {
    listen 127.0.0.1:$tls ssl; ssl_certificate site.pem; ssl_certificate_key site.key;
    location / { proxy_pass http://127.0.0.1:$app; proxy_redirect off; }
  }
  server { listen 127.0.0.2:$cdn; root $work/parts; }
}
NGINX
python3 app.py "$app" "$parts" "https://127.0.0.1:$two" 2> app.log &
pids=$!
nginx -p "$work" -c nginx.conf -e nginx.log &
pids="$pids $!"
nghttpd -a 127.0.0.1 -d two "$two" site.key site.pem > two.log &
pids="$pids $!"
answers() { # PORT HOST
  n=0
  until python3 -c "import socket; socket.create_connection(('$2', $1))" 2> /dev/null; do
    n=$((n + 1)); [ $n -lt 100 ] || { cat ./*.log >&2; die "nobody answers on port $1"; }
    sleep 0.1
  done
}
answers "$app" 127.0.0.1; answers "$tls" 127.0.0.1; answers "$cdn" 127.0.0.2; answers "$two" 127.0.0.1

# --- what the crawl says to somebody who forgot the authority, and the login ---------

if mcrawl site "$site/" --into arc --contact archivist@example.org --set politeness.min_delay=0s --set politeness.delay_factor=0 --set politeness.addr_delay=0s \
  --set frontier.max_attempts=1 --set network.allow_net=127.0.0.0/8 > out 2>&1; then die 'an unknown authority was trusted'; fi
# hinted TEXT: type the command that stands behind this text in what the crawl said
hinted() {
  sed -n "s/.*$1: \(mcrawl .*\)/\1/p" out | tail -n 1 > typed
  [ -s typed ] || { cat out >&2; die "no hint: $1"; }
  sh -e typed > out 2>&1 || { cat out >&2; die "$(cat typed)"; }
}
cp ca.pem arc/ca.pem
hinted 'then ask once more'
(umask 077; printf '%s form /login user=anna&password=s3cret%%26more\n' "$site" > arc/login.txt)
hinted 'then fetch again'
[ "$(grep -c '^/minutes/[0-9]* 200' app.log)" = 30 ] || { cat out app.log >&2; die 'pages are missing'; }
! grep -q '^/logout' app.log || die 'a log-out link was followed'
[ "$(grep -c '^/enter 302' app.log)" -ge 3 ] || die 'it did not log in again'
! grep -q page.html arc/index/index.cdxj || die 'a page of another host was fetched'
for file in arc/fetch/*.warc.gz; do gzip -dc "$file"; done | grep -aq 'WARC-Protocol: h2' || die 'nothing came over HTTP/2'

# --- no secret is anywhere but in its file ----------------------------------------------

mcrawl report arc -q -o report.html > /dev/null
mcrawl export arc arc.wacz -q --wacz > /dev/null
mckpt push arc copy > /dev/null 2>&1
mkdir unpacked
python3 -m zipfile -e arc.wacz unpacked
find arc copy unpacked report.html -type f ! -path arc/login.txt > files
while read -r file; do
  if { cat "$file"; gzip -dc "$file" || mcat "$file" || :; } 2> /dev/null | grep -aq s3cret; then die "a secret is in $file"; fi
done < files
! grep -q login.txt files || die 'the copy has the file of secrets'

# --- replayed: no request of a page fails -------------------------------------------------

"$VENV/bin/wayback" -d arc/index -p "$replay" -b 127.0.0.1 >> replay.log 2>&1 &
pids="$pids $!"
answers "$replay" 127.0.0.1
for page in / /minutes/7; do
  : > replay.log
  timeout 120 "$CHROMIUM" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --user-data-dir="$work/profile" \
    --host-resolver-rules='MAP * ~NOTFOUND , EXCLUDE 127.0.0.1' --virtual-time-budget=20000 --dump-dom "http://127.0.0.1:$replay/arc/mp_/$site$page" > dom.html 2> console
  # The frame that pywb puts around a page asks for an icon of its own.
  if grep -E '" [45][0-9][0-9] ' replay.log | grep -v 'favicon\.ico' >&2; then die "requests of $page failed"; fi
  for part in photo.png back.png imported.png seal.png site.css more.css site.js; do
    grep -q "/$part HTTP/1.1\" 200" replay.log || { cat replay.log >&2; die "$part of $page is missing"; }
  done
done
echo "members: $(wc -l < arc/index/index.cdxj) captures from behind a login, replayed in Chromium"
