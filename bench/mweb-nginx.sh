#!/usr/bin/env bash
# How fast mweb serves, as a ratio to nginx: the same page, the same load by wrk, each server alone in turn.
#
#   bench/mweb-nginx.sh            three rounds of 5 s each
#   ROUNDS=5 SECONDS_EACH=10 CONNECTIONS=256 SITE=h4.mweb.test bench/mweb-nginx.sh
#
# It needs wrk, nginx and curl, takes bin/mweb (or MWEB=), stays on loopback, and ends what it started. It prints the
# requests/s of each round and the ratio of the medians. Its exit status is 1 if that is below RATIO (0.5).
set -euo pipefail
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-5} connections=${CONNECTIONS:-256} want=${RATIO:-0.5}
host=${SITE:-h4.mweb.test} # its root, an HTML page of about 1 KiB
mweb=${MWEB:-$(cd "$(dirname "$0")/.." && pwd)/bin/mweb}
PATH=$PATH:/usr/sbin
for tool in wrk nginx curl; do
	command -v $tool >/dev/null || { echo "mweb-nginx: $tool is not installed" >&2; exit 1; }
done
[ -x "$mweb" ] || { echo "mweb-nginx: no $mweb: run \"make build\", or set MWEB" >&2; exit 1; }

dir=$(mktemp -d)
pid=
stop() {
	[ -z "$pid" ] || { kill "$pid" && wait "$pid"; } 2>/dev/null || true
	pid=
}
trap 'stop; rm -rf "$dir"' EXIT

until_ready() { # PORT
	for _ in $(seq 100); do
		curl -sf -H "Host: $host" -o "$dir/page" "http://127.0.0.1:$1/" && return
		sleep 0.05
	done
	echo "mweb-nginx: nothing answers on port $1" >&2
	exit 1
}

start_mweb() {
	rm -f "$dir/ready"
	"$mweb" serve --one-address --size 600 --degree 2 --ready "$dir/ready" >"$dir/out" &
	pid=$!
	for _ in $(seq 100); do [ -s "$dir/ready" ] && break || sleep 0.05; done
	port=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$dir/ready")
	until_ready "$port"
}

start_nginx() {
	port=$mweb_port # free again, and known to be allowed
	mkdir -p "$dir/www"
	cp "$dir/page" "$dir/www/index.html"
	cat >"$dir/nginx.conf" <<-END
		daemon off;
		worker_processes auto;
		pid $dir/nginx.pid;
		error_log $dir/error.log;
		events { worker_connections 4096; }
		http {
			access_log off;
			default_type text/html;
			open_file_cache max=100;
			keepalive_requests 1000000000;
			client_body_temp_path $dir/t1; proxy_temp_path $dir/t2; fastcgi_temp_path $dir/t3; uwsgi_temp_path $dir/t4; scgi_temp_path $dir/t5;
			server { listen 127.0.0.1:$port backlog=4096; root $dir/www; }
		}
	END
	chmod -R a+rX "$dir"
	nginx -p "$dir" -c "$dir/nginx.conf" 2>"$dir/nginx.err" &
	pid=$!
	until_ready "$port"
}

rate() { # requests/s; fails if a reply was not 200
	wrk -t 2 -c "$connections" -d "${seconds}s" -H "Host: $host" "http://127.0.0.1:$port/" >"$dir/wrk"
	! grep -q 'Non-2xx\|Socket errors' "$dir/wrk" || { cat "$dir/wrk" >&2; exit 1; }
	awk '/^Requests\/sec/ { print $2 }' "$dir/wrk"
}
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for round in $(seq "$rounds"); do
	start_mweb
	mweb_port=$port size=$(wc -c <"$dir/page")
	rate >>"$dir/mweb.rates"
	stop
	start_nginx
	[ "$(wc -c <"$dir/page")" = "$size" ] || { echo "mweb-nginx: the pages differ in size" >&2; exit 1; }
	rate >>"$dir/nginx.rates"
	stop
	echo "round $round: mweb $(tail -n 1 "$dir/mweb.rates") nginx $(tail -n 1 "$dir/nginx.rates") requests/s, $size bytes, $connections connections"
done
awk -v m="$(median "$dir/mweb.rates")" -v n="$(median "$dir/nginx.rates")" -v want="$want" \
	'BEGIN { printf "mweb/nginx %.2f (want %.2f)\n", m / n, want; exit m / n < want }'
