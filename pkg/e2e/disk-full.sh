#!/bin/sh
# Crawls on a disk that fills up in the middle of rounds, as "make disk-full" runs them.
#
#   pkg/e2e/disk-full.sh
#
# A small web is crawled on a small tmpfs, by mcrawl and by mercator.mk, with
# room for ever more of the crawl, so that now this command meets the full disk and
# now that one. Each time
#
#   - whoever met it says so once, with the file's name, and exits 1; the others of
#     the pipe exit 4, or die of the broken pipe;
#   - "mckpt verify" finds nothing wrong: nothing was half published;
#   - after room was made, the same command line ends the crawl, and what was
#     fetched equals the oracle.
#
# Then each command of a round meets a disk with not a block free, in its turn.
#
# Mounting needs root, or user namespaces ("unshare -rm"). Where there is neither,
# it says so and exits 0; with MERCATOR_NO_SKIP set that is a failure.
set -u
here=$(cd "$(dirname "$0")/../../pipelines" && pwd)
if [ -z "${BIN+x}" ]; then
  # The commands beside this script, where it stands in the source, else those in PATH.
  BIN=
  if [ -x "$here/../bin/mfetch" ] && [ -e "$here/../go.mod" ]; then
    BIN=$(cd "$here/.." && pwd)/bin/
    [ "$BIN" != "$PWD/bin/" ] || BIN=bin/
  fi
fi
: "${PAGES:=200}"
export LC_ALL=C

not_run() {
  echo "disk-full.sh: not run: $1" >&2
  [ -z "${MERCATOR_NO_SKIP:-}" ] || exit 1
  exit 0
}
if [ -z "${DISK_FULL_INSIDE:-}" ]; then
  command -v unshare > /dev/null || not_run 'there is no unshare (util-linux)'
  user=; [ "$(id -u)" = 0 ] || user=-r
  # shellcheck disable=SC2086 # no word or one
  unshare $user -m sh -c 'mount -t tmpfs none /mnt' 2> /dev/null || not_run 'neither root nor user namespaces: a tmpfs cannot be mounted'
  export DISK_FULL_INSIDE=1 BIN
  # shellcheck disable=SC2086
  exec unshare $user -m "$0" "$@"
fi

dir=$(mktemp -d)
web=
stop() {
  [ -z "$web" ] || { kill "$web" && wait "$web"; } 2> /dev/null
  umount "$dir/disk" 2> /dev/null
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP
mkdir "$dir/disk" "$dir/bin" "$dir/said"

# --- the web ------------------------------------------------------------------

"${BIN}mweb" serve --hosts 20 --pages "$PAGES" --dns 127.0.0.1:0 --ready "$dir/web.json" > /dev/null &
web=$!
until [ -s "$dir/web.json" ]; do
  kill -0 $web 2> /dev/null || { echo 'disk-full.sh: mweb did not start' >&2; exit 1; }
  sleep 0.1
done
json() { sed "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/" "$dir/web.json"; }
port=$(json port) || exit 1
"${BIN}mweb" seeds --hosts 20 --pages "$PAGES" --port "$port" > "$dir/seeds.txt"
"${BIN}mweb" oracle --hosts 20 --pages "$PAGES" --port "$port" | sort > "$dir/oracle.tsv"

cat > "$dir/crawl.toml" << END
seeds = ["$dir/seeds.txt"]
batch = $((PAGES / 2))
[frontier]
max_attempts = 1
[politeness]
min_delay = "0s"
delay_factor = 0
addr_delay = "0s"
[network]
allow_net = ["127.0.0.0/8"]
[resolve]
servers = ["$(json dns)"]
END

# What mercator.mk runs: each command through a wrapper that keeps what it says, and its exit status.
for c in mfrontier mresolve mfetch mfpset mextract murlset mckpt; do
  cat > "$dir/bin/$c" << END
#!/bin/sh
[ "\$1" != hold ] || exec "${BIN}$c" "\$@" # its words and status are those of the driver that it runs
said=\$(mktemp "$dir/said/$c.XXXXXX")
"${BIN}$c" "\$@" 2> "\$said"
status=\$?
echo "exit \$status" >> "\$said"
exit \$status
END
  chmod +x "$dir/bin/$c"
done

ln -s "$(cd "$(dirname "$(command -v "${BIN}mcrawl")")" && pwd)/mcrawl" "$dir/bin/mcrawl"

crawl() { # DRIVER
  (
    export BIN="$dir/bin/" CRAWL="$dir/disk/crawl" CONFIG="$dir/crawl.toml" TMPDIR="$dir/disk"
    case $1 in
    mcrawl) { [ -e "$CRAWL/CURRENT" ] || "$dir/bin/mckpt" init "$CRAWL" --config "$CONFIG"; } && "$dir/bin/mcrawl" run "$CRAWL" ;;
    mercator.mk) make -s -f "$here/mercator.mk" ;;
    esac
  ) > "$dir/log" 2>&1 && return
  # mcrawl runs the commands of a round itself, and passes on what one says.
  own=$(sed -n 's/^\(m[a-z]*\): .*no space left on device.*/\1/p' "$dir/log" | head -n 1)
  [ -z "$own" ] || { grep "^$own: " "$dir/log"; echo 'exit 1'; } > "$dir/said/$own.own"
  return 1
}

failed=0
wrong() {
  echo "disk-full.sh: $1" >&2
  failed=1
}

whole() { # checks a crawl that has ended
  "${BIN}mckpt" verify --quiet "$dir/disk/crawl" || wrong "$1: mckpt verify finds fault with the crawl after room was made"
  "${BIN}mcat" --format tsv --columns role,url,outcome,status "$dir"/disk/crawl/rounds/r*/marked.arrows.zst |
    awk -F '\t' '$1 == "page" { print $2 "\t" $3 "\t" $4 }' | sort > "$dir/found.tsv"
  cmp -s "$dir/oracle.tsv" "$dir/found.tsv" || {
    wrong "$1: the crawl differs from the oracle (< oracle, > crawl):"
    diff "$dir/oracle.tsv" "$dir/found.tsv" | head -5 >&2
  }
}

# judge looks at what the commands of a crawl that met the full disk said.
judge() {
  full=
  for f in "$dir"/said/*; do
    status=$(sed -n 's/^exit //p' "$f")
    command=$(basename "$f"); command=${command%.*}
    case $status in
    0 | 141) ;;
    6) [ "$command" = mfrontier ] || wrong "$1: $command: exit 6" ;; # stat --empty says no
    4) grep -q "^$command: " "$f" || wrong "$1: $command: exit 4 without a word" ;;
    1)
      full="$full $command"
      if [ "$(grep -c "^$command: .*no space left on device" "$f")" != 1 ] || ! grep -q "^$command: .*$dir/disk/.*no space" "$f"; then
        wrong "$1: $command: want one line that names the file and says that no space is left on the device:"
        cat "$f" >&2
      fi
      ;;
    *)
      wrong "$1: $command: exit $status:"
      cat "$f" >&2
      ;;
    esac
  done
}

# --- the crawls ---------------------------------------------------------------

for driver in mcrawl mercator.mk; do
  mount -t tmpfs none "$dir/disk" || exit 1
  crawl $driver || { cat "$dir/log" >&2; exit 1; }
  whole "$driver with room enough"
  need=$(du -sk "$dir/disk" | cut -f 1)
  umount "$dir/disk"
  for percent in 1 5 30 60 90; do
    size=$((need * percent / 100 / 4 * 4))
    name="$driver in $size KiB of $need"
    rm -f "$dir"/said/*
    mount -t tmpfs -o size=${size}k none "$dir/disk" || exit 1
    if crawl $driver; then
      wrong "$name: the crawl says that it is done"
    fi
    judge "$name"
    [ -n "$full" ] || { wrong "$name: no command met the full disk:"; cat "$dir/log" "$dir"/said/* >&2; }
    echo "$name: full for$full"
    echo "$full" >> "$dir/met"
    if [ -e "$dir/disk/crawl/CURRENT" ]; then
      "${BIN}mckpt" verify --quiet "$dir/disk/crawl" || wrong "$name: mckpt verify finds fault with the crawl"
    fi
    mount -o remount,size=$((need * 2))k "$dir/disk" || exit 1
    crawl $driver || { wrong "$name: not done although room was made:"; tail -5 "$dir/log" >&2; tail -n 3 "$dir"/said/* >&2; }
    whole "$name"
    umount "$dir/disk"
  done
done

# --- each command by itself -----------------------------------------------------

# on_full COMMAND ARGUMENTS: with not a block free, the command says so and leaves all as
# it was; with room, the same command line does its work.
on_full() {
  name="$1 $2 on a full disk"
  rm -f "$dir"/said/*
  head -c 64M /dev/zero > "$dir/disk/filler" 2> /dev/null
  if PATH="$dir/bin:$PATH" TMPDIR="$dir/disk" "$@" > /dev/null 2>> "$dir/log"; then
    wrong "$name: it says that it is done"
  fi
  judge "$name"
  [ "$full" = " $1" ] || { wrong "$name: it did not meet the full disk:"; cat "$dir"/said/* >&2; }
  echo "$full" >> "$dir/met"
  rm "$dir/disk/filler"
  [ ! -e "$crawl/CURRENT" ] || "${BIN}mckpt" verify --quiet "$crawl" || wrong "$name: mckpt verify finds fault with the crawl"
  PATH="$dir/bin:$PATH" TMPDIR="$dir/disk" "$@" > /dev/null 2>> "$dir/log" || { wrong "$name: not done although room was made:"; cat "$dir"/said/* >&2; }
}
mount -t tmpfs -o size=32m none "$dir/disk" || exit 1
crawl=$dir/disk/crawl z=arrows.zst
mkdir "$dir/disk/r1"
out=$dir/disk/r1
on_full mckpt init "$crawl" --quiet
on_full murlset new "$crawl/urls" --txn seed -q --text "$dir/seeds.txt" -o "$out/seed.$z"
on_full mfrontier add "$crawl/frontier" --txn seed -q "$out/seed.$z"
on_full mckpt commit "$crawl" --txn seed --quiet
on_full mfrontier next "$crawl/frontier" --txn r1 -q -n 100 -o "$out/batch.$z"
on_full mresolve "$crawl/dns" --txn r1 -q --server "$(json dns)" "$out/batch.$z" -o "$out/resolved.$z"
on_full mfetch "$crawl/fetch" --txn r1 -q --allow-net 127.0.0.0/8 --min-delay 0 --delay-factor 0 --addr-delay 0 "$out/resolved.$z" -o "$out/fetched.$z"
on_full mfpset mark "$crawl/content" --txn r1 -q "$out/fetched.$z" -o "$out/marked.$z"
on_full mextract "$out/marked.$z" --warc "$crawl/fetch" --txn r1 -q -o "$out/links.$z"
on_full murlset new "$crawl/urls" --txn r1 -q "$out/links.$z" -o "$out/new.$z"
on_full mfrontier update "$crawl/frontier" --txn r1 -q "$out/new.$z" --outcomes "$out/marked.$z" --links "$out/links.$z"
on_full mckpt commit "$crawl" --txn r1 --quiet
"${BIN}mfrontier" next "$crawl/frontier" --txn r2 -q -n 100 -o "$out/batch.$z"
on_full mckpt abandon "$crawl" --quiet
grep -q '^mckpt: hint: make room on that disk' "$dir"/said/mckpt.* || wrong 'mckpt abandon on a full disk: no hint to make room'
on_full mckpt restore "$crawl" 1 --quiet
"${BIN}mckpt" verify --quiet "$crawl" || wrong 'each command by itself: mckpt verify finds fault with the crawl'
umount "$dir/disk"

met=$(tr ' ' '\n' < "$dir/met" | sort -u | grep -c .)
[ $failed = 0 ] && echo "disk-full.sh: every crawl ended well; all $met commands met the full disk"
exit $failed
