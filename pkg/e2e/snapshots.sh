#!/usr/bin/env bash
# Keeps copies of a crawl over rsync and ssh, and over rclone (WebDAV, SFTP), against servers on loopback, while both ends fail.
#
#   make snapshots
#
# A small web is crawled in four parts. After each the crawl is pushed to every remote, and mckpt push is killed on
# the way, again and again, until it ends. Then mckpt pull is killed in the same way. What was pulled is verified,
# and the crawl that is pulled from the first remote goes on to its end, equal to the oracle. Then, for each remote: a disk
# that is full, a server that is gone or frozen, a file that is damaged, another crawl, a folder without a snapshot. Each time
# there is one error, and the same command goes on. It prints what a push costs.
#
# Needs Debian's rclone, rsync, openssh-server and openssh-client. The full disk needs root, who can mount a tmpfs; without, a program that
# fails in the same way stands in for rsync.
set -euo pipefail
here=$(cd "$(dirname "$0")/../../pipelines" && pwd)
BIN=${BIN:-$(cd "$here/.." && pwd)/bin/}
export PATH=$BIN:$PATH:/usr/sbin LC_ALL=C
: "${PAGES:=60}" "${HOSTS:=8}"

work=$(mktemp -d)
pids=()
finish() {
  status=$?
  trap - EXIT INT TERM
  exec 9>&- || true
  for pid in "${pids[@]}"; do { kill -CONT "$pid" && kill "$pid"; } 2> /dev/null || true; done
  wait 2> /dev/null || true
  umount "$work/disk" 2> /dev/null || true
  if [ $status = 0 ]; then rm -rf "$work"; else echo "snapshots.sh: what there is to see lies in $work" >&2; fi
  exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
die() { echo "snapshots.sh: $*" >&2; exit 1; }
for p in rclone rsync sshd ssh ssh-keygen; do command -v $p > /dev/null || die "$p is not there"; done

# --- servers ------------------------------------------------------------------

free() { # a port that nobody has
  local port
  for _ in $(seq 50); do
    port=$(shuf -i 20000-29999 -n 1)
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null || { echo "$port"; return; }
  done
  die 'no free port'
}
up() { # PORT: waits until somebody listens
  for _ in $(seq 100); do (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null && return; sleep 0.1; done
  die "nobody listens on port $1: $(cat "$work"/*.log)"
}
ssh_port=$(free)
ssh-keygen -q -t ed25519 -N '' -f "$work/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$work/key"
cp "$work/key.pub" "$work/authorized_keys"
cat > "$work/sshd_config" << END
Port $ssh_port
ListenAddress 127.0.0.1
HostKey $work/host_key
AuthorizedKeysFile $work/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
MaxStartups 100
END
cat > "$work/ssh_config" << END
Host remote
  HostName 127.0.0.1
  Port $ssh_port
  IdentityFile $work/key
  UserKnownHostsFile $work/known_hosts
  StrictHostKeyChecking accept-new
  LogLevel ERROR
END
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd # which sshd asks for
serve_ssh() {
  "$(command -v sshd)" -D -e -f "$work/sshd_config" 2>> "$work/sshd.log" 9>&- &
  sshd=$!
  pids+=("$sshd")
  up "$ssh_port"
}
serve_ssh
export RSYNC_RSH="ssh -F $work/ssh_config"

export RCLONE_CONFIG=$work/rclone.conf RCLONE_LOW_LEVEL_RETRIES=2 RCLONE_RETRIES=1 RCLONE_CONTIMEOUT=5s
: > "$RCLONE_CONFIG"
dav_port=$(free) sftp_port=$(free)
mkdir "$work/dav" "$work/sftp" "$work/ssh"
rclone serve webdav "$work/dav" --addr "127.0.0.1:$dav_port" --vfs-cache-mode off --dir-cache-time 0 2> "$work/dav.log" 9>&- &
dav=$!
pids+=("$dav")
rclone serve sftp "$work/sftp" --addr "127.0.0.1:$sftp_port" --user u --pass p --vfs-cache-mode off --dir-cache-time 0 2> "$work/sftp.log" 9>&- &
pids+=($!)
up "$dav_port"
up "$sftp_port"
rclone config create dav webdav "url=http://127.0.0.1:$dav_port" vendor=other > /dev/null
rclone config create sftp sftp host=127.0.0.1 "port=$sftp_port" user=u "pass=$(rclone obscure p)" > /dev/null

names=(ssh webdav sftp)
declare -A remote=([ssh]="remote:$work/ssh/copy" [webdav]='rclone:dav:copy' [sftp]='rclone:sftp:copy')
declare -A behind=([ssh]="$work/ssh/copy" [webdav]="$work/dav/copy" [sftp]="$work/sftp/copy")

# --- the web --------------------------------------------------------------------

mkfifo "$work/hold"
mweb serve --until-stdin-closes --seed 5 --hosts "$HOSTS" --pages "$PAGES" < "$work/hold" > "$work/ready" 2> "$work/mweb.log" &
pids+=($!)
exec 9> "$work/hold"
for _ in $(seq 100); do [ -s "$work/ready" ] && break; sleep 0.1; done
port=$(sed -E 's/.*"port":([0-9]+).*/\1/' "$work/ready" | head -1)
dns=$(sed -E 's/.*"dns":"([^"]+)".*/\1/' "$work/ready" | head -1)
sed -E 's/.*"seeds":\[([^]]*)\].*/\1/; s/"//g' "$work/ready" | head -1 | tr , '\n' > "$work/seeds.txt"
mweb oracle --seed 5 --hosts "$HOSTS" --pages "$PAGES" --port "$port" | sort > "$work/oracle"
mcrawl new "$work/crawl" --quiet --seeds "$work/seeds.txt" --contact snapshots@example.org --set batch=60 --set politeness.min_delay=0s --set politeness.delay_factor=0.0 \
  --set politeness.addr_delay=0s --set network.allow_net=127.0.0.0/8 --set "resolve.servers=$dns" --set frontier.max_attempts=1 --set extract.filter= 9>&-

echo odd > "$work/crawl/#odd" # in lists for rsync a comment, if it has a line of its own

# --- kills ------------------------------------------------------------------------

# killed COMMAND…: runs it until it ends by itself, killing it after ever longer. It prints how often.
killed() {
  local n=0 wait status
  while true; do
    wait=$(awk -v n=$n 'BEGIN { printf "%.3f", 0.05 * 1.7 ^ n }')
    status=0
    timeout -s KILL "$wait" "$@" > /dev/null 2> "$work/said" 9>&- || status=$?
    case $status in
      0) echo $n; return ;;
      137 | 124) n=$((n + 1)) ;;
      *) cat "$work/said" >&2; die "exit $status: $*" ;;
    esac
  done
}
# refused CODE PATTERN COMMAND…: it ends with that code, one error and at most one hint.
refused() {
  local code=$1 pattern=$2 status=0
  shift 2
  "$@" > /dev/null 2> "$work/said" 9>&- || status=$?
  [ $status = "$code" ] || { cat "$work/said" >&2; die "exit $status, want $code: $*"; }
  grep -Eq "$pattern" "$work/said" || { cat "$work/said" >&2; die "no error like '$pattern': $*"; }
  [ "$(grep -c '^mckpt: ' "$work/said")" -le 2 ] || { cat "$work/said" >&2; die "more than an error and a hint: $*"; }
}

kills=0
for part in 1 2 3 4; do
  mcrawl run "$work/crawl" --quiet --rounds $part > /dev/null 2>&1 9>&-
  for name in "${names[@]}"; do
    if [ $part -lt 3 ]; then
      kills=$((kills + $(killed mckpt push --lock-wait 60s "$work/crawl" "${remote[$name]}")))
    else
      began=$(date +%s%N)
      mckpt push "$work/crawl" "${remote[$name]}" --json 9>&- > "$work/done"
      ended=$(date +%s%N)
      printf '%-8s a push after a round of 60 URLs: %.2f s, %s files, %s bytes\n' "$name" "$(awk "BEGIN { print ($ended - $began) / 1e9 }")" \
        "$(sed -nE 's/.*"copied_files": ([0-9]+).*/\1/p' "$work/done")" "$(sed -nE 's/.*"copied_bytes": ([0-9]+).*/\1/p' "$work/done")"
    fi
  done
done
for name in "${names[@]}"; do
  began=$(date +%s%N)
  mckpt push "$work/crawl" "${remote[$name]}" 9>&- 2> "$work/said"
  ended=$(date +%s%N)
  grep -q 'sent: 0 files, 0 bytes' "$work/said" || die "$name: $(cat "$work/said")"
  printf '%-8s a push of nothing new: %.2f s\n' "$name" "$(awk "BEGIN { print ($ended - $began) / 1e9 }")"
done
[ $kills -ge 3 ] || die "only $kills kills of a push"
pulls=0
for name in "${names[@]}"; do
  pulls=$((pulls + $(killed mckpt pull --lock-wait 60s "${remote[$name]}" "$work/pulled-$name")))
  mckpt verify "$work/pulled-$name" 2> /dev/null || die "$name: what was pulled is not as it was pushed"
  cmp "$work/crawl/#odd" "$work/pulled-$name/#odd"
done
[ $pulls -ge 3 ] || die "only $pulls kills of a pull"
echo "killed: push $kills times, pull $pulls times"

# --- what goes wrong at a remote -----------------------------------------------------

mckpt init --quiet "$work/other" 9>&-
for name in "${names[@]}"; do
  at=${behind[$name]}
  refused 1 'snapshot [0-9]+: it is of another crawl' mckpt push "$work/other" "${remote[$name]}"
  refused 2 'no snapshot' mckpt pull "${remote[$name]}-nowhere" "$work/new"
  [ ! -e "$work/new" ] || die "$name: a folder was made of nothing"
  # A damaged file, of its length.
  file=$(find "$at/urls/runs" -type f | sort | head -1)
  printf x | dd of="$file" bs=1 seek=30 conv=notrunc status=none
  refused 3 'other bytes than were sent' mckpt pull "${remote[$name]}" "$work/new"
  mckpt push "$work/crawl" "${remote[$name]}" --check 9>&- 2> "$work/said"
  grep -q ' 1 damaged file there sent again' "$work/said" || die "$name: $(cat "$work/said")"
  mckpt pull "${remote[$name]}" "$work/new" 9>&- 2> /dev/null
  rm -rf "$work/new"
  # One that was cut.
  truncate -s 10 "$file"
  refused 3 '10 bytes, want' mckpt pull "${remote[$name]}" "$work/new"
  rm -rf "$work/new"
  mckpt push "$work/crawl" "${remote[$name]}" 9>&- 2> "$work/said"
  grep -q 'sent: 1 file,' "$work/said" || die "$name: $(cat "$work/said")"
done
# The first machine comes back after another has taken over.
mcrawl run "$work/pulled-ssh" --quiet --rounds 5 > /dev/null 2>&1 9>&-
mckpt push "$work/pulled-ssh" "${remote[ssh]}" 9>&- 2> /dev/null
refused 1 'another folder has taken this crawl over' mckpt push "$work/crawl" "${remote[ssh]}"

# Servers that are frozen: what mckpt tells ssh ends the wait (30 s), and rclone's own bounds.
mkdir "$work/frozen"
printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$work/ssh_config" > "$work/frozen/ssh"
chmod +x "$work/frozen/ssh"
kill -STOP "$sshd" "$dav"
began=$SECONDS
refused 1 'rsync: exit status (12|255): .*timed out' env -u RSYNC_RSH "PATH=$work/frozen:$PATH" timeout 100 mckpt push "$work/pulled-ssh" "${remote[ssh]}"
echo "a frozen sshd: an error after $((SECONDS - began)) s"
began=$SECONDS
refused 1 'rclone: exit status' env RCLONE_TIMEOUT=3s timeout 100 mckpt push "$work/crawl" "${remote[webdav]}"
echo "a frozen WebDAV server, with a bound of 3 s: an error after $((SECONDS - began)) s"
kill -CONT "$sshd" "$dav"
env -u RSYNC_RSH "PATH=$work/frozen:$PATH" mckpt push "$work/pulled-ssh" "${remote[ssh]}" 9>&- 2> /dev/null

# A server that is gone, and comes back.
kill "$sshd"
wait "$sshd" 2> /dev/null || true
refused 1 'rsync: exit status [0-9]+: ssh: connect' mckpt push "$work/pulled-ssh" "${remote[ssh]}"
refused 1 'rsync: exit status [0-9]+: ssh: connect' mckpt pull "${remote[ssh]}" "$work/new"
serve_ssh
mckpt push "$work/pulled-ssh" "${remote[ssh]}" 9>&- 2> /dev/null

# A full disk, on which the snapshot before stays.
if [ "$(id -u)" = 0 ] && mkdir "$work/disk" && mount -t tmpfs -o size=200m none "$work/disk" 2> /dev/null; then
  mckpt push "$work/crawl" "remote:$work/disk/copy" 9>&- 2> /dev/null
  dd if=/dev/zero of="$work/disk/ballast" bs=64k status=none 2> /dev/null || true
  mcrawl run "$work/crawl" --quiet --rounds 5 > /dev/null 2>&1 9>&-
  # rsync may end before it has read what the other side says of its disk.
  refused 1 'No space left on device|full disk' mckpt push "$work/crawl" "remote:$work/disk/copy"
  refused 1 'no space left on device' mckpt push "$work/crawl" "$work/disk/copy"
  mckpt pull "remote:$work/disk/copy" "$work/new" 9>&- 2> /dev/null
  [ "$(mckpt show "$work/new" --next-round)" = 5 ] || die 'the snapshot before is not there'
  rm -rf "$work/new" "$work/disk/ballast"
  mckpt push "$work/crawl" "remote:$work/disk/copy" 9>&- 2> /dev/null
  echo 'full disk: a tmpfs'
else
  mkdir "$work/bin"
  printf '#!/bin/sh\ncase "$*" in *copy-links*) echo "rsync: [receiver] write failed on \\"x\\": No space left on device (28)" >&2; exit 11;; esac\nexec %s "$@"\n' "$(command -v rsync)" > "$work/bin/rsync"
  chmod +x "$work/bin/rsync"
  mcrawl run "$work/pulled-ssh" --quiet --rounds 6 > /dev/null 2>&1 9>&-
  PATH=$work/bin:$PATH refused 1 'No space left on device' mckpt push "$work/pulled-ssh" "${remote[ssh]}"
  mckpt push "$work/pulled-ssh" "${remote[ssh]}" 9>&- 2> /dev/null
  echo 'full disk: a program that fails'
fi

# --- the end ----------------------------------------------------------------------

mckpt pull "${remote[ssh]}" "$work/last" 9>&- 2> /dev/null
mcrawl run "$work/last" --quiet > /dev/null 2>&1 9>&-
mcat --format tsv --columns url,outcome,status,role "$work/last" | sed -n 's/\tpage$//p' | grep -v "$(printf '\tdeferred\t')" | sort > "$work/found"
cmp "$work/oracle" "$work/found" || die 'the crawl differs from the oracle'
mckpt verify "$work/last" 2> /dev/null
echo "the crawl that was pulled equals the oracle: $(wc -l < "$work/oracle") URLs"
