#!/usr/bin/env bash
# Crawls webs of many hosts, some slow, some dead, some hostile, some with dead addresses, walls of
# cookies, redirects and menus without end, while commands and the driver itself are killed at random; each to its end. Then checks what must hold:
#
#   - each URL has exactly one outcome, the one that the web's oracle tells, so
#     none of this machine's own making;
#   - none was asked for twice, but for what was in flight at a kill, and the entrances of
#     walls, which are asked again with the cookie;
#   - verify, the frontier's check and the audit of politeness find nothing;
#   - every WARC file can be read.
#
#   make soak              two minutes, as CI does
#   make soak MINUTES=60   more webs, and larger ones
#
# SEED= chooses the first web and the kills. Needs Linux (/proc). It ends at most four minutes after
# MINUTES: each host that hangs is put off for up to 40 s, at a crawl's end too. It leaves no process
# behind, and its files only if something was wrong.
set -euo pipefail
here=$(cd "$(dirname "$0")/../../pipelines" && pwd)
: "${MINUTES:=2}" "${SEED:=1}" "${HOSTS:=120}" "${PAGES:=$((1500 + MINUTES * 300))}"
: "${BIN:=$(cd "$here/.." && pwd)/bin/}"
export BIN
end=$((SECONDS + MINUTES * 60))
RANDOM=$SEED
connections=64
in_flight=$((connections + 64)) # and what had ended but was not in the archive yet

dir=$(mktemp -d)
grep -E '^deny (repeated-menu|repeated-segments):' "$here/../pkg/web/filter/default.rules" > "$dir/menus.rules" # what ends menus; the oracle knows of no other rule
web='' driver='' sessions='' webs=0
finish() {
  status=$?
  trap - EXIT INT TERM
  end_sessions
  [ -z "$web" ] || end_web
  if [ $status = 0 ]; then rm -rf "$dir"; else echo "soak.sh: what there is to see lies in $dir" >&2; fi
  exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

wrong() { echo "soak.sh: seed $SEED: $*" >&2; exit 1; }

# running prints the processes of the drivers' sessions as "PID SESSION". A session has the number of
# the driver that began it, which no other process gets while one of the session lives.
running() {
  local file stat pid rest
  for file in /proc/[0-9]*/stat; do
    { read -r stat < "$file"; } 2> /dev/null || continue
    pid=${stat%% *} rest=${stat##*) }
    # shellcheck disable=SC2086 # state ppid pgrp session …; a Z has ended
    set -- $rest
    case " $sessions " in *" $4 "*) [ "$1" = Z ] || echo "$pid $4" ;; esac
  done
}

# end_sessions kills all that drivers have left.
end_sessions() {
  local pid session
  while [ -n "$(running)" ]; do
    running | while read -r pid session; do kill -9 "$pid" 2> /dev/null || true; done
    sleep 0.1
  done
}

end_web() { kill "$web" 2> /dev/null || true; wait "$web" 2> /dev/null || true; web=; }

start() { # runs a driver in a session of its own; what the one before has left may still run
  sessions=$(running | cut -d ' ' -f 2 | sort -u | tr '\n' ' ')
  if [ $((RANDOM % 2)) = 0 ]; then
    setsid "${BIN}mcrawl" run "$CRAWL" >> "$dir/log" 2>&1 9>&- &
  else
    setsid make --no-print-directory -f "$here/mercator.mk" >> "$dir/log" 2>&1 9>&- &
  fi
  driver=$!
  sessions="$sessions $driver"
}

while [ $webs = 0 ] || [ $SECONDS -lt $((end - 30)) ]; do
  began=$SECONDS kills=0
  flags="--seed $SEED --hosts $HOSTS --pages $PAGES --rough"
  export CRAWL=$dir/crawl
  rm -rf "$CRAWL" "$dir/web.json" "$dir/requests.tsv"
  # shellcheck disable=SC2086 # a list of flags
  "${BIN}mweb" serve $flags --ready "$dir/web.json" --log "$dir/requests.tsv" > /dev/null 2> "$dir/web.log" &
  web=$!
  while [ ! -e "$dir/web.json" ]; do kill -0 $web || wrong "the web did not start"; sleep 0.1; done
  port=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$dir/web.json")
  # shellcheck disable=SC2086
  { "${BIN}mweb" seeds $flags --port "$port" > "$dir/seeds.txt"; "${BIN}mweb" oracle $flags --port "$port" | LC_ALL=C sort > "$dir/oracle.tsv"; }
  "${BIN}mcrawl" new --quiet "$CRAWL" --seeds "$dir/seeds.txt" --set extract.filter="$dir/menus.rules" --set batch=$((PAGES / 6)) --set frontier.max_attempts=1 \
    --set resolve.servers="$(sed 's/.*"dns":"\([^"]*\)".*/\1/' "$dir/web.json")" --set network.allow_net=127.0.0.0/8,::1/128 \
    --set fetch.connections=$connections --set fetch.timeout=2s --set politeness.min_delay=5ms --set politeness.delay_factor=0 --set politeness.addr_delay=0s

  # Kills, a second or so apart, for a third of the time that is left; then to the end.
  kill_until=$((SECONDS + (end - SECONDS) / 3)) status=1
  while [ $status != 0 ]; do
    killing=$((SECONDS < kill_until)) due=$((RANDOM % 30 + 3)) # tenths of a second
    start
    while kill -0 "$driver" 2> /dev/null; do
      sleep 0.1
      if [ $SECONDS -gt $((end + 240)) ]; then wrong "the crawl does not come to its end in time: $(tail -5 "$dir/log")"; fi
      if [ $killing = 0 ] || [ $((due -= 1)) -gt 0 ]; then continue; fi
      due=$((RANDOM % 30 + 3))
      mapfile -t list < <(running)
      if [ ${#list[@]} -gt 0 ] && read -r victim session <<< "${list[RANDOM % ${#list[@]}]}" && kill -9 "$victim" 2> /dev/null; then kills=$((kills + 1)); fi
    done
    status=0
    wait "$driver" 2> /dev/null || status=$?
    # A make whose driver was killed may go on for longer than the next driver waits, which then says who holds the crawl.
    if [ $status != 0 ] && [ $killing = 0 ] && ! tail -4 "$dir/log" | grep -Eq '^(mckpt|mcrawl): .*: held by process'; then wrong "without kills the driver ended with $status: $(tail -5 "$dir/log")"; fi
  done
  end_sessions

  set -- "$CRAWL"/rounds/r*/marked.arrows.zst
  # A page that was asked again, as only the entrance of a wall is, has the outcome of its last contact.
  "${BIN}mcat" --format tsv --columns role,url,outcome,status,fetch_time "$@" |
    awk -F '\t' -v OFS='\t' '$3 == "deferred" { next }
      $1 == "page" { page[++n] = $2; line[n] = $2 OFS $3 OFS $4 }
      $1 == "again" && $5 >= last[$2] { last[$2] = $5; again[$2] = $2 OFS $3 OFS $4 }
      END {
        for (i = 1; i <= n; i++) { print page[i] in again ? again[page[i]] : line[i]; known[page[i]] = 1 }
        for (url in again) if (!(url in known) || url !~ "/wall/[a-z]+/0$") print again[url], "asked again"
      }' | LC_ALL=C sort > "$dir/found.tsv"
  cmp -s "$dir/oracle.tsv" "$dir/found.tsv" || wrong "the crawl differs from the oracle (< oracle, > crawl):
$(diff "$dir/oracle.tsv" "$dir/found.tsv" | head -20)"
  again=$(awk -F '\t' '$5 != "\"/robots.txt\"" && $6 != 0 && n[$4 $5]++ > ($5 ~ "^\"/wall/[a-z]+/0\"$") { again++ } END { print again + 0 }' "$dir/requests.tsv")
  [ "$again" -le $((kills * in_flight)) ] || wrong "$again URLs were asked for again, in flight were at most $((kills * in_flight))"
  "${BIN}mckpt" verify --quiet "$CRAWL" || wrong "mckpt verify"
  "${BIN}mfrontier" check --quiet "$CRAWL/frontier" || wrong "mfrontier check"
  "${BIN}mfrontier" stat --empty "$CRAWL/frontier" || wrong "URLs are left"
  "${BIN}mfetch" audit --quiet --min-delay 5ms --delay-factor 0 --addr-delay 0 "$@" > "$dir/audit" || wrong "mfetch audit: $(head -3 "$dir/audit")"
  "${BIN}mcat" --quiet --check "$CRAWL"/fetch/*.warc.gz* || wrong "a WARC file cannot be read"
  echo "seed $SEED: $(wc -l < "$dir/found.tsv") URLs equal the oracle after $kills kills, $again asked for again, $((SECONDS - began)) s; pages/s by round:"
  for file; do
    "${BIN}mcat" --format tsv --columns role,outcome,fetch_time "$file" | awk -F '\t' '
      $1 == "page" && $2 == "fetched" { split(substr($3, 12), t, /[:Z]/); s = t[1] * 3600 + t[2] * 60 + t[3]
        if (!n++ || s < first) first = s; if (s > most) most = s }
      END { printf " %d", n ? n / (most - first > 0.1 ? most - first : 0.1) : 0 }'
  done
  echo
  end_web
  webs=$((webs + 1)) SEED=$((SEED + 1))
done
