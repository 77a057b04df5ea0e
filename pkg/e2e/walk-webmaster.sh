#!/bin/sh
# A webmaster's month, on a site in nginx: each night a build checks the links, and fails when one breaks; each week the site is crawled again, and what
# changed is mailed.
#
#   make walks          this and the other walks
#
# Each step checks what it got. Needs nginx, jq and python3. nginx contacts loopback alone.
. "$(dirname "$0")/walk.sh"
command -v nginx > /dev/null || die 'no nginx'
server=
finish() {
  [ -z "$server" ] || kill "$server" 2> /dev/null || true
  wait
  rm -rf "$work"
}
trap finish EXIT

# --- a site -----------------------------------------------------------------------

port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
site=http://127.0.0.1:$port
clock=0
# page FILE TEXT LINK…: nginx tells versions apart by their time, so each gets another
page() {
  file=www/$1 text=$2; shift 2
  { echo "<!doctype html><html lang=en><title>$file</title><p>$text"; for link; do echo "<a href=\"$link\">$link</a>"; done; } > "$file"
  clock=$((clock + 1))
  touch -d "2020-01-01 00:00:00 UTC + $clock minutes" "$file"
}
mkdir www temp
pages=$(seq -f 'p%g.html' 30)
# shellcheck disable=SC2086 # one each
page index.html Welcome $pages moved
for p in $pages; do page "$p" 'Some text.' /; done
user=; [ "$(id -u)" != 0 ] || user='user root;' # else nginx reads the folder as nobody
cat > nginx.conf << NGINX
daemon off; $user pid nginx.pid; error_log nginx.log; events {}
http {
  types { text/html html; }
  access_log access.log; client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp; uwsgi_temp_path temp; scgi_temp_path temp;
  server {
    listen 127.0.0.1:$port; root $work/www;
    location = /moved { return 301 /moved-on; }
    location = /moved-on { return 302 /p1.html; }
  }
}
NGINX
nginx -p "$work" -c nginx.conf -e nginx.log &
server=$!
n=0
until python3 -c "import socket; socket.create_connection(('127.0.0.1', $port))" 2> /dev/null; do
  n=$((n + 1)); [ $n -lt 100 ] || { cat nginx.log >&2; die 'nginx does not answer'; }
  sleep 0.1
done

# --- each night --------------------------------------------------------------------

# The build's script. Its exit code is that of the check.
cat > nightly << 'SCRIPT'
set -e
if [ -d www-crawl ]; then mcrawl again www-crawl --older 0s > /dev/null; fi
mcrawl site "$1" --into www-crawl -q --contact web@example.org --set network.allow_net=127.0.0.0/8 \
  --set politeness.min_delay=0s --set politeness.delay_factor=0 --set politeness.addr_delay=0s
exec mcrawl broken www-crawl --csv
SCRIPT
night() { code=0; sh nightly "$site/" > links.csv 2> said || code=$?; [ $code = "$1" ] || { cat said links.csv >&2; die "exit code $code, want $1"; }; }
night 0
rm www/p7.html
night 6
grep -q "^404,$site/p7.html,,$site/,a,p7.html,," links.csv || { cat links.csv >&2; die 'the broken link is not named'; }
[ "$(wc -l < links.csv)" = 2 ] || { cat links.csv >&2; die 'other links are'; }
sed -i 's,301 /moved-on,301 /nowhere,' nginx.conf
kill -HUP $server
until [ "$(python3 -c "import http.client as h; c = h.HTTPConnection('127.0.0.1', $port); c.request('GET', '/moved'); print(c.getresponse().headers['Location'])")" = "$site/nowhere" ]; do sleep 0.1; done
night 6
grep -q "^404,$site/moved,$site/nowhere,$site/,a,moved,," links.csv || { cat links.csv >&2; die 'a redirect to nowhere is not joined'; }
page p7.html 'Back again.' /
# shellcheck disable=SC2086
page index.html Welcome $pages
night 0

# --- each week -----------------------------------------------------------------------

for week in 1 2 3 4; do
  page "p$week.html" "Some text. Week $week." /
  page "new$week.html" "News of week $week." /
  # shellcheck disable=SC2086,SC2046
  page index.html "Week $week" $pages $(seq -f 'new%g.html' $week)
  [ "$week" != 3 ] || rm www/new1.html
  night $((week < 3 ? 0 : 6))
  mcrawl changes www-crawl --diff > mail 2> said
  grep -qx "+Some text. Week $week. /" mail || { cat mail >&2; die "the mail of week $week lacks a change"; }
  mcrawl changes www-crawl --json > changes.json 2> said
  for want in "changed $site/" "changed $site/p$week.html" "new $site/new$week.html"; do
    jq -r '.what + " " + .url' changes.json | grep -qx "$want" || { cat changes.json >&2; die "week $week: no $want"; }
  done
  [ "$week" != 3 ] || grep -q "\"what\":\"gone\",\"url\":\"$site/new1.html\"" changes.json || die 'nothing is gone'
  [ "$(wc -l < changes.json)" = $((week == 3 ? 4 : 3)) ] || { cat changes.json >&2; die "week $week: other changes"; }
done
mckpt verify -q www-crawl || die 'mckpt verify'
[ "$(grep -c '" 304 ' access.log)" -gt 150 ] || die 'pages that did not change were sent again'
echo "webmaster: $(mckpt list www-crawl | wc -l) lines of checkpoints, $(grep -c '" 304 ' access.log) pages that did not change"
