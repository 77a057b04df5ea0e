#!/bin/sh
# FP64 beside MD5 and SHA-1, which the papers name as checksums of URLs and documents,
# and beside CRC-64 of Go's standard library.
#
#   bench/fingerprint.sh
#
# Prints a Markdown table: for each length the least time of RUNS runs, which take
# turns; the rate; and how many times longer than FP64's it is.
#
# Variables: RUNS of each [20]; TIME of a run [10ms]; GO, the go command [go]
set -eu
cd "$(dirname "$0")/.."
: "${RUNS:=20}" "${TIME:=10ms}" "${GO:=go}"

out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$GO" test -c -o "$out.test" ./pkg/base/fingerprint
trap 'rm -f "$out" "$out.test"' EXIT
for _ in $(seq "$RUNS"); do
  "$out.test" -test.run '^$' -test.bench Checksums -test.benchtime "$TIME" >> "$out"
done
echo '| bytes | checksum | ns | GB/s | times FP64 |'
echo '|---|---|---|---|---|'
awk '/^BenchmarkChecksums/ {
    sub(/^BenchmarkChecksums\//, ""); sub(/-[0-9]+$/, "", $1)
    if (!($1 in least)) order[++n] = $1
    if (!($1 in least) || $3 < least[$1]) least[$1] = $3
  }
  END {
    for (i = 1; i <= n; i++) {
      split(order[i], part, "B/"); t = least[order[i]]
      if (part[2] == "fp64") base = t
      printf "| %d | %s | %.1f | %.2f | %.1f |\n", part[1], part[2], t, part[1] / t, t / base
    }
  }' "$out"
